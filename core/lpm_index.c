/* lpm_index.c - rows in a tree of prefixes (see lpm_index.h). */
#include "lpm_index.h"

#include "key.h"
#include "mem.h"

#include <assert.h>

static sdb_prefix prefix_of(const uint8_t *key, size_t len)
{
    sdb_prefix p;
    assert(len == sizeof p);
    (void)len;
    memcpy(&p, key, sizeof p);
    return p;
}

static const sdb_leaves *rowid_leaves(const sdb_version *v)
{
    return &v->set->at[SDB_BY_ROWID]->leaves;
}

sdb_link sdb_lpm_index_first(const uint8_t *base, sdb_link rows)
{
    while (rows && !(rows & SDB_LEAF)) {
        const sdb_node *n = sdb_at(base, rows);
        rows = sdb_node_child(n, sdb_node_next(n, SDB_POS_LEAF));
    }
    return rows;
}

sdb_link sdb_lpm_index_find(const sdb_version *v, int index, const uint8_t *key, size_t len)
{
    const uint8_t *base = v->table->arena.base;
    if (len == 0)
        return 0;
    sdb_prefix p = prefix_of(key, len);
    return sdb_lpm_index_first(base, sdb_lpm_get(base, v->root[index], &p));
}

size_t sdb_lpm_index_need(const sdb_arena *a, const uint8_t *key, size_t len)
{
    if (len == 0)
        return 0;
    sdb_prefix p = prefix_of(key, len);
    return sdb_lpm_need(a, &p) + sdb_radix_need(a, SDB_ROWID_KEY);
}

size_t sdb_lpm_index_need_links(const sdb_arena *a)
{
    return SDB_LPM_DEPTH + 8 + sdb_radix_need_links(a, SDB_ROWID_KEY);
}

/* ---------------------------------------------------------------- changes */

static void row_put(const sdb_version *v, sdb_edit *e, sdb_link *root, const sdb_prefix *p,
                    const sdb_row *row)
{
    uint8_t key[SDB_ROWID_KEY];
    sdb_key_put_rowid(key, row->rowid);
    sdb_link rows = sdb_lpm_get(e->arena->base, *root, p), before = rows;
    sdb_radix_put(rowid_leaves(v), e, &rows, key, sizeof key, sdb_row_link(v->table, row));
    if (rows != before)
        sdb_lpm_put(e, root, p, rows);
}

static void row_take(const sdb_version *v, sdb_edit *e, sdb_link *root, const sdb_prefix *p,
                     const sdb_row *row)
{
    uint8_t key[SDB_ROWID_KEY];
    sdb_key_put_rowid(key, row->rowid);
    sdb_link rows = sdb_lpm_get(e->arena->base, *root, p), before = rows;
    sdb_radix_take(e, &rows, key, sizeof key, sdb_row_link(v->table, row));
    if (!rows)
        sdb_lpm_del(e, root, p);
    else if (rows != before)
        sdb_lpm_put(e, root, p, rows);
}

void sdb_lpm_index_change(sdb_version *v, sdb_edit *e, int index, const sdb_row *row,
                          const sdb_keys *keys, const sdb_row *old, const sdb_keys *old_keys)
{
    sdb_link *root = &v->root[index];
    size_t len;
    /* With the same prefix the new row takes the old one's place, unless its rowid is another. */
    bool is_same = old && old_keys->is_same >> index & 1;
    if (old && (!is_same || !row || row->rowid != old->rowid)) {
        const uint8_t *key = is_same ? sdb_key_at(keys, index, &len) : sdb_key_at(old_keys, index, &len);
        if (len > 0) {
            sdb_prefix p = prefix_of(key, len);
            row_take(v, e, root, &p, old);
        }
    }
    if (row) {
        const uint8_t *key = sdb_key_at(keys, index, &len);
        if (len > 0) {
            sdb_prefix p = prefix_of(key, len);
            row_put(v, e, root, &p, row);
        }
    }
}

static void rows_free(void *ctx, sdb_link link)
{
    const struct {
        sdb_arena *arena;
        uint64_t floor;
    } *f = ctx;
    sdb_radix_free(f->arena, link, f->floor, NULL, NULL);
}

void sdb_lpm_index_free(sdb_arena *a, sdb_link root, uint64_t floor)
{
    struct {
        sdb_arena *arena;
        uint64_t floor;
    } f = {a, floor};
    sdb_lpm_free(a, root, floor, rows_free, &f);
}

int sdb_lpm_index_build(const sdb_version *v, sdb_edit *e, const sdb_index *index, sdb_link *root)
{
    sdb_buf key = {0};
    sdb_iter it;
    *root = 0;
    sdb_iter_init(&it);
    sdb_iter_open(&it, rowid_leaves(v), e->arena->base, v->root[SDB_BY_ROWID]);
    uint64_t n = 0;
    int rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        key.n = 0;
        rc = sdb_stop_due(e->stop, n++) ? SDB_INTERRUPTED : SDB_OK;
        if (rc == SDB_OK)
            rc = sdb_index_row_key(index, sdb_row_at(v->table, it.leaf), &key);
        if (rc == SDB_OK && key.n > 0) {
            sdb_prefix p = prefix_of(key.at, key.n);
            if (index->def.unique && sdb_lpm_get(e->arena->base, *root, &p))
                rc = SDB_DUPLICATE;
            if (rc == SDB_OK)
                rc = sdb_arena_reserve(e->arena, sdb_lpm_index_need(e->arena, key.at, key.n), true);
            if (rc == SDB_OK)
                row_put(v, e, root, &p, sdb_row_at(v->table, it.leaf));
        }
        if (rc == SDB_OK)
            rc = sdb_iter_next(&it);
    }
    if (rc != SDB_DONE) {
        sdb_lpm_index_free(e->arena, *root, e->floor);
        *root = 0;
    }
    sdb_iter_fini(&it);
    sdb_buf_fini(&key);
    return rc == SDB_DONE ? SDB_OK : rc;
}

