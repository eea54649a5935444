/* t_multi.c - multi indexes of tables, against a plain search through all rows. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40, TAGS = 64, MANY = 400 };

/* ---------------------------------------------------------------- tags */

/* Tags are written as "b,12,,~": a text, a number, an empty text, NULL. No tags are written as "-", and
** a "!" is refused. The column's own NULL has no tags either. */
static int tag_value(const char *at, size_t n, sdb_value *out)
{
    *out = (sdb_value){.type = SDB_TEXT, .n = (uint32_t)n, .u.p = at};
    if (n == 1 && *at == '!')
        return SDB_NOTSET;
    if (n == 1 && *at == '~')
        *out = (sdb_value){.type = SDB_NULL};
    else if (n > 0 && *at >= '0' && *at <= '9')
        *out = (sdb_value){.type = SDB_INTEGER, .u.i = strtol(at, NULL, 10)};
    return SDB_OK;
}

static int tags_extract(void *ctx, const sdb_value *value, sdb_key_set *keys)
{
    const char *at = value->u.p;
    size_t left = value->n;
    if (ctx)
        ++*(atomic_int *)ctx;
    if (value->type == SDB_NULL || (left == 1 && *at == '-'))
        return SDB_OK;
    if (value->type != SDB_TEXT)
        return sdb_key_set_add(keys, value);
    for (;;) {
        size_t n = 0;
        sdb_value tag;
        while (n < left && at[n] != ',')
            n++;
        int rc = tag_value(at, n, &tag);
        if (rc != SDB_OK)
            return rc;
        sdb_key_set_add(keys, &tag); /* should it fail, that is remembered */
        if (n == left)
            return SDB_OK;
        at += n + 1;
        left -= n + 1;
    }
}

static atomic_int n_extracted;

/* t(id = rowid, tags, n); by_tag (tags), by_n (n), by_fold (tags NOCASE DESC) */
static const sdb_part BY_TAG = {1, SDB_BINARY, false}, BY_N = {2, SDB_BINARY, false};
static const sdb_part BY_FOLD = {1, SDB_NOCASE, true};
static const sdb_index_def INDEXES[] = {
    {.name = "by_tag", .n_parts = 1, .parts = &BY_TAG, .kind = SDB_MULTI, .extract = tags_extract},
    {.name = "by_n", .n_parts = 1, .parts = &BY_N},
    {.name = "by_fold", .n_parts = 1, .parts = &BY_FOLD, .kind = SDB_MULTI, .extract = tags_extract,
     .extract_ctx = &n_extracted},
};
static const sdb_index_def ONCE = {.name = "once", .unique = true, .n_parts = 1, .parts = &BY_TAG,
                                   .kind = SDB_MULTI, .extract = tags_extract};
static const sdb_table_def DEF = {
    .name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 3, .indexes = INDEXES};

static sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static void row_values(sdb_value v[3], const char *tags, int n)
{
    v[0] = (sdb_value){.type = SDB_NULL};
    v[1] = text(tags);
    v[2] = (sdb_value){.type = SDB_INTEGER, .u.i = n};
}

static int put(sdb_txn *txn, sdb_table *t, int64_t rowid, const char *tags, int n)
{
    sdb_value v[3];
    row_values(v, tags, n);
    return sdb_put(txn, t, rowid, v);
}

static void assert_sound(sdb_txn *txn)
{
    char *wrong = sdb_txn_check(txn);
    if (wrong)
        fail_msg("%s", wrong);
}

