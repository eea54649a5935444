/* multi.c - building sets of keys, and reading entries (see multi.h). */
#include "multi.h"

#include "key.h"

#include <stdlib.h>

/* What an extractor adds to: a set under construction, or a search. */
struct sdb_key_set {
    const sdb_part *part;
    sdb_buf *out;
    int rc;

    /* a set */
    int64_t rowid;
    size_t from; /* where it begins in `out` */
    size_t last; /* and its last key, if n */
    size_t n;
    bool is_mixed; /* the keys did not come in order */

    /* a search for a key in [lo, hi) other than `not`; hi without bytes: no end */
    bool is_search, is_found;
    sdb_bytes lo, hi, not;
};

static sdb_key_item *item_at(const sdb_buf *buf, size_t at)
{
    return (sdb_key_item *)(void *)(buf->at + at);
}

static int item_compare(const sdb_key_item *a, const sdb_key_item *b)
{
    return sdb_key_compare(a->key, a->n, b->key, b->n);
}

static int compare_with(const uint8_t *key, size_t n, sdb_bytes with)
{
    return sdb_key_compare(key, n, with.at, with.n);
}

static int key_add(sdb_key_set *set, const sdb_value *value)
{
    sdb_buf *out = set->out;
    size_t most = sizeof(sdb_key_item) + sdb_key_bound(value) + SDB_ROWID_KEY;
    if (most / 2 > SDB_MAX_ROW)
        return SDB_TOOBIG;
    if (sdb_buf_reserve(out, sdb_round_up_8(most)) != SDB_OK)
        return SDB_NOMEM;
    sdb_key_item *item = item_at(out, out->n);
    uint8_t *end = sdb_key_put(item->key, value, set->part->collation, set->part->desc);
    if (set->is_search) {
        size_t n = (size_t)(end - item->key);
        set->is_found |= compare_with(item->key, n, set->lo) >= 0 &&
                         (!set->hi.n || compare_with(item->key, n, set->hi) < 0) &&
                         compare_with(item->key, n, set->not) != 0;
        return SDB_OK;
    }
    end = sdb_key_put_rowid(end, set->rowid);
    if ((size_t)(end - item->key) > SDB_MAX_ROW - sizeof(sdb_entry))
        return SDB_TOOBIG;
    item->n = (uint32_t)(end - item->key);
    item->entry = 0;
    int c = set->n ? item_compare(item_at(out, set->last), item) : -1;
    if (c == 0)
        return SDB_OK;
    set->is_mixed |= c > 0;
    set->last = out->n;
    set->n++;
    out->n += sdb_round_up_8(sizeof *item + item->n);
    return SDB_OK;
}

int sdb_key_set_add(sdb_key_set *keys, const sdb_value *value)
{
    if (keys->rc == SDB_OK && !keys->is_found)
        keys->rc = key_add(keys, value);
    return keys->rc;
}

static int item_order(const void *a, const void *b)
{
    return item_compare(*(const sdb_key_item *const *)a, *(const sdb_key_item *const *)b);
}

/* Bring the keys into order, each once. */
static int set_sort(sdb_key_set *set)
{
    sdb_buf *out = set->out;
    size_t bytes = out->n - set->from;
    const sdb_key_item **items = sdb_malloc(set->n * sizeof *items + bytes);
    if (!items)
        return SDB_NOMEM;
    uint8_t *copy = memcpy(items + set->n, out->at + set->from, bytes);
    sdb_set left = {copy, copy + bytes};
    for (size_t i = 0; i < set->n; i++)
        items[i] = sdb_set_next(&left);
    qsort(items, set->n, sizeof *items, item_order);
    out->n = set->from;
    for (size_t i = 0; i < set->n; i++) {
        size_t size = sdb_round_up_8(sizeof *items[i] + items[i]->n);
        if (i > 0 && item_compare(items[i - 1], items[i]) == 0)
            continue;
        memcpy(out->at + out->n, items[i], size);
        out->n += size;
    }
    sdb_free(items);
    return SDB_OK;
}

static int extract(const sdb_index_def *def, const sdb_value *value, sdb_key_set *set)
{
    static const sdb_value null = {.type = SDB_NULL};
    bool is_nan = value->type == SDB_REAL && value->u.r != value->u.r;
    int rc = def->extract(def->extract_ctx, is_nan ? &null : value, set);
    return rc == SDB_OK ? set->rc : rc;
}

int sdb_set_build(const sdb_index_def *def, int64_t rowid, const sdb_value *value, sdb_buf *out)
{
    if (sdb_buf_reserve(out, 8) != SDB_OK)
        return SDB_NOMEM;
    out->n = sdb_round_up_8(out->n);
    sdb_key_set set = {.part = def->parts, .rowid = rowid, .out = out, .from = out->n};
    int rc = extract(def, value, &set);
    return rc == SDB_OK && set.is_mixed ? set_sort(&set) : rc;
}

int sdb_set_search(const sdb_index_def *def, const sdb_value *value, sdb_bytes lo, sdb_bytes hi,
                   sdb_bytes not, sdb_buf *room, bool *out)
{
    sdb_key_set set = {
        .part = def->parts, .out = room, .is_search = true, .lo = lo, .hi = hi, .not = not};
    room->n = 0;
    int rc = extract(def, value, &set);
    *out = set.is_found;
    return rc;
}

/* ---------------------------------------------------------------- entries */

size_t sdb_entry_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte)
{
    const sdb_entry *e = leaf;
    size_t most = e->n < len ? e->n : len, at = 0;
    (void)ctx;
    if (memcmp(e->key, key, most) == 0)
        at = most;
    while (at < most && e->key[at] == key[at])
        at++;
    if (at == e->n)
        return sdb_key_diff_rowid(key, len, at, e->rowid, byte);
    *byte = e->key[at];
    return at;
}

int sdb_entry_key(const void *ctx, const void *leaf, sdb_buf *out)
{
    const sdb_entry *e = leaf;
    (void)ctx;
    if (sdb_buf_reserve(out, e->n + SDB_ROWID_KEY) != SDB_OK)
        return SDB_NOMEM;
    memcpy(out->at + out->n, e->key, e->n);
    out->n = (size_t)(sdb_key_put_rowid(out->at + out->n + e->n, e->rowid) - out->at);
    return SDB_OK;
}
