/* cursor.c - reading a range of an index in one version of a table (see statedb.h). */
#include "txn.h"

#include "batch.h"
#include "key.h"
#include "lpm_index.h"
#include "mem.h"
#include "multi_index.h"
#include "sorted.h"

#include <assert.h>

struct sdb_cursor {
    sdb_db *db;
    sdb_table *table; /* NULL: not open */
    const sdb_index *index;
    sdb_index *counted; /* that one, on a txn, which may drop it; the first is there as long as the table */
    enum { VIA_LEAVES, VIA_PREFIXES, VIA_ENTRIES, VIA_SORTED } via; /* what gives the rows */
    bool on_txn;
    bool reverse;
    bool is_single; /* the range has one row at most, and the cursor is at it */
    sdb_link end;   /* the leaf to stop before, or 0 */
    sdb_hold hold;  /* if on_txn */
    sdb_buf bounds; /* of the range: lo is bounds[0..n_lo), hi the rest */
    size_t n_lo;
    sdb_iter it; /* in a prefix index: in the rows of one prefix; in a multi index: in entries */

    const sdb_sorted *sorted; /* the rows to read instead of the index's */
    size_t at, stop;          /* in them: the place it is at, and the one to stop before */

    /* in a prefix index: what gives the next prefix's rows */
    enum { LPM_NONE, LPM_COVERS, LPM_WITHIN } lpm;
    sdb_link lpm_root;
    sdb_lpm_covers covers;
    sdb_lpm_iter within;

    const sdb_leaves *rows; /* the tree by rowid */
    sdb_link by_rowid;

    /* in a multi index */
    const sdb_row *row; /* of the entry it is at */
    bool is_many; /* the range may hold several entries of a row: show it at the first */
    sdb_buf key;  /* one of the row's, to find out */
};

int sdb_cursor_new(sdb_db *db, sdb_cursor **out)
{
    sdb_cursor *cur = sdb_zalloc(sizeof *cur);
    if (!cur)
        return SDB_NOMEM;
    cur->db = db;
    sdb_iter_init(&cur->it);
    pthread_mutex_lock(&db->mutex);
    db->n_cursors++;
    pthread_mutex_unlock(&db->mutex);
    sdb_ref(db);
    *out = cur;
    return SDB_OK;
}

void sdb_cursor_free(sdb_cursor *cur)
{
    if (!cur)
        return;
    sdb_db *db = cur->db;
    sdb_cursor_close(cur);
    pthread_mutex_lock(&db->mutex);
    db->n_cursors--;
    pthread_mutex_unlock(&db->mutex);
    sdb_iter_fini(&cur->it);
    sdb_buf_fini(&cur->bounds);
    sdb_buf_fini(&cur->key);
    sdb_free(cur);
    sdb_unref(db);
}

static bool version_has(const sdb_version *v, int index)
{
    return index == SDB_BY_REVISION ? v->history.feeds != NULL : index >= 0 && index < v->set->n;
}

/* A range of revisions is one of rowids, in another tree. */
static void cursor_set(sdb_cursor *cur, const sdb_version *v, int index, bool on_txn)
{
    bool is_revision = index == SDB_BY_REVISION;
    if (is_revision)
        index = SDB_BY_ROWID;
    cur->table = v->table;
    cur->index = v->set->at[index];
    cur->counted = on_txn && index != SDB_BY_ROWID ? sdb_index_ref(v->set->at[index]) : NULL;
    cur->on_txn = on_txn;
    cur->is_single = false;
    cur->lpm = LPM_NONE;
    cur->lpm_root = v->root[index];
    cur->rows = &v->set->at[SDB_BY_ROWID]->leaves;
    cur->by_rowid = v->root[SDB_BY_ROWID];
    uint8_t kind = cur->index->def.kind;
    bool is_lpm = kind == SDB_LPM;
    cur->via = is_lpm ? VIA_PREFIXES : kind == SDB_MULTI ? VIA_ENTRIES : VIA_LEAVES;
    sdb_iter_open(&cur->it, &v->set->at[is_lpm ? SDB_BY_ROWID : index]->leaves,
                  v->table->arena.base, is_lpm ? 0 : v->root[index]);
    if (is_revision)
        sdb_iter_open(&cur->it, &sdb_revision_leaves, v->table->arena.base, v->history.by_revision);
}

