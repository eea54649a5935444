/* index.c - keys of rows and of ranges (see index.h). */
#include "index.h"

#include "key.h"
#include "mem.h"
#include "multi.h"
#include "prefix.h"

#include <assert.h>

/* ---------------------------------------------------------------- prefixes */

/* In a prefix index the key is the prefix itself, nothing where the column is NULL. */
static int prefix_put(const sdb_value *v, sdb_buf *out)
{
    sdb_prefix p;
    if (v->type == SDB_NULL)
        return SDB_OK;
    if (sdb_prefix_from(v, &p) != NULL)
        return SDB_NOTPREFIX;
    int rc = sdb_buf_reserve(out, sizeof p);
    if (rc == SDB_OK) {
        memcpy(out->at + out->n, &p, sizeof p);
        out->n += sizeof p;
    }
    return rc;
}

static size_t prefix_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte)
{
    const sdb_index *index = ctx;
    sdb_value v = sdb_row_get(leaf, index->def.parts[0].column, index->n_columns,
                              index->rowid_column);
    sdb_prefix p;
    bool has_prefix = v.type != SDB_NULL && !sdb_prefix_from(&v, &p);
    bool is_same = has_prefix ? len == sizeof p && memcmp(key, &p, sizeof p) == 0 : len == 0;
    *byte = is_same ? -1 : 0;
    return is_same ? len : 0;
}

/* ---------------------------------------------------------------- rows' keys */

static sdb_value part_value(const sdb_index *index, const sdb_row *row, const sdb_part *part)
{
    if (part->column == SDB_REVISION_COLUMN)
        return (sdb_value){.type = SDB_INTEGER, .u.i = (int64_t)sdb_row_revision(row)};
    return sdb_row_get(row, part->column, index->n_columns, index->rowid_column);
}

static size_t rowid_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte)
{
    (void)ctx;
    return sdb_key_diff_rowid(key, len, 0, ((const sdb_row *)leaf)->rowid, byte);
}

static size_t columns_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len,
                           int *byte)
{
    const sdb_index *index = ctx;
    const sdb_row *row = leaf;
    bool has_null = false;
    size_t at = 0;
    for (const sdb_part *p = index->def.parts, *end = p + index->def.n_parts; p < end; p++) {
        sdb_value v = part_value(index, row, p);
        at = sdb_key_diff(key, len, at, &v, p->collation, p->desc, byte);
        if (*byte >= 0)
            return at;
        has_null |= v.type == SDB_NULL;
    }
    return index->def.unique && !has_null ? at
                                          : sdb_key_diff_rowid(key, len, at, row->rowid, byte);
}

static int row_key(const void *ctx, const void *leaf, sdb_buf *out)
{
    return sdb_index_row_key(ctx, leaf, out);
}

static int key_put(const sdb_part *part, const sdb_value *value, sdb_buf *out)
{
    int rc = value->type > SDB_BLOB ? SDB_MISUSE : sdb_buf_reserve(out, sdb_key_bound(value));
    if (rc == SDB_OK)
        out->n = (size_t)(sdb_key_put(out->at + out->n, value, part->collation, part->desc) - out->at);
    return rc;
}

static int key_put_rowid(int64_t rowid, sdb_buf *out)
{
    int rc = sdb_buf_reserve(out, SDB_ROWID_KEY);
    if (rc == SDB_OK)
        out->n = (size_t)(sdb_key_put_rowid(out->at + out->n, rowid) - out->at);
    return rc;
}

static bool is_null(const sdb_value *v)
{
    return v->type == SDB_NULL || (v->type == SDB_REAL && v->u.r != v->u.r);
}

int sdb_index_key(const sdb_index *index, int64_t rowid, const sdb_value *values, sdb_buf *out,
                  bool *is_free)
{
    if (index->def.kind == SDB_LPM) {
        size_t before = out->n;
        int rc = prefix_put(&values[index->def.parts[0].column], out);
        *is_free = !index->def.unique || out->n == before;
        return rc;
    }
    static const sdb_value revision = {.type = SDB_INTEGER}; /* to be: sdb_keys_set_revision */
    sdb_value id = {.type = SDB_INTEGER, .u.i = rowid};
    bool has_rowid = !index->def.unique;
    for (const sdb_part *p = index->def.parts, *end = p + index->def.n_parts; p < end; p++) {
        const sdb_value *v = p->column == index->rowid_column    ? &id
                             : p->column == SDB_REVISION_COLUMN ? &revision
                                                                : &values[p->column];
        int rc = key_put(p, v, out);
        if (rc != SDB_OK)
            return rc;
        has_rowid |= is_null(v);
    }
    *is_free = has_rowid && index->def.n_parts;
    return has_rowid ? key_put_rowid(rowid, out) : SDB_OK;
}

