/* table.c - table objects, and changing all indexes of a version together (see table.h). */
#include "table.h"

#include "key.h"
#include "lpm_index.h"
#include "mem.h"
#include "multi_index.h"
#include "watch.h"

#include <assert.h>

/* ---------------------------------------------------------------- definition */

int sdb_index_def_check(const sdb_index_def *def, int n_columns)
{
    if (strlen(def->name) > SDB_MAX_NAME)
        return SDB_TOOBIG;
    for (int p = 0; p < def->n_parts; p++) {
        bool is_revision = def->parts[p].column == SDB_REVISION_COLUMN;
        if (is_revision ? def->unique || def->kind != SDB_RADIX : def->parts[p].column >= n_columns)
            return SDB_MISUSE;
        if (def->parts[p].collation > SDB_RTRIM)
            return SDB_MISUSE;
    }
    if (def->kind > SDB_MULTI || def->n_parts < 1 || (def->kind != SDB_RADIX && def->n_parts > 1))
        return SDB_MISUSE;
    return def->kind == SDB_MULTI && !def->extract ? SDB_MISUSE : SDB_OK;
}

static int def_check(const sdb_table_def *def)
{
    if (def->n_columns < 1 || def->n_columns > SDB_MAX_COLUMNS || def->rowid_column < -1 ||
        def->rowid_column >= def->n_columns || def->n_indexes >= SDB_MAX_INDEXES)
        return SDB_MISUSE;
    if (strlen(def->name) > SDB_MAX_NAME)
        return SDB_TOOBIG;
    int rc = SDB_OK;
    for (int i = 0; i < def->n_indexes && rc == SDB_OK; i++)
        rc = sdb_index_def_check(&def->indexes[i], def->n_columns);
    return rc;
}

const char *sdb_table_add_name(sdb_table *table, const char *name)
{
    size_t n = strlen(name) + 1;
    sdb_name *copy = sdb_malloc(sizeof *copy + n);
    if (!copy)
        return NULL;
    memcpy(copy->text, name, n);
    copy->next = table->names;
    table->names = copy;
    return copy->text;
}

/* Index 0 and those of the definition. */
static int indexes_make(const sdb_table_def *def, sdb_indexes **out)
{
    sdb_indexes *set = *out = sdb_indexes_new(def->n_indexes + 1);
    for (int i = 0; set && i <= def->n_indexes; i++) {
        const sdb_index_def *index = i ? &def->indexes[i - 1] : NULL;
        if (index && sdb_indexes_find(set, index->name))
            return SDB_EXISTS;
        sdb_index *made = sdb_index_new(index, def->n_columns, def->rowid_column);
        if (!made)
            return SDB_NOMEM;
        sdb_indexes_add(set, made);
    }
    return set ? SDB_OK : SDB_NOMEM;
}

int sdb_table_new(sdb_db *db, sdb_budget *budget, const sdb_table_def *def, sdb_table **out,
                  sdb_version **version)
{
    int rc = def_check(def);
    if (rc != SDB_OK)
        return rc;
    sdb_table *t = sdb_zalloc(sizeof *t);
    if (!t)
        return SDB_NOMEM;
    t->n_ref = 1;
    t->db = db;
    t->n_columns = def->n_columns;
    t->rowid_column = def->rowid_column;
    size_t n_sql = def->sql ? strlen(def->sql) + 1 : 1;
    t->sql = sdb_malloc(n_sql);
    rc = t->sql && sdb_table_add_name(t, def->name) ? indexes_make(def, &t->set) : SDB_NOMEM;
    if (rc == SDB_OK)
        rc = sdb_arena_init(&t->arena, budget);
    if (rc == SDB_OK && !(*version = sdb_version_new(t, t->set, t->set->n)))
        rc = SDB_NOMEM;
    if (rc != SDB_OK) {
        sdb_table_unref(t);
        return rc;
    }
    memcpy(t->sql, def->sql ? def->sql : "", n_sql);
    (*version)->name = t->names->text;
    t->n_versions = 1;
    *out = t;
    return SDB_OK;
}

sdb_table *sdb_table_ref(sdb_table *table)
{
    atomic_fetch_add_explicit(&table->n_ref, 1, memory_order_relaxed);
    return table;
}