int sdb_cursor_open(sdb_cursor *cur, const sdb_snapshot *snap, sdb_table *table, int index)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    if (cur->table || !v || table->db != cur->db || !version_has(v, index))
        return SDB_MISUSE;
    cursor_set(cur, v, index, false);
    return SDB_OK;
}

int sdb_cursor_open_txn(sdb_cursor *cur, sdb_txn *txn, sdb_table *table, int index)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    if (cur->table || !v || table->db != cur->db || !version_has(v, index))
        return SDB_MISUSE;
    int rc = sdb_txn_hold(txn, table, &cur->hold);
    if (rc == SDB_OK)
        cursor_set(cur, v, index, true);
    return rc;
}

void sdb_cursor_close(sdb_cursor *cur)
{
    if (!cur->table)
        return;
    if (cur->on_txn) {
        sdb_txn_release_hold(&cur->hold);
        sdb_index_unref(cur->counted);
    }
    cur->table = NULL;
    cur->it.leaf = 0;
    if (cur->bounds.room > 1 << 16) /* a huge key's buffer need not stay for ever */
        sdb_buf_fini(&cur->bounds);
    if (cur->key.room > 1 << 16)
        sdb_buf_fini(&cur->key);
}

/* A range without bounds, only equal columns: the leaves whose keys begin with theirs. Where that is
** a whole key of an index that has each key once, it is one leaf at most. */
static int seek_equal(sdb_cursor *cur, const sdb_range *range)
{
    sdb_iter *it = &cur->it;
    const sdb_index *index = cur->index;
    cur->end = 0;
    if (it->leaves == cur->rows && range->n_eq == 1 && range->eq->type == SDB_INTEGER) {
        cur->is_single = true;
        it->leaf = sdb_index_row(it->base, it->root, range->eq->u.i);
    } else {
        int rc = sdb_index_prefix(index, range->eq, range->n_eq, &cur->bounds, &cur->is_single);
        if (rc != SDB_OK)
            return rc;
        if (!cur->is_single)
            return sdb_iter_prefix(it, cur->bounds.at, cur->bounds.n, range->reverse);
        it->leaf = sdb_radix_get(it->leaves, it->base, it->root, cur->bounds.at, cur->bounds.n);
    }
    return it->leaf ? SDB_OK : SDB_DONE;
}

/* The leaf to stop before first, then the one to begin with: neighbours are found without looking at
** a key. */
static int seek_bounds(sdb_cursor *cur, const sdb_range *range)
{
    sdb_iter *it = &cur->it;
    int rc = sdb_index_bounds(cur->index, range, &cur->bounds, &cur->n_lo);
    if (rc != SDB_OK)
        return rc;
    size_t n_lo = cur->n_lo, n_hi = cur->bounds.n - n_lo;
    const uint8_t *lo = cur->bounds.at, *hi = n_hi ? lo + n_lo : lo;
    if (!range->reverse) {
        rc = n_hi ? sdb_iter_seek(it, hi, n_hi) : SDB_DONE;
        cur->end = rc == SDB_OK ? it->leaf : 0;
        if (rc >= 0)
            rc = n_lo ? sdb_iter_seek(it, lo, n_lo) : sdb_iter_first(it);
    } else {
        rc = n_lo ? sdb_iter_seek_below(it, lo, n_lo) : SDB_DONE;
        cur->end = rc == SDB_OK ? it->leaf : 0;
        if (rc >= 0)
            rc = n_hi ? sdb_iter_seek_below(it, hi, n_hi) : sdb_iter_last(it);
    }
    if (rc == SDB_OK && it->leaf == cur->end) {
        it->leaf = 0;
        return SDB_DONE;
    }
    return rc;
}