int sdb_index_row_key(const sdb_index *index, const sdb_row *row, sdb_buf *out)
{
    if (index->def.kind == SDB_LPM) {
        sdb_value v = part_value(index, row, &index->def.parts[0]);
        return prefix_put(&v, out);
    }
    bool has_rowid = !index->def.unique;
    for (int i = 0; i < index->def.n_parts; i++) {
        sdb_value v = part_value(index, row, &index->def.parts[i]);
        int rc = key_put(&index->def.parts[i], &v, out);
        if (rc != SDB_OK)
            return rc;
        has_rowid |= v.type == SDB_NULL;
    }
    return has_rowid ? key_put_rowid(row->rowid, out) : SDB_OK;
}

/* ---------------------------------------------------------------- ranges */

/* The smallest byte string above every one that begins with out[from..): its last byte that is not
** ff counted up, the rest cut off. Empty when there is none. */
static void key_successor(sdb_buf *out, size_t from)
{
    while (out->n > from && out->at[out->n - 1] == 0xff)
        out->n--;
    if (out->n > from)
        out->at[out->n - 1]++;
}

/* Append the equal columns and, unless NULL, a bound on the next. */
static int bound_put(const sdb_index *index, const sdb_range *range, const sdb_value *bound,
                     sdb_buf *out)
{
    for (int i = 0; i < range->n_eq; i++) {
        int rc = key_put(&index->def.parts[i], &range->eq[i], out);
        if (rc != SDB_OK)
            return rc;
    }
    return bound ? key_put(&index->def.parts[range->n_eq], bound, out) : SDB_OK;
}

/* The smallest rowid at or above (open: above) a value; false when there is none. */
static bool rowid_from(const sdb_value *v, bool open, int64_t *out)
{
    *out = INT64_MIN;
    if (is_null(v))
        return true; /* NULL is below every number */
    if (v->type > SDB_REAL)
        return false; /* text and blobs are above */
    if (v->type == SDB_REAL) {
        double r = v->u.r;
        if (r < -0x1p63)
            return true;
        if (r >= 0x1p63)
            return false;
        *out = (int64_t)r; /* towards zero */
        open = (double)*out < r || (open && (double)*out == r);
    } else {
        *out = v->u.i;
    }
    if (open && *out == INT64_MAX)
        return false;
    *out += open;
    return true;
}

/* Index 0. Rowids from the first the lower bound allows up to, not with, the first that the upper
** bound does not. */
static int rowid_bounds(const sdb_range *range, sdb_buf *out, size_t *n_lo)
{
    const sdb_value *lower = range->n_eq ? range->eq : range->lower;
    const sdb_value *upper = range->n_eq ? range->eq : range->upper;
    int64_t lo = INT64_MIN, hi = 0;
    if (range->n_eq > 1 || (range->n_eq && (range->lower || range->upper)) ||
        (lower && lower->type > SDB_BLOB) || (upper && upper->type > SDB_BLOB))
        return SDB_MISUSE;
    if (lower && !rowid_from(lower, !range->n_eq && range->lower_open, &lo))
        return SDB_DONE;
    bool has_end = upper && rowid_from(upper, range->n_eq || !range->upper_open, &hi);
    if (has_end && (lo >= hi || is_null(upper)))
        return SDB_DONE;
    int rc = key_put_rowid(lo, out);
    *n_lo = out->n;
    return rc == SDB_OK && has_end ? key_put_rowid(hi, out) : rc;
}

sdb_link sdb_index_row(const uint8_t *base, sdb_link root, int64_t rowid)
{
    uint64_t key = (uint64_t)rowid ^ (uint64_t)1 << 63; /* what is left of it, on top */
    unsigned n_unseen = SDB_ROWID_KEY; /* bytes that the path does not spell */
    sdb_link link = root;
    while (link && !(link & SDB_LEAF)) {
        const sdb_node *n = sdb_at(base, link);
        sdb_node_expect(n, (uint8_t)(key >> 56));
        uint32_t prefix = sdb_node_prefix_len(n);
        if (__builtin_expect(prefix > 0, 0)) {
            if (!sdb_node_is_long(n)) {
                if ((sdb_key_word(sdb_node_prefix(n)) ^ key) >> (64 - 8 * prefix))
                    return 0;
                n_unseen -= prefix;
            }
            key <<= 8 * prefix;
        }
        link = sdb_node_find(n, (uint8_t)(key >> 56));
        key <<= 8;
        n_unseen--;
    }
    if (!link)
        return 0;
    sdb_leaf_expect(base, link);
    if (n_unseen == 0)
        return link;
    return ((const sdb_row *)sdb_at(base, link))->rowid == rowid ? link : 0;
}

int sdb_index_prefix(const sdb_index *index, const sdb_value *eq, int n_eq, sdb_buf *out,
                     bool *is_key)
{
    out->n = 0;
    if (index->def.n_parts == 0) {
        int64_t rowid;
        *is_key = true;
        if (n_eq > 1 || eq->type > SDB_BLOB)
            return SDB_MISUSE;
        if (is_null(eq) || !rowid_from(eq, false, &rowid))
            return SDB_DONE;
        if (eq->type == SDB_REAL && (double)rowid != eq->u.r)
            return SDB_DONE;
        return key_put_rowid(rowid, out);
    }
    if (n_eq > index->def.n_parts)
        return SDB_MISUSE;
    *is_key = index->def.unique && n_eq == index->def.n_parts && index->def.kind == SDB_RADIX;
    for (int i = 0; i < n_eq; i++) {
        int rc = key_put(&index->def.parts[i], &eq[i], out);
        if (rc != SDB_OK)
            return rc;
        *is_key &= !is_null(&eq[i]);
    }
    return SDB_OK;
}