static void open_table(sdb_db **db, sdb_table **t)
{
    sdb_txn *txn;
    assert_int_equal(sdb_open(db), SDB_OK);
    assert_int_equal(sdb_txn_begin(*db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &DEF, t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

/* By now every cursor, snapshot and transaction is gone. */
static void close_store(sdb_db *db, sdb_table *t)
{
    sdb_txn *txn;
    sdb_memory used;
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_delete_all(txn, t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_int_equal(used.live, 0);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* The rowids that a cursor gives, as "1 2 3". */
static const char *rows_of(sdb_cursor *cur, const sdb_range *range)
{
    static char out[4096];
    size_t n = 0;
    int rc = sdb_cursor_seek(cur, range);
    out[0] = 0;
    for (; rc == SDB_OK; rc = sdb_cursor_next(cur))
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", n ? " " : "",
                              (int)sdb_row_rowid(sdb_cursor_row(cur)));
    assert_int_equal(rc, SDB_DONE);
    assert_null(sdb_cursor_row(cur));
    return out;
}

static const char *rows_in_txn(sdb_db *db, sdb_txn *txn, sdb_table *t, const char *index,
                               const sdb_value *eq)
{
    sdb_cursor *cur;
    sdb_range range = {.eq = eq, .n_eq = eq != NULL};
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, sdb_txn_find_index(txn, t, index)), SDB_OK);
    const char *out = rows_of(cur, &range);
    sdb_cursor_free(cur);
    return out;
}

/* ---------------------------------------------------------------- the model */

typedef struct model {
    bool is_there[ROWS];
    char tags[ROWS][TAGS];
    int n[ROWS];
} model;

static void tags_random(char *out)
{
    static const char *const words[] = {"a",  "b",  "c", "blue", "Blue", "black", "",   "~", "7",
                                        "70", "12", "A", "bl",   "long-long-long-tag", "long-long-long-tax"};
    size_t n = 0, k = rnd(6);
    strcpy(out, "-");
    for (size_t i = 0; i < k && n < TAGS - 24; i++)
        n += (size_t)snprintf(out + n, TAGS - n, "%s%s", i ? "," : "",
                              words[rnd(sizeof words / sizeof *words)]);
}

static int value_order(const sdb_value *a, const sdb_value *b, bool fold)
{
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->type == SDB_INTEGER)
        return (a->u.i > b->u.i) - (a->u.i < b->u.i);
    for (uint32_t i = 0; a->type == SDB_TEXT; i++) {
        int x = i < a->n ? ((const unsigned char *)a->u.p)[i] : -1;
        int y = i < b->n ? ((const unsigned char *)b->u.p)[i] : -1;
        x += fold && x >= 'A' && x <= 'Z' ? 32 : 0;
        y += fold && y >= 'A' && y <= 'Z' ? 32 : 0;
        if (x != y)
            return x < y ? -1 : 1;
        if (x < 0)
            break;
    }
    return 0;
}

typedef struct hit {
    sdb_value key;
    int row;
} hit;

static bool hit_fold;
static int hit_sign;

/* As in the index: by key, in its direction, then by rowid. */
static int hit_order(const void *a, const void *b)
{
    const hit *x = a, *y = b;
    int c = value_order(&x->key, &y->key, hit_fold) * hit_sign;
    return c ? c : (x->row > y->row) - (x->row < y->row);
}

static bool is_within(const sdb_value *key, const sdb_range *r, bool fold)
{
    if (r->n_eq)
        return value_order(key, r->eq, fold) == 0;
    if (r->lower) {
        int c = value_order(key, r->lower, fold);
        if (c < 0 || (c == 0 && r->lower_open))
            return false;
    }
    if (r->upper) {
        int c = value_order(key, r->upper, fold);
        if (c > 0 || (c == 0 && r->upper_open))
            return false;
    }
    return true;
}

/* Every key of every row in the range, in order. */
static size_t model_hits(const model *m, const sdb_range *r, bool is_fold, hit *out)
{
    size_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!m->is_there[i] || strcmp(m->tags[i], "-") == 0)
            continue;
        for (const char *at = m->tags[i]; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            hit h = {.row = i};
            assert_int_equal(tag_value(at, strcspn(at, ","), &h.key), SDB_OK);
            if (is_within(&h.key, r, is_fold))
                out[n++] = h;
        }
    }
    hit_fold = is_fold;
    hit_sign = is_fold ? -1 : 1;
    qsort(out, n, sizeof *out, hit_order);
    return n;
}