/* ---------------------------------------------------------------- sorted rows */

int sdb_sorted_new(const sdb_cursor *cur, const sdb_index_def *def, const sdb_stop *stop,
                   sdb_sorted **out)
{
    if (!cur->table)
        return SDB_MISUSE;
    return sdb_sorted_build(cur->table, cur->rows, cur->by_rowid, def, stop, out);
}

int sdb_cursor_read(sdb_cursor *cur, const sdb_sorted *sorted)
{
    if (!cur->table || cur->table != sorted->table)
        return SDB_MISUSE;
    cur->sorted = sorted;
    cur->via = VIA_SORTED;
    cur->it.leaf = 0;
    return SDB_OK;
}

static int sorted_seek(sdb_cursor *cur, const sdb_range *range)
{
    size_t from, to;
    int rc = sdb_sorted_range(cur->sorted, range, &cur->bounds, &from, &to);
    cur->it.leaf = 0;
    if (rc != SDB_OK)
        return rc;
    cur->reverse = range->reverse;
    cur->at = range->reverse ? to - 1 : from;
    cur->stop = range->reverse ? from - 1 : to;
    cur->it.leaf = cur->sorted->row[cur->at];
    return SDB_OK;
}

static int sorted_next(sdb_cursor *cur)
{
    cur->at = cur->reverse ? cur->at - 1 : cur->at + 1;
    cur->it.leaf = cur->at == cur->stop ? 0 : cur->sorted->row[cur->at];
    return cur->it.leaf ? SDB_OK : SDB_DONE;
}

/* ---------------------------------------------------------------- prefixes */

/* Into the rows of a prefix; with none (0), on to the next prefix. */
static int rows_enter(sdb_cursor *cur, sdb_link rows)
{
    sdb_iter *it = &cur->it;
    if (!rows)
        return SDB_DONE;
    sdb_iter_open(it, it->leaves, it->base, rows);
    return cur->reverse && cur->lpm == LPM_WITHIN ? sdb_iter_last(it) : sdb_iter_first(it);
}

static int rows_next(sdb_cursor *cur)
{
    sdb_iter *it = &cur->it;
    bool back = cur->reverse && cur->lpm == LPM_WITHIN;
    int rc = back ? sdb_iter_prev(it) : sdb_iter_next(it);
    if (rc != SDB_DONE || cur->lpm == LPM_NONE)
        return rc;
    if (cur->lpm == LPM_COVERS)
        return rows_enter(cur, cur->reverse ? sdb_lpm_covers_shortest(&cur->covers)
                                            : sdb_lpm_covers_longest(&cur->covers));
    return rows_enter(cur, back ? sdb_lpm_iter_prev(&cur->within) : sdb_lpm_iter_next(&cur->within));
}

/* The rows of one prefix. Most prefixes have one. */
static int rows_seek(sdb_cursor *cur, sdb_link rows)
{
    cur->is_single = rows & SDB_LEAF;
    if (!cur->is_single)
        return rows_enter(cur, rows);
    cur->it.leaf = rows;
    return SDB_OK;
}

/* p is NULL for all, with SDB_WITHIN. */
static int seek_prefix(sdb_cursor *cur, sdb_prefix_op op, const sdb_prefix *p, bool reverse)
{
    const uint8_t *base = cur->it.base;
    cur->it.leaf = 0;
    cur->reverse = reverse;
    cur->is_single = false;
    cur->end = 0;
    cur->lpm = LPM_NONE;
    switch (op) {
    case SDB_EXACT:
        return rows_seek(cur, sdb_lpm_get(base, cur->lpm_root, p));
    case SDB_LONGEST:
        return rows_seek(cur, sdb_lpm_match(base, cur->lpm_root, p));
    case SDB_COVERS:
        cur->lpm = LPM_COVERS;
        sdb_lpm_covers_open(&cur->covers, base, cur->lpm_root, p);
        return rows_enter(cur, reverse ? sdb_lpm_covers_shortest(&cur->covers)
                                       : sdb_lpm_covers_longest(&cur->covers));
    default:
        cur->lpm = LPM_WITHIN;
        if (p)
            sdb_lpm_iter_within(&cur->within, base, cur->lpm_root, p);
        else
            sdb_lpm_iter_open(&cur->within, base, cur->lpm_root);
        return rows_enter(cur, reverse ? sdb_lpm_iter_last(&cur->within)
                                       : sdb_lpm_iter_first(&cur->within));
    }
}

