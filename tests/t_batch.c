/* t_batch.c - many look-ups at once give what single ones give. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* t(id = rowid, a, s); 1: by_a (a), 2: unique by_s (s NOCASE, a DESC), 3: unique by_b (s) */
static const sdb_part BY_A = {1, SDB_BINARY, false}, BY_B = {2, SDB_BINARY, false};
static const sdb_part BY_S[] = {{2, SDB_NOCASE, false}, {1, SDB_BINARY, true}};
static const sdb_index_def INDEXES[] = {
    {.name = "by_a", .n_parts = 1, .parts = &BY_A},
    {.name = "by_s", .unique = true, .n_parts = 2, .parts = BY_S},
    {.name = "by_b", .unique = true, .n_parts = 1, .parts = &BY_B},
};
static const sdb_table_def DEF = {
    .name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 3, .indexes = INDEXES};

typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_cursor *cur;
} fixture;

enum { TEXT = 320 };

/* Some NULL, some long, most alike for long. */
static sdb_value text_of(uint64_t i, char *room)
{
    if (i % 13 == 0)
        return (sdb_value){.type = SDB_NULL};
    size_t n = i % 7 == 0 ? TEXT - 20 : i % 4;
    memset(room, 'x', n);
    n += (size_t)snprintf(room + n, 20, "%llu", (unsigned long long)i);
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)n, .u.p = room};
}

static int64_t rowid_of(uint64_t i, int shape)
{
    return shape == 0 ? (int64_t)i - 5 : (int64_t)(i * 0x9e3779b97f4a7c15u);
}

static void fixture_open(fixture *f, uint64_t rows, int shape)
{
    sdb_txn *txn;
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &DEF, &f->t), SDB_OK);
    for (uint64_t i = 0; i < rows; i++) {
        char room[TEXT];
        sdb_value v[3] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = (int64_t)i}};
        v[2] = text_of(i, room);
        assert_int_equal(sdb_put(txn, f->t, rowid_of(i, shape), v), SDB_OK);
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(f->db, &f->cur), SDB_OK);
    sdb_snapshot_take(f->snap);
}

static void fixture_close(fixture *f)
{
    sdb_cursor_free(f->cur);
    sdb_snapshot_free(f->snap);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static const sdb_row *single(fixture *f, int index, const sdb_value *key, uint16_t n)
{
    sdb_range r = {.eq = key, .n_eq = n};
    for (int i = 0; i < n; i++)
        if (key[i].type == SDB_NULL)
            return NULL;
    assert_int_equal(sdb_cursor_open(f->cur, f->snap, f->t, index), SDB_OK);
    int rc = sdb_cursor_seek(f->cur, &r);
    assert_true(rc == SDB_OK || rc == SDB_DONE);
    const sdb_row *row = sdb_cursor_row(f->cur);
    sdb_cursor_close(f->cur);
    return row;
}

static void assert_many(fixture *f, uint64_t rows, int shape, size_t n)
{
    int64_t *rowid = calloc(n + 1, sizeof *rowid);
    char(*room)[TEXT] = malloc((n + 1) * sizeof *room);
    sdb_value *key = malloc((n + 1) * 2 * sizeof *key), *one = malloc((n + 1) * sizeof *one);
    const sdb_row **out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        uint64_t k = rnd(rows + rows / 4 + 2); /* some are not there, some twice */
        rowid[i] = rowid_of(k, shape) + (rnd(20) == 0);
        one[i] = key[2 * i] = text_of(k, room[i]);
        if (k % 2 && key[2 * i].type == SDB_TEXT)
            room[i][0] &= ~32; /* the other case: for by_s the same */
        key[2 * i + 1] = (sdb_value){.type = SDB_REAL, .u.r = (double)k + (rnd(20) == 0) * 0.5};
        if (rnd(20) == 0)
            key[2 * i + 1] = (sdb_value){.type = SDB_NULL};
    }
    out[n] = (const sdb_row *)(const void *)room; /* not to be written */
    sdb_snapshot_get_many(f->snap, f->t, rowid, n, out);
    size_t n_hits = 0;
    for (size_t i = 0; i < n; i++) {
        sdb_value id = {.type = SDB_INTEGER, .u.i = rowid[i]};
        assert_ptr_equal(out[i], single(f, 0, &id, 1));
        n_hits += out[i] != NULL;
    }
    assert_true(n < 50 || rows < 50 || (n_hits > 0 && n_hits < n));
    assert_int_equal(sdb_snapshot_find_many(f->snap, f->t, 2, key, n, out), SDB_OK);
    for (size_t i = 0; i < n; i++)
        assert_ptr_equal(out[i], single(f, 2, key + 2 * i, 2));
    assert_int_equal(sdb_snapshot_find_many(f->snap, f->t, 3, one, n, out), SDB_OK);
    for (size_t i = 0; i < n; i++)
        assert_ptr_equal(out[i], single(f, 3, one + i, 1));
    assert_ptr_equal(out[n], room);
    free(rowid);
    free(room);
    free(key);
    free(one);
    free(out);
}