static void assert_range(sdb_cursor *cur, const model *m, const sdb_range *r, bool is_fold)
{
    static hit hits[ROWS * 8];
    bool seen[ROWS] = {false};
    size_t n = model_hits(m, r, is_fold, hits), n_rows = 0;
    uint64_t count;
    int rc = sdb_cursor_seek(cur, r);
    for (size_t i = 0; i < n; i++) {
        const hit *h = &hits[r->reverse ? n - 1 - i : i];
        if (seen[h->row])
            continue;
        seen[h->row] = true;
        n_rows++;
        assert_int_equal(rc, SDB_OK);
        assert_int_equal(sdb_row_rowid(sdb_cursor_row(cur)), h->row);
        rc = sdb_cursor_next(cur);
    }
    assert_int_equal(rc, SDB_DONE);
    rc = sdb_cursor_count(cur, r, &count);
    assert_int_equal(rc, r->n_eq ? SDB_OK : SDB_MISUSE);
    if (r->n_eq)
        assert_int_equal(count, n_rows);
}

/* Some ranges, both ways. */
static void assert_answers(sdb_cursor *cur, const model *m, bool is_fold)
{
    char a[TAGS], b[TAGS];
    for (int i = 0; i < 4; i++) {
        sdb_value lower, upper;
        do
            tags_random(a);
        while (a[0] == '-');
        do
            tags_random(b);
        while (b[0] == '-');
        assert_int_equal(tag_value(a, strcspn(a, ","), &lower), SDB_OK);
        assert_int_equal(tag_value(b, strcspn(b, ","), &upper), SDB_OK);
        sdb_range r = {.lower_open = rnd(2), .upper_open = rnd(2)};
        if (i == 0) {
            r.eq = &lower;
            r.n_eq = 1;
        } else if (i < 3) {
            r.lower = rnd(4) ? &lower : NULL;
            r.upper = rnd(4) ? &upper : NULL;
        }
        assert_range(cur, m, &r, is_fold);
        r.reverse = true;
        assert_range(cur, m, &r, is_fold);
    }
}

static void assert_model(sdb_cursor *cur, sdb_txn *txn, sdb_table *t, const model *m)
{
    assert_sound(txn);
    for (int is_fold = 0; is_fold < 2; is_fold++) {
        int index = sdb_txn_find_index(txn, t, is_fold ? "by_fold" : "by_tag");
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, index), SDB_OK);
        assert_answers(cur, m, is_fold);
        sdb_cursor_close(cur);
    }
}

/* ---------------------------------------------------------------- random changes */

/* One change; the model follows when it succeeds. */
typedef struct change {
    enum { PUT, DELETE, MOVE, REINDEX } kind;
    int row, to;
    char tags[TAGS];
    int n;
} change;

static change change_random(const model *m)
{
    change c = {.kind = PUT, .row = (int)rnd(ROWS), .to = (int)rnd(ROWS), .n = (int)rnd(5)};
    bool is_there = m->is_there[c.row];
    if (rnd(30) == 0)
        c.kind = REINDEX;
    else if (is_there && rnd(4) == 0)
        c.kind = DELETE;
    else if (is_there && !m->is_there[c.to] && rnd(5) == 0)
        c.kind = MOVE;
    if (is_there && rnd(2))
        strcpy(c.tags, m->tags[c.row]);
    else
        tags_random(c.tags);
    return c;
}

static int reindex(sdb_txn *txn, sdb_table *t)
{
    int sp, rc = sdb_txn_savepoint(txn, &sp);
    if (rc != SDB_OK)
        return rc;
    rc = sdb_txn_drop_index(txn, t, sdb_txn_find_index(txn, t, "by_tag"));
    if (rc == SDB_OK)
        rc = sdb_txn_create_index(txn, t, &INDEXES[0]);
    if (rc != SDB_OK)
        sdb_txn_rollback_to(txn, sp);
    sdb_txn_release(txn, sp);
    return rc;
}

static int change_make(sdb_txn *txn, sdb_table *t, const change *c, model *m)
{
    sdb_value v[3];
    const sdb_row *old = sdb_txn_get(txn, t, c->row);
    int to = c->kind == MOVE ? c->to : c->row, rc;
    row_values(v, c->tags, c->n);
    if (c->kind == REINDEX) {
        return reindex(txn, t);
    } else if (c->kind == DELETE) {
        rc = sdb_delete(txn, t, old);
    } else {
        rc = sdb_stage(txn, t, to, v);
        if (rc == SDB_OK)
            rc = sdb_stage_put(txn, old);
    }
    if (rc != SDB_OK)
        return rc;
    m->is_there[c->row] = false;
    if (c->kind != DELETE) {
        m->is_there[to] = true;
        strcpy(m->tags[to], c->tags);
        m->n[to] = c->n;
    }
    return SDB_OK;
}