int sdb_cursor_seek_prefix(sdb_cursor *cur, sdb_prefix_op op, const sdb_value *prefix, bool reverse)
{
    sdb_prefix p;
    if (!cur->table || cur->via != VIA_PREFIXES || op > SDB_WITHIN)
        return SDB_MISUSE;
    cur->it.leaf = 0;
    if (prefix->type == SDB_NULL)
        return SDB_DONE;
    return sdb_prefix_from(prefix, &p) ? SDB_NOTPREFIX : seek_prefix(cur, op, &p, reverse);
}

/* ---------------------------------------------------------------- entries */

/* Whether the row of the entry that the cursor is at has been shown already, at another key of it. The
** row's keys tell, so nothing need be remembered. */
static int entry_is_later(sdb_cursor *cur, const sdb_entry *e, bool *out)
{
    const sdb_index *index = cur->index;
    sdb_bytes lo = {cur->bounds.at, cur->n_lo};
    sdb_bytes hi = {sdb_buf_at(&cur->bounds, cur->n_lo), cur->bounds.n - cur->n_lo};
    sdb_bytes key = {e->key, e->n};
    *out = false;
    if (!cur->is_many)
        return SDB_OK;
    sdb_value value = sdb_row_get(cur->row, index->def.parts[0].column, index->n_columns,
                                  index->rowid_column);
    return sdb_set_search(&index->def, &value, cur->reverse ? key : lo, cur->reverse ? hi : key, key,
                          &cur->key, out);
}

/* From the entry a seek or a step has led to (rc: whether it has), on to one that is to be shown. */
static int entry_settle(sdb_cursor *cur, int rc)
{
    sdb_iter *it = &cur->it;
    for (;;) {
        if (rc == SDB_OK && it->leaf == cur->end)
            rc = SDB_DONE;
        bool is_later = false;
        if (rc == SDB_OK) {
            const sdb_entry *e = sdb_at(it->base, it->leaf);
            cur->row = sdb_entry_row(it->base, cur->by_rowid, e);
            rc = entry_is_later(cur, e, &is_later);
        }
        if (rc != SDB_OK)
            it->leaf = 0;
        if (!is_later)
            return rc;
        rc = cur->reverse ? sdb_iter_prev(it) : sdb_iter_next(it);
    }
}

/* ---------------------------------------------------------------- all indexes */

int sdb_cursor_seek(sdb_cursor *cur, const sdb_range *range)
{
    if (!cur->table)
        return SDB_MISUSE;
    if (cur->via == VIA_SORTED)
        return sorted_seek(cur, range);
    if (cur->via == VIA_PREFIXES) {
        if (range->n_eq > 1 || range->lower || range->upper)
            return SDB_MISUSE;
        return range->n_eq ? sdb_cursor_seek_prefix(cur, SDB_EXACT, range->eq, range->reverse)
                           : seek_prefix(cur, SDB_WITHIN, NULL, range->reverse);
    }
    cur->it.leaf = 0;
    cur->reverse = range->reverse;
    cur->is_single = false;
    int rc = range->n_eq && !range->lower && !range->upper ? seek_equal(cur, range)
                                                           : seek_bounds(cur, range);
    cur->is_many = range->n_eq == 0;
    if (cur->via == VIA_ENTRIES)
        return entry_settle(cur, rc);
    if (rc == SDB_OK && cur->on_txn) /* to be changed, perhaps */
        sdb_hold_found(&cur->hold, sdb_at(cur->it.base, cur->it.leaf));
    return rc;
}