static void test_same_as_single(void **state)
{
    (void)state;
    static const uint64_t rows[] = {0, 1, 2, 3, 20, 300, 20000};
    for (int shape = 0; shape < 2; shape++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            fixture f;
            fixture_open(&f, rows[r], shape);
            for (size_t n = 0; n < 140; n++)
                assert_many(&f, rows[r], shape, n);
            assert_many(&f, rows[r], shape, 5000);
            fixture_close(&f);
        }
    }
}

/* What is found is the snapshot's, whatever has been committed since. */
static void test_snapshot(void **state)
{
    (void)state;
    enum { N = 1000 };
    fixture f;
    sdb_txn *txn;
    static int64_t rowid[N];
    static const sdb_row *before[N], *after[N];
    fixture_open(&f, N, 1);
    for (int i = 0; i < N; i++)
        rowid[i] = rowid_of((uint64_t)i, 1);
    sdb_snapshot_get_many(f.snap, f.t, rowid, N, before);
    for (int i = 0; i < N; i += 2) {
        assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
        assert_int_equal(sdb_delete(txn, f.t, sdb_txn_get(txn, f.t, rowid[i])), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    }
    sdb_snapshot_get_many(f.snap, f.t, rowid, N, after);
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(before[i], after[i]);
        assert_int_equal(sdb_row_value(f.t, after[i], 1).u.i, i);
    }
    sdb_snapshot_drop(f.snap);
    sdb_snapshot_take(f.snap);
    sdb_snapshot_get_many(f.snap, f.t, rowid, N, after);
    for (int i = 0; i < N; i++)
        assert_int_equal(after[i] != NULL, i % 2);
    fixture_close(&f);
}