int sdb_index_bounds(const sdb_index *index, const sdb_range *range, sdb_buf *out, size_t *n_lo)
{
    out->n = *n_lo = 0;
    if (index->def.n_parts == 0)
        return rowid_bounds(range, out, n_lo);
    bool has_bound = range->lower || range->upper;
    if (range->n_eq + has_bound > index->def.n_parts)
        return SDB_MISUSE;
    const sdb_value *first = range->lower, *last = range->upper;
    bool first_open = range->lower_open, last_open = range->upper_open;
    if (has_bound && index->def.parts[range->n_eq].desc) { /* keys run from the larger value down */
        first = range->upper, last = range->lower;
        first_open = range->upper_open, last_open = range->lower_open;
    }
    int rc = bound_put(index, range, first, out);
    if (rc != SDB_OK)
        return rc;
    if (first && first_open)
        key_successor(out, 0);
    size_t lo = out->n;
    rc = bound_put(index, range, last, out);
    if (rc != SDB_OK)
        return rc;
    if (!last || !last_open)
        key_successor(out, lo); /* of nothing: nothing, that is, no end */
    *n_lo = lo;
    if (lo && out->n > lo) {
        size_t hi = out->n - lo, n = lo < hi ? lo : hi;
        int c = memcmp(out->at, out->at + lo, n);
        if (c > 0 || (c == 0 && lo >= hi))
            return SDB_DONE;
    }
    return SDB_OK;
}

/* ---------------------------------------------------------------- objects */

static sdb_leaves leaves_of(const sdb_index *index, const sdb_index_def *def)
{
    if (def && def->kind == SDB_MULTI)
        return (sdb_leaves){sdb_entry_diff, sdb_entry_key, NULL};
    return (sdb_leaves){!def ? rowid_diff : def->kind == SDB_LPM ? prefix_diff : columns_diff, row_key,
                        index};
}

sdb_index *sdb_index_new(const sdb_index_def *def, int n_columns, int rowid_column)
{
    size_t parts = def ? def->n_parts * sizeof *def->parts : 0, name = def ? strlen(def->name) + 1 : 0;
    sdb_index *index = sdb_zalloc(sizeof *index + parts + name);
    if (!index)
        return NULL;
    index->n_ref = 1;
    index->n_columns = n_columns;
    index->rowid_column = rowid_column;
    index->leaves = leaves_of(index, def);
    if (def) {
        char *copy = (char *)(index + 1);
        memcpy(copy, def->parts, parts);
        memcpy(copy + parts, def->name, name);
        index->def = *def;
        index->def.parts = (const sdb_part *)(const void *)copy;
        index->def.name = copy + parts;
        for (int i = 0; i < def->n_parts; i++)
            index->has_revision |= def->parts[i].column == SDB_REVISION_COLUMN;
    }
    return index;
}

sdb_index *sdb_index_ref(sdb_index *index)
{
    atomic_fetch_add_explicit(&index->n_ref, 1, memory_order_relaxed);
    return index;
}

void sdb_index_unref(sdb_index *index)
{
    if (!index || atomic_fetch_sub_explicit(&index->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    sdb_free(index->watches.at); /* each watch counts its index: there is none left */
    sdb_free(index);
}

sdb_indexes *sdb_indexes_new(int n)
{
    sdb_indexes *set = sdb_zalloc(sizeof *set + (size_t)n * sizeof *set->at);
    if (set)
        set->n_ref = 1;
    return set;
}

void sdb_indexes_add(sdb_indexes *set, sdb_index *index)
{
    set->at[set->n++] = index;
    set->has_others |= index->def.kind != SDB_RADIX;
    set->has_revision |= index->has_revision;
}

sdb_indexes *sdb_indexes_ref(sdb_indexes *set)
{
    atomic_fetch_add_explicit(&set->n_ref, 1, memory_order_relaxed);
    return set;
}

void sdb_indexes_unref(sdb_indexes *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    for (int i = 0; i < set->n; i++)
        sdb_index_unref(set->at[i]);
    sdb_free(set);
}

const sdb_index_def *sdb_indexes_def(const sdb_indexes *set, int index)
{
    return set && index >= 1 && index < set->n ? &set->at[index]->def : NULL;
}

static int ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

bool sdb_name_is(const char *a, const char *b)
{
    while (*a && ascii_lower(*a) == ascii_lower(*b))
        a++, b++;
    return ascii_lower(*a) == ascii_lower(*b);
}

int sdb_indexes_find(const sdb_indexes *set, const char *name)
{
    for (int i = 1; i < set->n; i++)
        if (sdb_name_is(set->at[i]->def.name, name))
            return i;
    return 0;
}