void sdb_table_unref(sdb_table *table)
{
    /* acq_rel: whoever frees it has seen all that the others did with it */
    if (!table || atomic_fetch_sub_explicit(&table->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    sdb_arena_fini(&table->arena);
    sdb_reclaim_fini(&table->reclaim);
    sdb_version_free(table->idle);
    sdb_indexes_unref(table->set);
    while (table->names) {
        sdb_name *name = table->names;
        table->names = name->next;
        sdb_free(name);
    }
    sdb_free(table->sql);
    sdb_free(table);
}

const char *sdb_table_name(const sdb_table *table)
{
    const sdb_name *name = table->names;
    while (name->next)
        name = name->next;
    return name->text;
}

const char *sdb_table_sql(const sdb_table *table)
{
    return table->sql;
}

uint64_t sdb_table_id(const sdb_table *table)
{
    return table->id;
}

int sdb_table_columns(const sdb_table *table)
{
    return table->n_columns;
}

int sdb_table_indexes(const sdb_table *table)
{
    return table->set->n - 1;
}

const sdb_index_def *sdb_table_index(const sdb_table *table, int index)
{
    return sdb_indexes_def(table->set, index);
}

sdb_value sdb_row_value(const sdb_table *table, const sdb_row *row, int column)
{
    if (column < 0 || column >= table->n_columns)
        return (sdb_value){.type = SDB_NULL};
    return sdb_row_get(row, column, table->n_columns, table->rowid_column);
}

/* ---------------------------------------------------------------- keys */

/* The key in index 0. */
static int keys_begin(sdb_keys *keys, int64_t rowid)
{
    int rc = sdb_buf_reserve(&keys->buf, SDB_ROWID_KEY);
    if (rc != SDB_OK)
        return rc;
    sdb_key_put_rowid(keys->buf.at, rowid);
    keys->end[SDB_BY_ROWID] = keys->buf.n = SDB_ROWID_KEY;
    return SDB_OK;
}

int sdb_keys_of_values(sdb_keys *keys, const sdb_indexes *set, int64_t rowid,
                       const sdb_value *values)
{
    keys->buf.n = 0;
    keys->is_free = 0;
    int rc = keys_begin(keys, rowid);
    for (int i = SDB_BY_ROWID + 1; rc == SDB_OK && i < set->n; i++) {
        const sdb_index *index = set->at[i];
        bool is_free = false;
        if (index->def.kind == SDB_MULTI) {
            int column = index->def.parts[0].column;
            sdb_value id = {.type = SDB_INTEGER, .u.i = rowid};
            is_free = !index->def.unique;
            rc = sdb_set_build(&index->def, rowid,
                               column == index->rowid_column ? &id : &values[column], &keys->buf);
        } else {
            rc = sdb_index_key(index, rowid, values, &keys->buf, &is_free);
        }
        keys->end[i] = keys->buf.n;
        keys->is_free |= (uint64_t)is_free << i;
    }
    return rc;
}

/* Where they have not, the keys may be the same still: 1 and 1.0. */
static bool is_key_same(const sdb_index *index, const sdb_row *row, const sdb_row *next)
{
    if (index->has_revision)
        return false;
    for (int p = 0; p < index->def.n_parts; p++)
        if (!sdb_row_is_same(row, next, index->def.parts[p].column, index->n_columns, index->rowid_column))
            return false;
    return true;
}

uint64_t sdb_keys_same(const sdb_indexes *set, const sdb_row *row, const sdb_row *next)
{
    uint64_t is_same = 0;
    for (int i = 0; row->rowid == next->rowid && i < set->n; i++)
        is_same |= (uint64_t)is_key_same(set->at[i], row, next) << i;
    return is_same;
}

int sdb_keys_set_revision(sdb_keys *keys, const sdb_indexes *set, const sdb_row *row)
{
    size_t from = 0, n = keys->buf.n;
    for (int i = 0; set->has_revision && i < set->n; from = keys->end[i++]) {
        if (!set->at[i]->has_revision)
            continue;
        int rc = sdb_index_row_key(set->at[i], row, &keys->buf);
        if (rc != SDB_OK)
            return rc;
        assert(keys->buf.n - n == keys->end[i] - from); /* of a number below 2^53 it is as long as of 0 */
        memcpy(keys->buf.at + from, keys->buf.at + n, keys->end[i] - from);
        keys->buf.n = n;
    }
    return SDB_OK;
}

int sdb_keys_of_row(sdb_keys *keys, const sdb_indexes *set, const sdb_row *row, uint64_t is_same)
{
    keys->buf.n = 0;
    keys->is_same = is_same;
    if (is_same == sdb_indexes_all(set))
        return SDB_OK;
    int rc = keys_begin(keys, row->rowid);
    for (int i = SDB_BY_ROWID + 1; rc == SDB_OK && i < set->n; i++) {
        const sdb_index *index = set->at[i];
        if (!(is_same >> i & 1) && index->def.kind == SDB_MULTI) {
            sdb_value v = sdb_row_get(row, index->def.parts[0].column, index->n_columns,
                                      index->rowid_column);
            rc = sdb_set_build(&index->def, row->rowid, &v, &keys->buf);
        } else if (!(is_same >> i & 1)) {
            rc = sdb_index_row_key(index, row, &keys->buf);
        }
        keys->end[i] = keys->buf.n;
    }
    return rc;
}

/* ---------------------------------------------------------------- versions */

sdb_version *sdb_version_new(sdb_table *table, sdb_indexes *set, int room)
{
    assert(room >= set->n);
    sdb_version *v = sdb_zalloc(sizeof *v + (size_t)room * sizeof *v->root);
    if (!v)
        return NULL;
    v->table = table;
    v->room = room;
    v->set = sdb_indexes_ref(set);
    return v;
}

void sdb_version_free(sdb_version *v)
{
    if (v) {
        sdb_indexes_unref(v->set);
        sdb_history_unref(&v->history);
    }
    sdb_free(v);
}

void sdb_version_copy(sdb_version *to, const sdb_version *from)
{
    sdb_indexes *set = to->set;
    sdb_history history = to->history;
    to->name = from->name;
    to->revision = from->revision;
    to->sequence = from->sequence;
    to->history = sdb_history_ref(&from->history);
    to->set = sdb_indexes_ref(from->set);
    memcpy(to->root, from->root, (size_t)from->set->n * sizeof *to->root);
    sdb_indexes_unref(set);
    sdb_history_unref(&history);
}

uint64_t sdb_version_count(const sdb_version *v)
{
    return sdb_radix_count(v->table->arena.base, v->root[SDB_BY_ROWID]);
}

const sdb_row *sdb_version_get(const sdb_version *v, int64_t rowid)
{
    sdb_link link = sdb_index_row(v->table->arena.base, v->root[SDB_BY_ROWID], rowid);
    return link ? sdb_row_at(v->table, link) : NULL;
}

const sdb_row *sdb_version_find(const sdb_version *v, int index, const sdb_keys *keys,
                                const sdb_row *except, sdb_places *places)
{
    const sdb_table *t = v->table;
    const sdb_index *by = v->set->at[index];
    size_t len;
    if (by->def.kind == SDB_MULTI)
        return sdb_multi_clash(v, index, keys, except);
    const uint8_t *key = sdb_key_at(keys, index, &len);
    sdb_link link;
    if (by->def.kind == SDB_LPM) {
        link = sdb_lpm_index_find(v, index, key, len);
    } else {
        link = sdb_radix_find(&by->leaves, t->arena.base, &v->root[index], key, len,
                              &places->at[index]);
        places->is_known |= (uint64_t)1 << index;
    }
    return link ? sdb_row_at(t, link) : NULL;
}

int sdb_version_reserve(const sdb_version *v, sdb_edit *edit, const sdb_keys *new_keys,
                        const sdb_keys *old_keys, bool limited)
{
    size_t bytes = 0, links = 1; /* the old row */
    size_t len = 0, n = 0; /* keys put into trees of rows, or taken out */
    int rc = SDB_OK;
    if (v->history.feeds) {
        bytes = sdb_history_need(edit->arena);
        links += sdb_history_need_links(edit->arena);
    }
    if (!v->set->has_others) {
        len = (new_keys ? new_keys->buf.n : 0) + (old_keys ? old_keys->buf.n : 0);
        n = 2 * (size_t)v->set->n;
    }
    for (int i = 0; v->set->has_others && i < v->set->n && rc == SDB_OK; i++) {
        uint8_t kind = v->set->at[i]->def.kind;
        if (kind == SDB_MULTI) {
            rc = sdb_multi_prepare(v, i, new_keys, old_keys, &bytes, &links);
            continue;
        }
        for (int side = 0; side < 2; side++) {
            const sdb_keys *keys = side ? old_keys : new_keys;
            size_t key_len;
            if (!keys || (side && old_keys->is_same >> i & 1))
                continue;
            const uint8_t *key = sdb_key_at(keys, i, &key_len);
            if (kind == SDB_LPM) {
                bytes += sdb_lpm_index_need(edit->arena, key, key_len);
                links += sdb_lpm_index_need_links(edit->arena);
            } else {
                len += key_len;
                n++;
            }
        }
    }
    bytes += sdb_radix_need_many(edit->arena, len, n);
    links += sdb_radix_need_links_many(edit->arena, len, n);
    if (rc == SDB_OK)
        rc = sdb_arena_reserve(edit->arena, bytes, limited);
    if (rc == SDB_OK)
        rc = sdb_links_reserve(&edit->retired, links);
    for (int i = 0; i < v->set->n && rc != SDB_OK && new_keys; i++)
        if (v->set->at[i]->def.kind == SDB_MULTI)
            sdb_multi_forget(v, i, new_keys);
    return rc;
}

static inline const sdb_entry *entry_at(const sdb_table *t, sdb_link link)
{
    const sdb_entry *e = sdb_at(t->arena.base, link);
    return e->stamp & SDB_IS_ENTRY ? e : NULL;
}

uint64_t sdb_object_stamp(const sdb_table *t, sdb_link link)
{
    return link & SDB_LEAF ? sdb_row_stamp(sdb_row_at(t, link)) /* an entry's too */
                           : sdb_node_stamp(sdb_at(t->arena.base, link));
}

size_t sdb_object_size(const sdb_table *t, sdb_link link)
{
    if (!(link & SDB_LEAF))
        return sdb_lpm_index_node_size(sdb_at(t->arena.base, link));
    const sdb_entry *e = entry_at(t, link);
    return e ? sdb_entry_size(e->n)
             : sdb_row_size(sdb_row_at(t, link), t->n_columns, t->rowid_column);
}

void sdb_object_free(sdb_table *t, sdb_link link)
{
    sdb_arena_free(&t->arena, link, sdb_object_size(t, link));
}

/* Put a row into a tree that does not have its key. */
static void row_add(sdb_version *v, sdb_edit *edit, int i, sdb_link row, const sdb_keys *keys,
                    const sdb_places *places)
{
    size_t len;
    const uint8_t *key = sdb_key_at(keys, i, &len);
    if (places && places->is_known >> i & 1) {
        assert(!places->at[i].leaf);
        sdb_radix_put_at(edit, &v->root[i], key, len, &places->at[i], row);
        return;
    }
    sdb_link gone = sdb_radix_put(&v->set->at[i]->leaves, edit, &v->root[i], key, len, row);
    assert(!gone);
    (void)gone;
}

void sdb_version_change(sdb_version *v, sdb_edit *edit, const sdb_row *row, const sdb_keys *keys,
                        const sdb_places *places, const sdb_row *old, const sdb_keys *old_keys,
                        sdb_link grave)
{
    sdb_table *t = v->table;
    sdb_link link = row ? sdb_row_link(t, row) : 0, old_link = old ? sdb_row_link(t, old) : 0;
    for (int i = 0; i < v->set->n; i++) {
        bool is_same = old && old_keys->is_same >> i & 1;
        size_t len;
        if (v->set->at[i]->def.kind == SDB_LPM) {
            sdb_lpm_index_change(v, edit, i, row, keys, old, old_keys);
            continue;
        }
        if (v->set->at[i]->def.kind == SDB_MULTI) {
            sdb_multi_change(v, edit, i, row ? keys : NULL, old ? old_keys : NULL);
            continue;
        }
        if (is_same) {
            const uint8_t *key = sdb_key_at(keys, i, &len);
            sdb_radix_replace(edit, &v->root[i], key, len, old_link, link);
            continue;
        }
        if (old) {
            const uint8_t *key = sdb_key_at(old_keys, i, &len);
            sdb_radix_take(edit, &v->root[i], key, len, old_link);
        }
        if (row)
            row_add(v, edit, i, link, keys, old ? NULL : places);
    }
    sdb_count(&t->count[!row ? SDB_N_DELETED : old ? SDB_N_UPDATED : SDB_N_INSERTED], 1);
    if (atomic_load_explicit(&t->n_watches, memory_order_relaxed))
        sdb_watch_touch(t, v->set, row ? keys : NULL, old ? old_keys : NULL);
    if (v->history.feeds)
        sdb_history_change(v, edit, row, old, grave);
    if (old && sdb_row_stamp(old) > edit->floor)
        sdb_object_free(t, old_link);
    else if (old)
        sdb_links_push(&edit->retired, old_link);
}

bool sdb_version_overwrite(sdb_version *v, const sdb_edit *edit, const sdb_row *row,
                           const sdb_row *old, uint64_t is_same)
{
    sdb_table *t = v->table;
    uint64_t stamp = sdb_row_stamp(old);
    if (stamp <= edit->floor || is_same != sdb_indexes_all(v->set) || v->history.feeds ||
        atomic_load_explicit(&t->n_watches, memory_order_relaxed))
        return false;
    size_t size = sdb_row_size(row, t->n_columns, t->rowid_column);
    if (sdb_row_size(old, t->n_columns, t->rowid_column) != size)
        return false;
    sdb_row *to = (sdb_row *)(uintptr_t)old;
    memcpy(to, row, size);
    sdb_row_set_stamp(to, stamp); /* it is no younger than the nodes above it */
    sdb_arena_free(&t->arena, sdb_row_link(t, row), size);
    sdb_count(&t->count[SDB_N_UPDATED], 1);
    return true;
}

/* Some rows whose keys are put into a new tree together: so they wait together for what is on their ways. */
typedef struct group {
    int n;
    sdb_link row[SDB_TOGETHER];
    sdb_buf keys; /* key i up to end[i] */
    size_t end[SDB_TOGETHER];
} group;

/* The next rows and their keys, of long ones fewer. SDB_DONE: there are no more, though there may be some in
** the group. */
static int group_read(group *g, sdb_iter *it, const sdb_index *index, const sdb_stop *stop, uint64_t *n)
{
    enum { LONG = 1 << 16 };
    int rc = SDB_OK;
    g->keys.n = 0;
    for (g->n = 0; rc == SDB_OK && g->n < SDB_TOGETHER && g->keys.n < LONG; g->n++) {
        if (sdb_stop_due(stop, (*n)++))
            return SDB_INTERRUPTED;
        rc = sdb_index_row_key(index, sdb_at(it->base, it->leaf), &g->keys);
        if (rc != SDB_OK)
            return rc;
        g->end[g->n] = g->keys.n;
        g->row[g->n] = it->leaf;
        rc = sdb_iter_next(it);
    }
    return rc;
}

static int group_put(const group *g, sdb_edit *edit, const sdb_index *index, sdb_link *root)
{
    size_t need = sdb_radix_need_many(edit->arena, g->keys.n, (size_t)g->n), from = 0;
    int rc = sdb_arena_reserve(edit->arena, need, true);
    if (rc != SDB_OK)
        return rc;
    sdb_radix_expect_all(edit->arena->base, *root, g->keys.at, g->end, (size_t)g->n);
    for (int i = 0; i < g->n; i++) {
        if (sdb_radix_put(&index->leaves, edit, root, g->keys.at + from, g->end[i] - from, g->row[i]))
            return SDB_DUPLICATE;
        from = g->end[i];
    }
    return SDB_OK;
}

int sdb_version_build(const sdb_version *v, sdb_edit *edit, const sdb_index *index, sdb_link *root)
{
    const sdb_table *t = v->table;
    if (index->def.kind == SDB_LPM)
        return sdb_lpm_index_build(v, edit, index, root);
    if (index->def.kind == SDB_MULTI)
        return sdb_multi_build(v, edit, index, root);
    group g = {0};
    sdb_iter it;
    *root = 0;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &v->set->at[SDB_BY_ROWID]->leaves, t->arena.base, v->root[SDB_BY_ROWID]);
    uint64_t n = 0;
    int rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        rc = group_read(&g, &it, index, edit->stop, &n);
        if (rc == SDB_OK || rc == SDB_DONE) {
            int rc_put = group_put(&g, edit, index, root);
            rc = rc_put != SDB_OK ? rc_put : rc;
        }
    }
    if (rc != SDB_DONE) {
        sdb_radix_free(edit->arena, *root, edit->floor, NULL, NULL);
        *root = 0;
    }
    sdb_iter_fini(&it);
    sdb_buf_fini(&g.keys);
    return rc == SDB_DONE ? SDB_OK : rc;
}

typedef struct sweep {
    sdb_table *table;
    uint64_t floor;
} sweep;

static void sweep_leaf(void *ctx, sdb_link link)
{
    const sweep *s = ctx;
    if (sdb_object_stamp(s->table, link) > s->floor)
        sdb_object_free(s->table, link);
}

void sdb_version_free_after(sdb_version *v, uint64_t floor)
{
    sweep s = {v->table, floor};
    sdb_history_free_after(v, floor);
    /* The rows last: a walk reads no keys, but the leaves' links of the others must not dangle. */
    for (int i = v->set->n - 1; i >= 0; i--) {
        uint8_t kind = v->set->at[i]->def.kind;
        if (kind == SDB_LPM)
            sdb_lpm_index_free(&v->table->arena, v->root[i], floor);
        else
            sdb_radix_free(&v->table->arena, v->root[i], floor,
                           i == SDB_BY_ROWID || kind == SDB_MULTI ? sweep_leaf : NULL, &s);
    }
}
