/* sorted.c - sort the rows of a version by keys, and find ranges among them (see sorted.h). */
#include "sorted.h"

#include "mem.h"
#include "table.h"

#include <assert.h>

typedef struct item {
    uint64_t word;
    uint32_t row; /* which of the rows as they came */
} item;

/* The rows as they came, and their keys: row i's are key.at[end[i-1] .. end[i]). */
typedef struct gathered {
    sdb_buf key;
    size_t n, room;
    size_t *end;
    sdb_link *link;
} gathered;

static void gathered_fini(gathered *g)
{
    sdb_buf_fini(&g->key);
    sdb_free(g->end);
    sdb_free(g->link);
}

static const uint8_t *key_of(const gathered *g, uint32_t row, size_t *len)
{
    size_t from = row ? g->end[row - 1] : 0;
    *len = g->end[row] - from;
    return g->key.at + from;
}

/* Bytes at..at+8 of a key as a big-endian word, with zeros behind its end. */
static uint64_t key_word(const uint8_t *key, size_t len, size_t at)
{
    uint64_t word = 0;
    for (size_t i = at; i < at + 8; i++)
        word = word << 8 | (i < len ? key[i] : 0);
    return word;
}

/* ---------------------------------------------------------------- gathering */

static int gather(gathered *g, const sdb_table *table, const sdb_leaves *leaves, sdb_link root,
                  const sdb_index *index, const sdb_stop *stop)
{
    sdb_iter it;
    g->room = sdb_radix_count(table->arena.base, root);
    g->end = sdb_malloc((g->room + 1) * sizeof *g->end);
    g->link = sdb_malloc((g->room + 1) * sizeof *g->link);
    if (!g->end || !g->link)
        return SDB_NOMEM;
    sdb_iter_init(&it);
    sdb_iter_open(&it, leaves, table->arena.base, root);
    int rc = sdb_iter_first(&it);
    for (; rc == SDB_OK; rc = sdb_iter_next(&it)) {
        rc = sdb_stop_due(stop, g->n) ? SDB_INTERRUPTED
                                : sdb_index_row_key(index, sdb_row_at(table, it.leaf), &g->key);
        if (rc != SDB_OK)
            break;
        assert(g->n < g->room);
        g->link[g->n] = it.leaf;
        g->end[g->n++] = g->key.n;
    }
    sdb_iter_fini(&it);
    return rc == SDB_DONE ? SDB_OK : rc;
}

/* How many bytes all keys begin with. */
static size_t common_length(const gathered *g)
{
    size_t n = 0, len;
    const uint8_t *first = g->n ? key_of(g, 0, &n) : NULL;
    for (uint32_t i = 1; i < g->n && n > 0; i++) {
        const uint8_t *key = key_of(g, i, &len);
        size_t same = 0;
        n = n < len ? n : len;
        while (same < n && key[same] == first[same])
            same++;
        n = same;
    }
    return n;
}

/* ---------------------------------------------------------------- sorting */

/* By their words, a byte at a time from the last; equal ones stay in order. The result is in `a` or in
** `b`, which have room for as many. */
static item *sort_by_word(item *a, item *b, size_t n)
{
    size_t(*count)[256] = sdb_zalloc(8 * sizeof *count);
    if (!count)
        return NULL;
    for (size_t i = 0; i < n; i++)
        for (int byte = 0; byte < 8; byte++)
            count[byte][a[i].word >> 8 * byte & 0xff]++;
    for (int byte = 0; byte < 8; byte++) {
        size_t *to = count[byte], at = 0;
        if (n == 0 || to[a[0].word >> 8 * byte & 0xff] == n)
            continue; /* all have the same */
        for (int i = 0; i < 256; i++) {
            size_t next = at + to[i];
            to[i] = at;
            at = next;
        }
        for (size_t i = 0; i < n; i++)
            b[to[a[i].word >> 8 * byte & 0xff]++] = a[i];
        item *other = a;
        a = b;
        b = other;
    }
    sdb_free(count);
    return a;
}

static int item_compare(const gathered *g, const item *a, const item *b)
{
    size_t x, y;
    const uint8_t *p = key_of(g, a->row, &x), *q = key_of(g, b->row, &y);
    int c = memcmp(p, q, x < y ? x : y);
    return c ? c : (x > y) - (x < y);
}

/* Items of one word, by their whole keys: merge sort. `spare` has room for as many. */
static void sort_by_key(const gathered *g, item *a, item *spare, size_t n)
{
    size_t i = 1;
    while (i < n && item_compare(g, &a[i - 1], &a[i]) < 0)
        i++;
    if (i >= n)
        return; /* equal values, say, whose rows came in order of rowid */
    item *from = a, *to = spare;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t left = at, middle = at + run < n ? at + run : n;
            size_t right = middle, end = middle + run < n ? middle + run : n;
            for (size_t out = at; out < end; out++) {
                bool is_right = left == middle ||
                                (right < end && item_compare(g, &from[right], &from[left]) < 0);
                to[out] = from[is_right ? right++ : left++];
            }
        }
        item *other = from;
        from = to;
        to = other;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
}