/* The same with its first allocation failing, then its second, ... */
static void change_make_hard(sdb_cursor *cur, sdb_txn *txn, sdb_table *t, const change *c, model *m)
{
    for (int64_t n = 1;; n++) {
        sdb_mem_inject(n, rnd(2));
        int rc = change_make(txn, t, c, m);
        bool has_failed = sdb_mem_inject(0, false) > 0;
        if (rc == SDB_OK) /* a fault may have been for something that is only nice to have */
            return;
        assert_true(has_failed && rc == SDB_NOMEM);
        if (n % 4 == 1)
            assert_model(cur, txn, t, m);
    }
}

/* With or without a feed, for which deleted rows are kept. */
static void test_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rng = seed * 0x9e3779b97f4a7c15u;
        static model now, committed, held, seen, saved[8];
        sdb_db *db;
        sdb_table *t;
        sdb_txn *txn;
        sdb_snapshot *snap;
        sdb_cursor *cur, *old, *open;
        memset(&now, 0, sizeof now);
        committed = now;
        open_table(&db, &t);
        assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &old), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &open), SDB_OK);
        bool is_open = false, has_feed = seed % 2;
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        if (has_feed)
            assert_int_equal(sdb_txn_create_feed(txn, t, "feed"), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        for (int round = 0; round < 50; round++) {
            int n_saved = 0, sp;
            assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
            for (int n = (int)rnd(30); n >= 0; n--) {
                switch (rnd(12)) {
                case 0:
                    if (n_saved < 8) {
                        assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
                        assert_int_equal(sp, n_saved);
                        saved[n_saved++] = now;
                    }
                    break;
                case 1:
                    if (n_saved > 0) {
                        sp = (int)rnd((uint64_t)n_saved);
                        sdb_txn_rollback_to(txn, sp);
                        now = saved[sp];
                        n_saved = sp + 1;
                    }
                    break;
                case 2:
                    if (n_saved > 0) {
                        n_saved = (int)rnd((uint64_t)n_saved);
                        sdb_txn_release(txn, n_saved);
                    }
                    break;
                case 3:
                    if (!is_open) {
                        int index = sdb_txn_find_index(txn, t, "by_tag");
                        assert_int_equal(sdb_cursor_open_txn(open, txn, t, index), SDB_OK);
                        is_open = true;
                        seen = now;
                    } else {
                        sdb_cursor_close(open);
                        is_open = false;
                    }
                    break;
                default: {
                    change c = change_random(&now);
                    if (rnd(3) == 0)
                        change_make_hard(cur, txn, t, &c, &now);
                    else
                        assert_int_equal(change_make(txn, t, &c, &now), SDB_OK);
                }
                }
                if (is_open)
                    assert_answers(open, &seen, false);
                if (n % 3 == 0)
                    assert_model(cur, txn, t, &now);
            }
            if (has_feed && rnd(4) == 0)
                assert_int_equal(sdb_txn_acknowledge(txn, t, "feed", sdb_txn_revision(txn, t)), SDB_OK);
            if (rnd(4) == 0) {
                sdb_txn_abort(txn);
                now = committed;
            } else {
                assert_int_equal(sdb_txn_commit(txn), SDB_OK);
                committed = now;
            }
            if (is_open)
                assert_answers(open, &seen, false);
            sdb_cursor_close(open); /* by the thread of the transaction, whenever */
            is_open = false;
            if (sdb_snapshot_held(snap))
                assert_answers(old, &held, true);
            if (rnd(5) == 0) {
                int index = 1;
                sdb_cursor_close(old);
                sdb_snapshot_drop(snap);
                sdb_snapshot_take(snap);
                held = committed;
                while (strcmp(sdb_snapshot_index(snap, t, index)->name, "by_fold") != 0)
                    index++;
                assert_int_equal(sdb_cursor_open(old, snap, t, index), SDB_OK);
            }
        }
        sdb_cursor_free(open);
        sdb_cursor_free(old);
        sdb_cursor_free(cur);
        sdb_snapshot_free(snap);
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        assert_int_equal(sdb_txn_drop_feed(txn, t, "feed"), has_feed ? SDB_OK : SDB_DONE);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        close_store(db, t);
    }
}