/* Looking ahead finds what a look-up would, where that is certain, and moves nothing. */
static void test_look_ahead(void **state)
{
    enum { ROWS = 70000, N = 200 };
    static char room[N][TEXT];
    static const sdb_row *out[N + 1];
    static const struct {
        int index, n_eq;
        bool is_whole; /* that is a key of one row */
    } cases[] = {{0, 1, true}, {1, 1, false}, {2, 1, false}, {2, 2, true}, {3, 1, true}};
    fixture f;

    (void)state;
    fixture_open(&f, ROWS, 1);
    assert_false(sdb_cursor_look_ahead(f.cur, &(sdb_value){.type = SDB_INTEGER}, 1, 1, out)); /* it is not open */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 0; n <= N; n += 40) {
            int index = cases[i].index, n_eq = cases[i].n_eq;
            size_t n_hits = 0;
            sdb_value v[2 * N];
            for (size_t k = 0; k < n; k++) {
                uint64_t row = rnd(ROWS + ROWS / 8);
                sdb_value *at = &v[k * (size_t)n_eq];
                at[n_eq - 1] = (sdb_value){.type = SDB_INTEGER, .u.i = index ? (int64_t)row : rowid_of(row, 1)};
                if (index > 1)
                    at[0] = text_of(row, room[k]);
                if (k % 50 == 7)
                    at[0] = (sdb_value){.type = SDB_NULL};
            }
            sdb_cursor *cur;
            assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
            assert_int_equal(sdb_cursor_open(cur, f.snap, f.t, index), SDB_OK);
            assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){0}), SDB_OK);
            const sdb_row *at = sdb_cursor_row(cur);
            out[n] = at; /* not to be written */
            assert_false(sdb_cursor_look_ahead(cur, v, 0, 1, NULL));
            assert_false(sdb_cursor_look_ahead(cur, v, index == 2 ? 3 : 2, 1, NULL));
            assert_true(sdb_cursor_look_ahead(cur, v, n_eq, n, NULL));
            assert_true(sdb_cursor_look_ahead(cur, v, n_eq, n, out));
            assert_ptr_equal(out[n], at);
            assert_ptr_equal(sdb_cursor_row(cur), at);
            sdb_cursor_free(cur);
            for (size_t k = 0; k < n; k++) {
                const sdb_value *key = &v[k * (size_t)n_eq];
                bool is_short = key->type < SDB_TEXT || key->n < 15; /* longer text is passed over */
                assert_ptr_equal(out[k], cases[i].is_whole && is_short ? single(&f, index, key, (uint16_t)n_eq) : NULL);
                n_hits += out[k] != NULL;
            }
            assert_true(!n || (n_hits > 0) == cases[i].is_whole);
        }
    fixture_close(&f);
#ifndef SDB_EAGER
    fixture_open(&f, 100, 0);
    assert_int_equal(sdb_cursor_open(f.cur, f.snap, f.t, 0), SDB_OK);
    assert_false(sdb_cursor_look_ahead(f.cur, &(sdb_value){.type = SDB_INTEGER}, 1, 1, out)); /* it is small */
    fixture_close(&f);
#endif
}

static void test_misuse(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *txn;
    const sdb_row *out[2];
    char room[TEXT];
    sdb_value key[2] = {text_of(1, room), {.type = SDB_INTEGER, .u.i = 1}};
    int64_t rowid[2] = {-5, -4};
    fixture_open(&f, 10, 0);
    for (int index = -1; index < 5; index++)
        assert_int_equal(sdb_snapshot_find_many(f.snap, f.t, index, key, 1, out),
                         index == 2 || index == 3 ? SDB_OK : SDB_MISUSE);
    sdb_table *t = sdb_table_ref(f.t);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(txn, t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_get_many(f.snap, t, rowid, 2, out);
    assert_non_null(out[0]);
    sdb_snapshot_drop(f.snap);
    sdb_snapshot_take(f.snap);
    sdb_snapshot_get_many(f.snap, t, rowid, 2, out); /* the table is not in it */
    assert_null(out[0]);
    assert_null(out[1]);
    assert_int_equal(sdb_snapshot_find_many(f.snap, t, 2, key, 1, out), SDB_MISUSE);
    sdb_table_unref(t);
    fixture_close(&f);
}

static void test_no_memory(void **state)
{
    (void)state;
    enum { N = 100 };
    fixture f;
    const sdb_row *out[N];
    sdb_value key[N];
    static char room[N][TEXT];
    fixture_open(&f, N, 0);
    for (uint64_t i = 0; i < N; i++)
        key[i] = text_of(i, room[i]);
    int64_t n = 1;
    for (;; n++) {
        sdb_mem_inject(n, false);
        int rc = sdb_snapshot_find_many(f.snap, f.t, 3, key, N, out);
        bool has_failed = sdb_mem_inject(0, false);
        assert_int_equal(rc, has_failed ? SDB_NOMEM : SDB_OK);
        if (rc == SDB_OK)
            break;
    }
    assert_true(n > 3);
    assert_null(out[0]);
    assert_int_equal(sdb_row_rowid(out[1]), rowid_of(1, 0));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_single),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_look_ahead),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