static int sort(sdb_sorted *s, const gathered *g, item *a, item *b, const sdb_stop *stop)
{
    for (size_t i = 0; i < g->n; i++) {
        size_t len;
        const uint8_t *key = key_of(g, (uint32_t)i, &len);
        a[i] = (item){key_word(key, len, s->n_common), (uint32_t)i};
        s->is_short |= len < s->n_common + 8;
    }
    item *sorted = sort_by_word(a, b, g->n), *spare = sorted == a ? b : a;
    if (!sorted)
        return SDB_NOMEM;
    for (size_t from = 0, to; from < g->n; from = to) {
        for (to = from + 1; to < g->n && sorted[to].word == sorted[from].word; to++)
            ;
        sort_by_key(g, sorted + from, spare, to - from);
    }
    for (size_t i = 0; i < g->n; i++) {
        if (sdb_stop_due(stop, i))
            return SDB_INTERRUPTED;
        s->word[i] = sorted[i].word;
        s->row[i] = g->link[sorted[i].row];
    }
    s->n = g->n;
    return SDB_OK;
}

/* ---------------------------------------------------------------- interface */

void sdb_sorted_free(sdb_sorted *sorted)
{
    if (!sorted)
        return;
    sdb_index_unref(sorted->index);
    sdb_free(sorted->row);
    sdb_free(sorted->word);
    sdb_free(sorted);
}

/* An object for these rows, with the beginning they have in common. NULL: no memory. */
static sdb_sorted *sorted_new(const sdb_table *table, const gathered *g)
{
    size_t n_common = common_length(g), len;
    sdb_sorted *s = sdb_zalloc(sizeof *s + n_common);
    if (!s)
        return NULL;
    s->table = table;
    s->base = table->arena.base;
    s->n_common = n_common;
    if (n_common)
        memcpy(s->common, key_of(g, 0, &len), n_common);
    s->row = sdb_malloc((g->n + 1) * sizeof *s->row);
    s->word = sdb_malloc((g->n + 1) * sizeof *s->word);
    if (s->row && s->word)
        return s;
    sdb_sorted_free(s);
    return NULL;
}

int sdb_sorted_build(const sdb_table *table, const sdb_leaves *leaves, sdb_link root,
                     const sdb_index_def *def, const sdb_stop *stop, sdb_sorted **out)
{
    sdb_index_def plain = *def;
    gathered g = {0};
    plain.unique = false;
    int rc = sdb_index_def_check(def, table->n_columns);
    if (rc != SDB_OK || def->kind != SDB_RADIX)
        return SDB_MISUSE;
    sdb_index *index = sdb_index_new(&plain, table->n_columns, table->rowid_column);
    if (!index)
        return SDB_NOMEM;
    rc = gather(&g, table, leaves, root, index, stop);
    sdb_sorted *s = rc == SDB_OK ? sorted_new(table, &g) : NULL;
    item *a = s ? sdb_malloc((g.n + 1) * sizeof *a) : NULL;
    item *b = s ? sdb_malloc((g.n + 1) * sizeof *b) : NULL;
    if (rc == SDB_OK)
        rc = a && b ? sort(s, &g, a, b, stop) : SDB_NOMEM;
    sdb_free(a);
    sdb_free(b);
    gathered_fini(&g);
    if (!s)
        sdb_index_unref(index);
    else
        s->index = index;
    if (rc != SDB_OK)
        sdb_sorted_free(s);
    else
        *out = s;
    return rc;
}

/* The first place whose word is at least this one. */
static size_t find_word(const sdb_sorted *s, size_t from, size_t to, uint64_t word)
{
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (s->word[middle] < word)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The same where it is near: in steps that double. */
static size_t find_word_near(const sdb_sorted *s, size_t from, uint64_t word)
{
    size_t step = 1;
    while (from + step < s->n && s->word[from + step] < word)
        step *= 2;
    return find_word(s, from + step / 2, from + step < s->n ? from + step : s->n, word);
}

static bool row_is_below(const sdb_sorted *s, size_t at, const uint8_t *key, size_t len)
{
    int byte;
    const sdb_leaves *leaves = &s->index->leaves;
    size_t same = leaves->diff(leaves->ctx, sdb_at(s->base, s->row[at]), key, len, &byte);
    return same < len && byte < key[same];
}

/* The first place from `from` on whose key is at least this one. */
static size_t find_key(const sdb_sorted *s, size_t from, const uint8_t *key, size_t len,
                       bool is_near)
{
    size_t n = len < s->n_common ? len : s->n_common;
    int c = memcmp(key, s->common, n);
    if (c)
        return c < 0 ? from : s->n;
    if (len <= s->n_common)
        return from;
    uint64_t word = key_word(key, len, s->n_common);
    from = is_near ? find_word_near(s, from, word) : find_word(s, from, s->n, word);
    if (len <= s->n_common + 8 && !s->is_short)
        return from; /* all keys of that word begin with this one */
    size_t to = word == UINT64_MAX ? s->n : find_word_near(s, from, word + 1);
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (row_is_below(s, middle, key, len))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

int sdb_sorted_range(const sdb_sorted *s, const sdb_range *range, sdb_buf *bounds, size_t *from,
                     size_t *to)
{
    size_t n_lo;
    int rc = sdb_index_bounds(s->index, range, bounds, &n_lo);
    *from = *to = 0;
    if (rc != SDB_OK)
        return rc;
    size_t n_hi = bounds->n - n_lo;
    if (n_lo)
        *from = find_key(s, 0, bounds->at, n_lo, false);
    *to = n_hi ? find_key(s, *from, bounds->at + n_lo, n_hi, range->n_eq > 0) : s->n;
    return *from < *to ? SDB_OK : SDB_DONE;
}