/* ---------------------------------------------------------------- sets */

/* A key twice in a set is there once; an empty text and NULL are keys; a row without keys is not in the
** index. Through insert, change and delete. */
static void test_sets(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    open_table(&db, &t);
    sdb_value a = text("a"), b = text("b"), empty = text(""), null = {.type = SDB_NULL};
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b,a,a", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "-", 0), SDB_OK);
    assert_int_equal(put(txn, t, 4, ",~,,b,~", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "1");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &b), "1 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &empty), "2 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &null), "4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "4 2 1");
    assert_string_equal(rows_in_txn(db, txn, t, "by_fold", NULL), "1 4 2");
    assert_int_equal(put(txn, t, 1, "b,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "b,a,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "", 0), SDB_OK);
    assert_int_equal(put(txn, t, 4, "-", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &b), "1 2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &empty), "3");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &null), "");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "3 2 1");
    assert_sound(txn);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, i)), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "");
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* Thousands of keys in one row, in no order. */
static void test_large_set(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    static char tags[KEYS * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    size_t n = 0;
    open_table(&db, &t);
    for (uint64_t i = 0; i < KEYS; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", (int)(i * 7919 % 3000));
    sdb_value one = text("t1234"), none = text("t3000");
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "t1234", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &one), "1 2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &none), "");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "1 2");
    assert_sound(txn);
    tags[n - 6] = 0; /* some keys less */
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* What changes no key of a row leaves the index alone, and one tag more is one entry more. */
static void test_touched(void **state)
{
    (void)state;
    static char tags[MANY * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_snapshot *snap;
    sdb_memory used;
    size_t n = 0;
    open_table(&db, &t);
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", i);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);

    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    int before = atomic_load(&n_extracted);
    assert_int_equal(put(txn, t, 1, tags, 1), SDB_OK);
    assert_int_equal(atomic_load(&n_extracted), before + 1); /* the new row's; the old one's are the same */
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_in_range(used.retired, n, n + 200); /* the row */

    snprintf(tags + n, sizeof tags - n, ",one-more");
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 1), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_in_range(used.retired, n, n + 4000); /* with the two paths of nodes, not 800 entries */
    sdb_snapshot_free(snap);
    close_store(db, t);
}

/* ---------------------------------------------------------------- refusals */

static void test_refused(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    static const sdb_part two[] = {{1, SDB_BINARY, false}, {2, SDB_BINARY, false}};
    sdb_index_def wide = {.name = "w", .n_parts = 2, .parts = two, .kind = SDB_MULTI,
                          .extract = tags_extract};
    sdb_index_def mute = {.name = "m", .n_parts = 1, .parts = &BY_TAG, .kind = SDB_MULTI};
    sdb_value v[3], a = text("a");
    const sdb_row *row;
    uint64_t count;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &wide), SDB_MISUSE);
    assert_int_equal(sdb_txn_create_index(txn, t, &mute), SDB_MISUSE);
    assert_int_equal(put(txn, t, 1, "a,!", 0), SDB_NOTSET);
    assert_int_equal(put(txn, t, 1, "a", 0), SDB_OK);
    assert_int_equal(put(txn, t, 1, "b,!,c", 0), SDB_NOTSET); /* it stays what it was */
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "1");
    row_values(v, "!", 0);
    assert_int_equal(sdb_stage(txn, t, 2, v), SDB_NOTSET);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_MISUSE); /* nothing is staged */

    /* rows that an index made later cannot take */
    assert_int_equal(sdb_txn_drop_index(txn, t, 3), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, t, 1), SDB_OK);
    assert_int_equal(put(txn, t, 2, "a,!", 0), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &INDEXES[0]), SDB_NOTSET);
    assert_int_equal(sdb_txn_indexes(txn, t), 1);
    row = sdb_txn_get(txn, t, 2);
    assert_int_equal(sdb_delete(txn, t, row), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &INDEXES[0]), SDB_OK);
    assert_sound(txn);

    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 2), SDB_OK);
    assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_WITHIN, &a, false), SDB_MISUSE);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){.eq = v, .n_eq = 2}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){.eq = &a, .n_eq = 1, .lower = &a}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){0}, &count), SDB_MISUSE);
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &a, .n_eq = 1}, &count), SDB_OK);
    assert_int_equal(count, 1);
    sdb_cursor_free(cur);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    sdb_snapshot *snap;
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_snapshot_find_many(snap, t, 2, &a, 1, &row), SDB_MISUSE);
    sdb_snapshot_free(snap);
    close_store(db, t);
}

