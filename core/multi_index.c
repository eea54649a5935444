/* multi_index.c - entries of rows in a tree (see multi_index.h). */
#include "multi_index.h"

#include "key.h"
#include "mem.h"

#include <assert.h>

static const sdb_leaves *rowid_leaves(const sdb_version *v)
{
    return &v->set->at[SDB_BY_ROWID]->leaves;
}

const sdb_row *sdb_entry_row(const uint8_t *base, sdb_link by_rowid, const sdb_entry *entry)
{
    sdb_link link = sdb_index_row(base, by_rowid, entry->rowid);
    assert(link); /* an entry goes with its row */
    return sdb_at(base, link);
}

/* ---------------------------------------------------------------- from one set to another */

/* The keys that are in one of two sets only. */
typedef struct changes {
    sdb_set new_set, old_set;
    sdb_key_item *new_item, *old_item; /* the next ones, or NULL */
} changes;

static changes changes_between(int index, const sdb_keys *keys, const sdb_keys *old_keys)
{
    changes c = {.new_item = NULL};
    if (keys && old_keys && old_keys->is_same >> index & 1)
        return c;
    if (keys)
        c.new_set = sdb_keys_set(keys, index);
    if (old_keys)
        c.old_set = sdb_keys_set(old_keys, index);
    c.new_item = sdb_set_next(&c.new_set);
    c.old_item = sdb_set_next(&c.old_set);
    return c;
}

/* The next of them, or NULL. */
static sdb_key_item *changes_next(changes *c, bool *is_gone)
{
    while (c->new_item || c->old_item) {
        sdb_key_item *a = c->new_item, *b = c->old_item;
        int order = !a ? 1 : !b ? -1 : sdb_key_compare(a->key, a->n, b->key, b->n);
        if (order <= 0)
            c->new_item = sdb_set_next(&c->new_set);
        if (order >= 0)
            c->old_item = sdb_set_next(&c->old_set);
        *is_gone = order > 0;
        if (order != 0)
            return order < 0 ? a : b;
    }
    return NULL;
}

static int entry_new(const sdb_table *t, sdb_arena *a, const sdb_key_item *item, sdb_link *out)
{
    uint32_t n = item->n - SDB_ROWID_KEY;
    int rc = sdb_arena_alloc(a, sdb_entry_size(n), out);
    if (rc != SDB_OK)
        return rc;
    sdb_entry *e = sdb_at(t->arena.base, *out);
    e->rowid = sdb_key_rowid(item->key + n);
    e->stamp = SDB_IS_ENTRY;
    e->n = n;
    memcpy(e->key, item->key, n);
    return SDB_OK;
}

int sdb_multi_prepare(const sdb_version *v, int index, const sdb_keys *keys,
                      const sdb_keys *old_keys, size_t *bytes, size_t *links)
{
    sdb_table *t = v->table;
    changes c = changes_between(index, keys, old_keys);
    size_t n = 0, len = 0;
    bool is_gone;
    for (sdb_key_item *item; (item = changes_next(&c, &is_gone)) != NULL; n++) {
        int rc = is_gone ? SDB_OK : entry_new(t, &t->arena, item, &item->entry);
        if (rc != SDB_OK)
            return rc;
        len += item->n;
    }
    if (n > 0) {
        *bytes += sdb_radix_need_many(&t->arena, len, n);
        *links += sdb_radix_need_links_many(&t->arena, len, n) + n; /* and the entries that go */
    }
    return SDB_OK;
}

void sdb_multi_forget(const sdb_version *v, int index, const sdb_keys *keys)
{
    sdb_set set = sdb_keys_set(keys, index);
    for (sdb_key_item *item; (item = sdb_set_next(&set)) != NULL; item->entry = 0)
        if (item->entry)
            sdb_object_free(v->table, item->entry);
}

static void entry_drop(const sdb_version *v, sdb_edit *e, sdb_link entry)
{
    if (sdb_object_stamp(v->table, entry) > e->floor)
        sdb_object_free(v->table, entry);
    else
        sdb_links_push(&e->retired, entry);
}