int sdb_cursor_next(sdb_cursor *cur)
{
    sdb_iter *it = &cur->it;
    if (!it->leaf)
        return SDB_DONE;
    if (cur->via == VIA_SORTED)
        return sorted_next(cur);
    if (cur->via == VIA_PREFIXES && !cur->is_single)
        return rows_next(cur);
    int rc = cur->is_single ? SDB_DONE : cur->reverse ? sdb_iter_prev(it) : sdb_iter_next(it);
    if (cur->via == VIA_ENTRIES)
        return entry_settle(cur, rc);
    if (rc == SDB_OK && it->leaf != cur->end)
        return SDB_OK;
    it->leaf = 0;
    return rc == SDB_OK ? SDB_DONE : rc;
}

/* How many rows of the range are behind the one it is at, in a tree where nothing is left out. */
static uint64_t rows_left(const sdb_cursor *cur)
{
    const sdb_iter *it = &cur->it;
    if (!cur->end)
        return UINT64_MAX; /* to the end of what the iterator goes through */
    const uint8_t *lo = cur->bounds.at, *hi = lo + cur->n_lo;
    uint64_t rank = sdb_iter_rank(it);
    return cur->reverse
               ? rank - sdb_radix_rank(it->leaves, it->base, it->root, lo, cur->n_lo)
               : sdb_radix_rank(it->leaves, it->base, it->root, hi, cur->bounds.n - cur->n_lo) - rank - 1;
}

int sdb_cursor_skip(sdb_cursor *cur, uint64_t n)
{
    sdb_iter *it = &cur->it;
    int rc = it->leaf ? SDB_OK : SDB_DONE;
    if (rc == SDB_DONE || n == 0)
        return rc;
    if (cur->via == VIA_PREFIXES || (cur->via == VIA_ENTRIES && cur->is_many)) {
        while (rc == SDB_OK && n-- > 0)
            rc = sdb_cursor_next(cur);
        return rc;
    }
    bool is_sorted = cur->via == VIA_SORTED;
    uint64_t left = is_sorted        ? (cur->reverse ? cur->at - cur->stop : cur->stop - cur->at) - 1
                    : cur->is_single ? 0
                                     : rows_left(cur);
    if (n > left) {
        it->leaf = 0;
        return SDB_DONE;
    }
    if (is_sorted) {
        cur->at = cur->reverse ? cur->at - n : cur->at + n;
        it->leaf = cur->sorted->row[cur->at];
        return SDB_OK;
    }
    rc = sdb_iter_skip(it, n, cur->reverse);
    return cur->via == VIA_ENTRIES ? entry_settle(cur, rc) : rc;
}

const sdb_row *sdb_cursor_row(const sdb_cursor *cur)
{
    if (!cur->it.leaf)
        return NULL;
    return cur->via == VIA_ENTRIES ? cur->row : sdb_at(cur->it.base, cur->it.leaf);
}

int sdb_cursor_count(sdb_cursor *cur, const sdb_range *range, uint64_t *out)
{
    const sdb_iter *it = &cur->it;
    size_t n_lo, from, to;
    if (!cur->table || cur->via == VIA_PREFIXES || (cur->via == VIA_ENTRIES && range->n_eq != 1))
        return SDB_MISUSE;
    bool is_sorted = cur->via == VIA_SORTED;
    int rc = is_sorted ? sdb_sorted_range(cur->sorted, range, &cur->bounds, &from, &to)
                       : sdb_index_bounds(cur->index, range, &cur->bounds, &n_lo);
    if (rc == SDB_OK && is_sorted) {
        *out = to - from;
    } else if (rc == SDB_OK) {
        size_t n_hi = cur->bounds.n - n_lo;
        const uint8_t *lo = cur->bounds.at, *hi = n_hi ? lo + n_lo : lo;
        *out = n_hi ? sdb_radix_rank(it->leaves, it->base, it->root, hi, n_hi)
                    : sdb_radix_count(it->base, it->root);
        if (n_lo)
            *out -= sdb_radix_rank(it->leaves, it->base, it->root, lo, n_lo);
    } else if (rc == SDB_DONE) {
        *out = 0;
        rc = SDB_OK;
    }
    return rc;
}