/* A store that is full refuses a row with many keys, and is as it was. */
static void test_full(void **state)
{
    (void)state;
    static char tags[MANY * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    size_t n = 0;
    int rc, rows = 0;
    open_table(&db, &t);
    sdb_set_limit(db, 8 << 20);
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", i);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    while ((rc = put(txn, t, rows + 1, tags, 0)) == SDB_OK)
        rows++;
    assert_int_equal(rc, SDB_FULL);
    assert_true(rows > 10);
    assert_sound(txn);
    assert_int_equal(sdb_txn_count(txn, t), rows);
    assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, 1)), SDB_OK);
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* ---------------------------------------------------------------- unique */

static void test_unique(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_value v[3], b = text("b");
    int once;
    open_table(&db, &t);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "b,c", 0), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &ONCE), SDB_DUPLICATE);
    assert_int_equal(put(txn, t, 2, "c,c,~,~", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "~", 0), SDB_OK); /* NULLs are not alike */
    assert_int_equal(sdb_txn_create_index(txn, t, &ONCE), SDB_OK);
    once = sdb_txn_find_index(txn, t, "once");
    assert_int_equal(put(txn, t, 4, "d,b", 0), SDB_EXISTS);
    assert_int_equal(put(txn, t, 4, "d,~", 0), SDB_OK);
    assert_int_equal(put(txn, t, 1, "b,a,b,e", 0), SDB_OK); /* its own do not count */
    assert_int_equal(put(txn, t, 1, "b,d", 0), SDB_EXISTS);
    assert_string_equal(rows_in_txn(db, txn, t, "once", &b), "1");
    assert_sound(txn);

    /* the row under another rowid, with its keys */
    const sdb_row *old = sdb_txn_get(txn, t, 1);
    row_values(v, "b,x", 0);
    assert_int_equal(sdb_stage(txn, t, 7, v), SDB_OK);
    assert_ptr_equal(sdb_stage_clash(txn, once, NULL), old);
    assert_null(sdb_stage_clash(txn, once, old));
    assert_int_equal(sdb_stage_put(txn, old), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "once", &b), "7");

    /* several rows in the way, one after the other */
    row_values(v, "x,c,d", 0);
    assert_int_equal(sdb_stage(txn, t, 9, v), SDB_OK);
    int n = 0;
    for (const sdb_row *victim; (victim = sdb_stage_clash(txn, once, NULL)) != NULL; n++)
        assert_int_equal(sdb_delete(txn, t, victim), SDB_OK);
    assert_int_equal(n, 3);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "once", NULL), "3 9");
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* ---------------------------------------------------------------- watches */

static sdb_watch *watch(sdb_db *db, sdb_table *t, const sdb_range *range)
{
    sdb_watch *w;
    sdb_snapshot *snap;
    assert_int_equal(sdb_watch_new(db, &w), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_watch_arm(w, snap, t, 1, range), SDB_OK);
    sdb_snapshot_free(snap);
    return w;
}