void sdb_multi_change(sdb_version *v, sdb_edit *e, int index, const sdb_keys *keys,
                      const sdb_keys *old_keys)
{
    const sdb_leaves *leaves = &v->set->at[index]->leaves;
    sdb_link *root = &v->root[index];
    changes c = changes_between(index, keys, old_keys);
    bool is_gone;
    for (sdb_key_item *item; (item = changes_next(&c, &is_gone)) != NULL;) {
        if (is_gone) {
            sdb_link entry = sdb_radix_del(leaves, e, root, item->key, item->n);
            assert(entry);
            entry_drop(v, e, entry);
            continue;
        }
        ((sdb_entry *)sdb_at(e->arena->base, item->entry))->stamp |= e->stamp;
        sdb_link gone = sdb_radix_put(leaves, e, root, item->key, item->n, item->entry);
        assert(!gone);
        (void)gone;
        item->entry = 0;
    }
}

/* ---------------------------------------------------------------- unique indexes */

/* In a unique index: the entry of a key's value, whatever its row, or NULL. NULL is no such value. */
static const sdb_entry *entry_find(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                                   const sdb_key_item *item)
{
    size_t n = item->n - SDB_ROWID_KEY;
    sdb_link link = n > 1 ? sdb_radix_any(leaves, base, root, item->key, n) : 0;
    return link ? sdb_at(base, link) : NULL;
}

const sdb_row *sdb_multi_clash(const sdb_version *v, int index, const sdb_keys *keys,
                               const sdb_row *except)
{
    const uint8_t *base = v->table->arena.base;
    sdb_set set = sdb_keys_set(keys, index);
    for (sdb_key_item *item; (item = sdb_set_next(&set)) != NULL;) {
        const sdb_entry *e = entry_find(&v->set->at[index]->leaves, base, v->root[index], item);
        if (e && (!except || e->rowid != except->rowid))
            return sdb_entry_row(base, v->root[SDB_BY_ROWID], e);
    }
    return NULL;
}

/* ---------------------------------------------------------------- the whole index */

static void entry_free(void *ctx, sdb_link entry)
{
    sdb_object_free(ctx, entry);
}

/* Put the entries of a row into a tree under construction. */
static int build_row(const sdb_version *v, sdb_edit *e, const sdb_index *index, const sdb_row *row,
                     sdb_buf *buf, sdb_link *root)
{
    sdb_value value = sdb_row_value(v->table, row, index->def.parts[0].column);
    buf->n = 0;
    int rc = sdb_set_build(&index->def, row->rowid, &value, buf);
    sdb_set set = {buf->at, sdb_buf_at(buf, buf->n)};
    for (sdb_key_item *item; rc == SDB_OK && (item = sdb_set_next(&set)) != NULL;) {
        if (index->def.unique && entry_find(&index->leaves, e->arena->base, *root, item))
            return SDB_DUPLICATE;
        sdb_link entry;
        rc = entry_new(v->table, e->arena, item, &entry);
        if (rc != SDB_OK)
            return rc;
        rc = sdb_arena_reserve(e->arena, sdb_radix_need(e->arena, item->n), true);
        if (rc != SDB_OK) {
            sdb_object_free(v->table, entry);
            return rc;
        }
        ((sdb_entry *)sdb_at(e->arena->base, entry))->stamp |= e->stamp;
        sdb_radix_put(&index->leaves, e, root, item->key, item->n, entry);
    }
    return rc;
}

int sdb_multi_build(const sdb_version *v, sdb_edit *e, const sdb_index *index, sdb_link *root)
{
    sdb_buf buf = {0};
    sdb_iter it;
    *root = 0;
    sdb_iter_init(&it);
    sdb_iter_open(&it, rowid_leaves(v), e->arena->base, v->root[SDB_BY_ROWID]);
    uint64_t n = 0;
    int rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        rc = sdb_stop_due(e->stop, n++) ? SDB_INTERRUPTED : SDB_OK;
        if (rc == SDB_OK)
            rc = build_row(v, e, index, sdb_row_at(v->table, it.leaf), &buf, root);
        if (rc == SDB_OK)
            rc = sdb_iter_next(&it);
    }
    if (rc != SDB_DONE) {
        sdb_radix_free(e->arena, *root, e->floor, entry_free, v->table);
        *root = 0;
    }
    sdb_iter_fini(&it);
    sdb_buf_fini(&buf);
    return rc == SDB_DONE ? SDB_OK : rc;
}