/* ---------------------------------------------------------------- dropping the index */

size_t sdb_lpm_index_node_size(const sdb_node *n)
{
    sdb_kind kind = sdb_node_kind(n);
    return kind < SDB_NODE_KINDS ? sdb_node_size[kind] : sdb_lpm_size(n);
}

/* Push the links of a node that are nodes; of a leaf, its one. */
static int links_push(sdb_links *out, const sdb_node *n)
{
    if ((unsigned)sdb_node_kind(n) == SDB_LPM_LEAF) {
        sdb_link link = ((const sdb_lpm_leaf *)n)->link;
        int rc = sdb_links_reserve(out, 1);
        if (rc == SDB_OK && !(link & SDB_LEAF))
            sdb_links_push(out, link);
        return rc;
    }
    if ((unsigned)sdb_node_kind(n) != SDB_LPM_NODE) {
        int rc = sdb_links_reserve(out, sdb_node_children(n));
        for (int pos = sdb_node_next(n, SDB_POS_LEAF); rc == SDB_OK && pos != SDB_POS_NONE;
             pos = sdb_node_next(n, pos))
            if (!(sdb_node_child(n, pos) & SDB_LEAF))
                sdb_links_push(out, sdb_node_child(n, pos));
        return rc;
    }
    const sdb_lpm_node *p = (const sdb_lpm_node *)n;
    unsigned path = (unsigned)(p->head >> 4 & 7);
    unsigned links = (unsigned)__builtin_popcount(p->children) +
                     (unsigned)__builtin_popcountll(p->prefixes);
    int rc = sdb_links_reserve(out, links);
    for (unsigned i = 0; rc == SDB_OK && i < links; i++)
        if (!(p->word[path + i] & SDB_LEAF))
            sdb_links_push(out, p->word[path + i]);
    return rc;
}

int sdb_lpm_index_retire(sdb_edit *e, sdb_link root)
{
    sdb_links nodes = {0}; /* those met; the walk goes through them in turn */
    const uint8_t *base = e->arena->base;
    int rc = root ? sdb_links_reserve(&nodes, 1) : SDB_OK;
    if (rc == SDB_OK && root)
        sdb_links_push(&nodes, root);
    for (size_t i = 0; i < nodes.n && rc == SDB_OK; i++)
        rc = links_push(&nodes, sdb_at(base, nodes.at[i]));
    if (rc == SDB_OK)
        rc = sdb_links_reserve(&e->retired, nodes.n);
    for (size_t i = 0; i < nodes.n && rc == SDB_OK; i++) {
        const sdb_node *n = sdb_at(base, nodes.at[i]);
        if (sdb_node_stamp(n) > e->floor)
            sdb_arena_free(e->arena, nodes.at[i], sdb_lpm_index_node_size(n));
        else
            sdb_links_push(&e->retired, nodes.at[i]);
    }
    sdb_links_fini(&nodes);
    return rc;
}

/* ---------------------------------------------------------------- check */

/* The rows of one prefix. */
static const char *check_rows(const sdb_version *v, const sdb_index *index, sdb_link rows,
                              const sdb_prefix *p, uint64_t *seen)
{
    const uint8_t *base = v->table->arena.base;
    uint64_t n;
    const char *wrong = sdb_radix_check(rowid_leaves(v), base, rows, SDB_STAMP_MAX, &n);
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, rowid_leaves(v), base, rows);
    for (int rc = sdb_iter_first(&it); rc == SDB_OK && !wrong; rc = sdb_iter_next(&it)) {
        int byte;
        const sdb_row *row = sdb_row_at(v->table, it.leaf);
        if (index->leaves.diff(index->leaves.ctx, row, (const uint8_t *)p, sizeof *p, &byte) !=
                sizeof *p || byte >= 0)
            wrong = "a row is under a prefix that is not its own";
        else if (sdb_version_get(v, row->rowid) != row)
            wrong = "a row is in the index and not in the table";
    }
    sdb_iter_fini(&it);
    *seen += n;
    return wrong;
}

const char *sdb_lpm_index_check(const sdb_version *v, int i)
{
    const sdb_index *index = v->set->at[i];
    const uint8_t *base = v->table->arena.base;
    uint64_t prefixes, seen = 0, want = 0;
    const char *wrong = sdb_lpm_check(base, v->root[i], SDB_STAMP_MAX, &prefixes);
    sdb_lpm_iter it;
    sdb_lpm_iter_open(&it, base, v->root[i]);
    for (sdb_link rows = wrong ? 0 : sdb_lpm_iter_first(&it); rows && !wrong;
         rows = sdb_lpm_iter_next(&it)) {
        sdb_prefix p;
        memset(&p, 0, sizeof p);
        sdb_lpm_iter_prefix(&it, &p);
        wrong = check_rows(v, index, rows, &p, &seen);
    }
    sdb_iter all;
    sdb_iter_init(&all);
    sdb_iter_open(&all, rowid_leaves(v), base, v->root[SDB_BY_ROWID]);
    for (int rc = wrong ? SDB_DONE : sdb_iter_first(&all); rc == SDB_OK; rc = sdb_iter_next(&all)) {
        sdb_value value = sdb_row_value(v->table, sdb_row_at(v->table, all.leaf),
                                        index->def.parts[0].column);
        want += value.type != SDB_NULL;
    }
    sdb_iter_fini(&all);
    if (!wrong && seen != want)
        wrong = "the index has more or fewer rows than the table has prefixes";
    return wrong;
}