/* A watch of a key hears of the rows that have it or had it, and of no others. */
static void test_watches(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c", "d"};
    static const struct {
        const char *tags;
        int n;
        const char *fired;
    } steps[] = {
        {"a,b", 0, "ab"}, {"a,c", 0, "abc"}, {"a,c", 1, "ac"}, {"d", 1, "acd"}, {NULL, 0, "d"},
        {"-", 0, ""},     {NULL, 0, ""},
    };
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    open_table(&db, &t);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sdb_watch *w[4], *range;
        char fired[5] = "";
        sdb_value lower = text("b"), upper = text("c");
        for (int k = 0; k < 4; k++) {
            sdb_value key = text(keys[k]);
            w[k] = watch(db, t, &(sdb_range){.eq = &key, .n_eq = 1});
        }
        range = watch(db, t, &(sdb_range){.lower = &lower, .upper = &upper});
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        if (steps[i].tags)
            assert_int_equal(put(txn, t, 1, steps[i].tags, steps[i].n), SDB_OK);
        else
            assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, 1)), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        assert_true(sdb_watch_fired(range) == (strpbrk(steps[i].fired, "bc") != NULL));
        sdb_watch_free(range);
        for (int k = 0; k < 4; k++) {
            if (sdb_watch_fired(w[k]))
                strcat(fired, keys[k]);
            sdb_watch_free(w[k]);
        }
        assert_string_equal(fired, steps[i].fired);
    }
    close_store(db, t);
}

/* ---------------------------------------------------------------- cursors and threads */

/* A cursor goes on when its index has gone, and when that is undone. */
static void test_cursor_outlives(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    int sp;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(put(txn, t, i, i % 2 ? "a,b" : "b,c", 0), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    assert_int_equal(sdb_delete_all(txn, t), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, t, 1), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){.reverse = true}), "4 2 5 3 1");
    sdb_txn_rollback_to(txn, sp);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "");
    sdb_txn_abort(txn);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    sdb_cursor_free(cur);
    close_store(db, t);
}

/* Rows sorted for a reader whose cursor is on a multi index: all of them, with its tags or without. */
static void test_sorted(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    sdb_sorted *sorted;
    uint64_t n;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b", 3), SDB_OK);
    assert_int_equal(put(txn, t, 2, "-", 2), SDB_OK);
    assert_int_equal(put(txn, t, 3, "b", 1), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    assert_int_equal(sdb_sorted_new(cur, &INDEXES[0], NULL, &sorted), SDB_MISUSE);
    assert_int_equal(sdb_sorted_new(cur, &INDEXES[1], NULL, &sorted), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3");
    assert_int_equal(sdb_cursor_read(cur, sorted), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "3 2 1");
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){0}, &n), SDB_OK);
    assert_int_equal(n, 3);
    sdb_cursor_free(cur);
    sdb_sorted_free(sorted);
    sdb_txn_abort(txn);
    close_store(db, t);
}

typedef struct reader {
    sdb_db *db;
    sdb_table *t;
    atomic_bool *is_over;
} reader;

/* Each row has the tag "all" and one of "a" and "b". */
static void *read_rows(void *arg)
{
    const reader *r = arg;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    assert_int_equal(sdb_snapshot_new(r->db, &snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(r->db, &cur), SDB_OK);
    while (!atomic_load(r->is_over)) {
        uint64_t a = 0, b = 0, all = 0, n = 0;
        sdb_value tag[] = {text("a"), text("b"), text("all")};
        sdb_snapshot_take(snap);
        assert_int_equal(sdb_cursor_open(cur, snap, r->t, 1), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[0], .n_eq = 1}, &a), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[1], .n_eq = 1}, &b), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[2], .n_eq = 1}, &all), SDB_OK);
        for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur))
            n++;
        assert_true(a + b == MANY && all == MANY && n == MANY);
        sdb_cursor_close(cur);
        sdb_snapshot_drop(snap);
    }
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static const char *const tags[] = {"a,all", "b,all", "all,b,all"};
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    pthread_t thread[2];
    atomic_bool is_over = false;
    open_table(&db, &t);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(put(txn, t, i, tags[i % 3], 0), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    reader r = {db, t, &is_over};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_rows, &r), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        for (int k = 0; k < 10; k++)
            assert_int_equal(put(txn, t, (int64_t)rnd(MANY), tags[rnd(3)], i), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    close_store(db, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_large_set),
        cmocka_unit_test(test_touched),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_unique),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_cursor_outlives),
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