int sdb_multi_retire(const sdb_version *v, sdb_edit *e, int index)
{
    sdb_link root = v->root[index];
    size_t before = e->retired.n, n = (size_t)sdb_radix_count(e->arena->base, root);
    sdb_links own = {0}; /* entries that nobody else sees: to be freed when nothing can fail any more */
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &v->set->at[index]->leaves, e->arena->base, root);
    int rc = n ? sdb_links_reserve(&own, n) : SDB_OK;
    if (rc == SDB_OK)
        rc = sdb_links_reserve(&e->retired, n);
    if (rc == SDB_OK)
        rc = sdb_iter_first(&it);
    for (; rc == SDB_OK; rc = sdb_iter_next(&it)) {
        bool is_own = sdb_object_stamp(v->table, it.leaf) > e->floor;
        sdb_links_push(is_own ? &own : &e->retired, it.leaf);
    }
    if (rc == SDB_DONE)
        rc = sdb_radix_retire(e, root);
    if (rc != SDB_OK)
        e->retired.n = before;
    for (size_t i = 0; rc == SDB_OK && i < own.n; i++)
        sdb_object_free(v->table, own.at[i]);
    sdb_iter_fini(&it);
    sdb_links_fini(&own);
    return rc;
}

/* ---------------------------------------------------------------- check */

/* Every key of every row is in the tree. *n: how many there are. */
static const char *check_rows(const sdb_version *v, int i, uint64_t *n)
{
    const sdb_index *index = v->set->at[i];
    const uint8_t *base = v->table->arena.base;
    const char *wrong = NULL;
    sdb_buf buf = {0};
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, rowid_leaves(v), base, v->root[SDB_BY_ROWID]);
    int rc = sdb_iter_first(&it);
    for (; rc == SDB_OK && !wrong; rc = rc == SDB_OK ? sdb_iter_next(&it) : rc) {
        const sdb_row *row = sdb_row_at(v->table, it.leaf);
        sdb_value value = sdb_row_value(v->table, row, index->def.parts[0].column);
        buf.n = 0;
        rc = sdb_set_build(&index->def, row->rowid, &value, &buf);
        sdb_set set = {buf.at, sdb_buf_at(&buf, buf.n)};
        for (sdb_key_item *item; rc == SDB_OK && (item = sdb_set_next(&set)) != NULL; ++*n)
            if (!sdb_radix_get(&index->leaves, base, v->root[i], item->key, item->n))
                wrong = "a key of a row is not in the index";
    }
    if (rc < 0)
        wrong = rc == SDB_NOMEM ? "there is no memory to check the table with"
                                : "the extractor refuses a row that it has let in";
    sdb_iter_fini(&it);
    sdb_buf_fini(&buf);
    return wrong;
}

/* No value but NULL is there twice, and every leaf is an entry. */
static const char *check_entries(const sdb_version *v, int i)
{
    const char *wrong = NULL;
    const sdb_entry *last = NULL;
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &v->set->at[i]->leaves, v->table->arena.base, v->root[i]);
    int rc = sdb_iter_first(&it);
    for (; rc == SDB_OK && !wrong; rc = sdb_iter_next(&it)) {
        const sdb_entry *e = sdb_at(v->table->arena.base, it.leaf);
        bool is_same = last && e->n > 1 && e->n == last->n && memcmp(e->key, last->key, e->n) == 0;
        if (!(e->stamp & SDB_IS_ENTRY))
            wrong = "a leaf is no entry";
        else if (is_same && v->set->at[i]->def.unique)
            wrong = "two rows have a key of a unique index";
        last = e;
    }
    if (rc == SDB_NOMEM)
        wrong = "there is no memory to check the table with";
    sdb_iter_fini(&it);
    return wrong;
}

const char *sdb_multi_check(const sdb_version *v, int i)
{
    uint64_t entries, keys = 0;
    const char *wrong = sdb_radix_check(&v->set->at[i]->leaves, v->table->arena.base, v->root[i],
                                        SDB_STAMP_MAX, &entries);
    if (!wrong)
        wrong = check_entries(v, i);
    if (!wrong)
        wrong = check_rows(v, i, &keys);
    if (!wrong && keys != entries)
        wrong = "the index has more entries than the rows have keys";
    return wrong;
}