/* ---------------------------------------------------------------- look-ups to come */

enum { AHEAD_KEY = 64 };

/* The key of these values, or what those of its rows begin with; 0: it has none, or has no room. */
static size_t ahead_key(const sdb_cursor *cur, const sdb_value *v, int n_eq, uint8_t *out)
{
    const sdb_part *part = cur->index->def.parts;
    size_t len = 0;
    if (cur->index->def.n_parts == 0) {
        if (v->type == SDB_INTEGER)
            sdb_key_put_rowid(out, v->u.i);
        return v->type == SDB_INTEGER ? SDB_ROWID_KEY : 0;
    }
    for (const sdb_value *end = v + n_eq; v < end; v++, part++) {
        if (v->type > SDB_BLOB || v->type == SDB_NULL || len + sdb_key_bound(v) > AHEAD_KEY)
            return 0;
        len = (size_t)(sdb_key_put(out + len, v, part->collation, part->desc) - out);
    }
    return len;
}

static void leaves_ahead(const sdb_cursor *cur, const sdb_value *values, int n_eq, size_t n,
                         const sdb_row **out)
{
    const sdb_iter *it = &cur->it;
    uint8_t key[SDB_GROUP][AHEAD_KEY];
    sdb_probe probes[SDB_GROUP];
    for (size_t i = 0; i < n; i++, values += n_eq)
        probes[i] = (sdb_probe){.key = key[i], .len = ahead_key(cur, values, n_eq, key[i])};
    sdb_group_descend(it->base, it->root, probes, n);
    for (size_t i = 0; i < n; i++)
        sdb_group_below(it->base, &probes[i], 0);
    for (size_t i = 0; i < n; i++) {
        sdb_group_below(it->base, &probes[i], 1);
        if (out)
            out[i] = sdb_probe_leaf(it->leaves, it->base, &probes[i]);
    }
}

/* What sdb_cursor_seek_prefix with SDB_LONGEST is going to read. */
static void prefixes_ahead(const sdb_cursor *cur, const sdb_value *values, size_t n, const sdb_row **out)
{
    const uint8_t *base = cur->it.base;
    sdb_prefix prefix[SDB_GROUP];
    sdb_link rows[SDB_GROUP];
    size_t at[SDB_GROUP], n_prefixes = 0;
    for (size_t i = 0; i < n; i++) {
        if (out)
            out[i] = NULL;
        if (values[i].type != SDB_NULL && !sdb_prefix_from(&values[i], &prefix[n_prefixes]))
            at[n_prefixes++] = i;
    }
    if (n_prefixes > 0)
        sdb_lpm_match_all(base, cur->lpm_root, prefix, n_prefixes, rows);
    for (size_t i = 0; out && i < n_prefixes; i++)
        if (rows[i] & SDB_LEAF)
            out[at[i]] = sdb_at(base, rows[i]);
}

bool sdb_cursor_look_ahead(const sdb_cursor *cur, const sdb_value *values, int n_eq, size_t n,
                           const sdb_row **out)
{
    const uint8_t *base = cur->it.base;
    bool is_lpm = cur->via == VIA_PREFIXES;
    if (!cur->table || (!is_lpm && cur->via != VIA_LEAVES) || n_eq < 1 ||
        n_eq > (cur->index->def.n_parts ? cur->index->def.n_parts : 1))
        return false;
    if ((is_lpm ? sdb_lpm_count(base, cur->lpm_root) : sdb_radix_count(base, cur->it.root)) < SDB_FEW)
        return false;
    for (size_t done = 0; done < n; done += SDB_GROUP) {
        size_t some = n - done < SDB_GROUP ? n - done : SDB_GROUP;
        if (is_lpm)
            prefixes_ahead(cur, values + done, some, out ? out + done : NULL);
        else
            leaves_ahead(cur, values + done * (size_t)n_eq, n_eq, some, out ? out + done : NULL);
    }
    return true;
}
