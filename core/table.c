/* table.c - table objects, and changing all indexes of a version together (see table.h). */
#include "table.h"

#include "key.h"
#include "mem.h"

#include <assert.h>

/* ---------------------------------------------------------------- definition */

static int ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Names compare without regard to ASCII case, as SQL's do. */
static bool names_equal(const char *a, const char *b)
{
    while (*a && ascii_lower(*a) == ascii_lower(*b))
        a++, b++;
    return ascii_lower(*a) == ascii_lower(*b);
}

static int def_check(const sdb_table_def *def)
{
    if (def->n_columns < 1 || def->n_columns > SDB_MAX_COLUMNS || def->rowid_column < -1 ||
        def->rowid_column >= def->n_columns || def->n_indexes >= SDB_MAX_INDEXES)
        return SDB_MISUSE;
    if (strlen(def->name) > SDB_MAX_NAME)
        return SDB_TOOBIG;
    for (int i = 0; i < def->n_indexes; i++) {
        const sdb_index_def *index = &def->indexes[i];
        if (strlen(index->name) > SDB_MAX_NAME)
            return SDB_TOOBIG;
        if (index->n_parts < 1)
            return SDB_MISUSE;
        for (int p = 0; p < index->n_parts; p++)
            if (index->parts[p].column >= def->n_columns || index->parts[p].collation > SDB_RTRIM)
                return SDB_MISUSE;
        for (int o = 0; o < i; o++)
            if (names_equal(index->name, def->indexes[o].name))
                return SDB_EXISTS;
    }
    return SDB_OK;
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

size_t sdb_version_size(const sdb_table *table)
{
    return sizeof(sdb_version) + (size_t)table->n_indexes * sizeof(sdb_link);
}

sdb_version *sdb_version_new(const sdb_table *table)
{
    sdb_version *v = sdb_zalloc(sdb_version_size(table));
    if (v)
        v->table = (sdb_table *)(uintptr_t)table;
    return v;
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
    t->index = sdb_zalloc((def->n_indexes + 1u) * sizeof *t->index);
    rc = t->sql && t->index && sdb_table_add_name(t, def->name) ? sdb_arena_init(&t->arena, budget)
                                                                : SDB_NOMEM;
    if (rc != SDB_OK)
        goto fail;
    memcpy(t->sql, def->sql ? def->sql : "", n_sql);
    for (; t->n_indexes <= def->n_indexes; t->n_indexes++) {
        rc = sdb_index_init(&t->index[t->n_indexes],
                            t->n_indexes ? &def->indexes[t->n_indexes - 1] : NULL, t->n_columns,
                            t->rowid_column);
        if (rc != SDB_OK)
            goto fail;
    }
    *version = sdb_version_new(t);
    if (!*version) {
        rc = SDB_NOMEM;
        goto fail;
    }
    (*version)->name = t->names->text;
    t->n_versions = 1;
    *out = t;
    return SDB_OK;
fail:
    sdb_table_unref(t);
    return rc;
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
    for (int i = 0; i < table->n_indexes; i++)
        sdb_index_fini(&table->index[i]);
    sdb_free(table->index);
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
    return table->n_indexes - 1;
}

const sdb_index_def *sdb_table_index(const sdb_table *table, int index)
{
    assert(index >= 1 && index < table->n_indexes);
    return &table->index[index].def;
}

sdb_value sdb_row_value(const sdb_table *table, const sdb_row *row, int column)
{
    return sdb_row_get(row, column, table->n_columns, table->rowid_column);
}

/* ---------------------------------------------------------------- keys */

int sdb_keys_of_values(sdb_keys *keys, const sdb_table *table, int64_t rowid,
                       const sdb_value *values)
{
    keys->buf.n = 0;
    keys->is_free = 0;
    for (int i = 0; i < table->n_indexes; i++) {
        bool is_free;
        int rc = sdb_index_key(&table->index[i], rowid, values, &keys->buf, &is_free);
        if (rc != SDB_OK)
            return rc;
        keys->end[i] = keys->buf.n;
        keys->is_free |= (uint64_t)is_free << i;
    }
    return SDB_OK;
}

int sdb_keys_of_row(sdb_keys *keys, const sdb_table *table, const sdb_row *row)
{
    keys->buf.n = 0;
    for (int i = 0; i < table->n_indexes; i++) {
        int rc = sdb_index_row_key(&table->index[i], row, &keys->buf);
        if (rc != SDB_OK)
            return rc;
        keys->end[i] = keys->buf.n;
    }
    return SDB_OK;
}

/* ---------------------------------------------------------------- versions */

uint64_t sdb_version_count(const sdb_version *v)
{
    return sdb_radix_count(v->table->arena.base, v->root[SDB_BY_ROWID]);
}

static const sdb_row *find(const sdb_version *v, int index, const uint8_t *key, size_t len)
{
    const sdb_table *t = v->table;
    sdb_link link =
        sdb_radix_get(&t->index[index].leaves, t->arena.base, v->root[index], key, len);
    return link ? sdb_row_at(t, link) : NULL;
}

const sdb_row *sdb_version_get(const sdb_version *v, int64_t rowid)
{
    uint8_t key[SDB_ROWID_KEY];
    sdb_key_put_rowid(key, rowid);
    return find(v, SDB_BY_ROWID, key, sizeof key);
}

const sdb_row *sdb_version_find(const sdb_version *v, int index, const sdb_keys *keys)
{
    size_t len;
    const uint8_t *key = sdb_key_at(keys, index, &len);
    return find(v, index, key, len);
}

int sdb_version_reserve(sdb_edit *edit, const sdb_table *table, const sdb_keys *new_keys,
                        const sdb_keys *old_keys, bool limited)
{
    size_t bytes = 0, links = 1; /* the old row */
    for (int i = 0; i < table->n_indexes; i++) {
        for (int side = 0; side < 2; side++) {
            const sdb_keys *keys = side ? old_keys : new_keys;
            size_t len;
            if (!keys)
                continue;
            sdb_key_at(keys, i, &len);
            bytes += sdb_radix_need(edit->arena, len);
            links += sdb_radix_need_links(edit->arena, len);
        }
    }
    int rc = sdb_arena_reserve(edit->arena, bytes, limited);
    return rc == SDB_OK ? sdb_links_reserve(&edit->retired, links) : rc;
}

void sdb_row_free(sdb_table *table, sdb_link link)
{
    sdb_arena_free(&table->arena, link,
                   sdb_row_size(sdb_row_at(table, link), table->n_columns, table->rowid_column));
}

void sdb_version_change(sdb_version *v, sdb_edit *edit, const sdb_row *row, const sdb_keys *keys,
                        const sdb_row *old, const sdb_keys *old_keys)
{
    sdb_table *t = v->table;
    sdb_link link = row ? sdb_row_link(t, row) : 0, old_link = old ? sdb_row_link(t, old) : 0;
    for (int i = 0; i < t->n_indexes; i++) {
        const sdb_leaves *leaves = &t->index[i].leaves;
        size_t len = 0, old_len = 0;
        const uint8_t *key = row ? sdb_key_at(keys, i, &len) : NULL;
        const uint8_t *old_key = old ? sdb_key_at(old_keys, i, &old_len) : NULL;
        if (old && !(row && len == old_len && memcmp(key, old_key, len) == 0)) {
            sdb_link gone = sdb_radix_del(leaves, edit, &v->root[i], old_key, old_len);
            assert(gone == old_link);
            (void)gone;
            old_key = NULL;
        }
        if (row) {
            sdb_link gone = sdb_radix_put(leaves, edit, &v->root[i], key, len, link);
            assert(gone == (old_key ? old_link : 0));
            (void)gone;
        }
    }
    if (old && old->stamp > edit->floor)
        sdb_row_free(t, old_link);
    else if (old)
        sdb_links_push(&edit->retired, old_link);
}

typedef struct sweep {
    sdb_table *table;
    uint64_t floor;
} sweep;

static void sweep_row(void *ctx, sdb_link link)
{
    const sweep *s = ctx;
    if (sdb_row_at(s->table, link)->stamp > s->floor)
        sdb_row_free(s->table, link);
}

void sdb_version_free_after(sdb_version *v, uint64_t floor)
{
    sweep s = {v->table, floor};
    /* The rows last: a walk reads no keys, but the leaves' links of the others must not dangle. */
    for (int i = v->table->n_indexes - 1; i >= 0; i--)
        sdb_radix_free(&v->table->arena, v->root[i], floor, i == SDB_BY_ROWID ? sweep_row : NULL,
                       &s);
}
