/* t_build.c - an index that is created on rows which are there: the same rows in the order of their keys,
** or nothing at all. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Rows are read in groups, and from some number on their keys are looked for together. */
static const int SIZES[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 1000, 70001};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES, MANY = 70001 };

static const sdb_part NUMBER = {.column = 1}, TEXT = {.column = 2};
static const sdb_index_def DEFS[] = {
    {.name = "number", .n_parts = 1, .parts = &NUMBER},
    {.name = "text", .unique = true, .n_parts = 1, .parts = &TEXT},
};
enum { N_DEFS = sizeof DEFS / sizeof *DEFS };

typedef struct fixture {
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *table;
} fixture;

static int row_put(fixture *f, int64_t rowid, int64_t number, const char *text)
{
    sdb_value v[3] = {{.type = SDB_NULL},
                      {.type = SDB_INTEGER, .u.i = number},
                      {.type = SDB_TEXT, .n = (uint32_t)strlen(text), .u.p = text}};
    return sdb_put(f->txn, f->table, rowid, v);
}

/* Few numbers, and every text once, in no order. */
static void fixture_open(fixture *f, int n)
{
    sdb_table_def def = {.name = "t", .n_columns = 3, .rowid_column = 0};
    char text[64];
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f->txn, &def, &f->table), SDB_OK);
    for (int i = 0; i < n; i++) {
        sprintf(text, "a text that begins alike %d", (int)((int64_t)i * 7919 % MANY));
        assert_int_equal(row_put(f, i, (int64_t)rnd(1 + (uint64_t)n / 3), text), SDB_OK);
    }
}

static void fixture_close(fixture *f)
{
    assert_null(sdb_txn_check(f->txn));
    sdb_txn_abort(f->txn);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static uint64_t count(fixture *f, int index)
{
    sdb_cursor *cur;
    uint64_t n;
    assert_int_equal(sdb_cursor_new(f->db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, f->txn, f->table, index), SDB_OK);
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){0}, &n), SDB_OK);
    sdb_cursor_close(cur);
    sdb_cursor_free(cur);
    return n;
}

static void test_sizes(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        fixture f;
        fixture_open(&f, SIZES[s]);
        for (int i = 0; i < N_DEFS; i++) {
            assert_int_equal(sdb_txn_create_index(f.txn, f.table, &DEFS[i]), SDB_OK);
            assert_int_equal(count(&f, i + 1), SIZES[s]);
        }
        fixture_close(&f);
    }
}

/* The second of two rows that are alike may be any one of its group. */
static void test_duplicates(void **state)
{
    (void)state;
    for (int n = 1; n < 50; n++) {
        fixture f;
        fixture_open(&f, n);
        assert_int_equal(row_put(&f, n, 0, "a text that begins alike 0"), SDB_OK);
        for (int more = (int)rnd(20); more > 0; more--)
            assert_int_equal(row_put(&f, n + more, 0, &"aaaaaaaaaaaaaaaaaaaa"[more]), SDB_OK);
        assert_int_equal(sdb_txn_create_index(f.txn, f.table, &DEFS[1]), SDB_DUPLICATE);
        assert_int_equal(sdb_txn_indexes(f.txn, f.table), 0);
        assert_null(sdb_txn_check(f.txn));
        assert_int_equal(sdb_delete(f.txn, f.table, sdb_txn_get(f.txn, f.table, n)), SDB_OK);
        assert_int_equal(sdb_txn_create_index(f.txn, f.table, &DEFS[1]), SDB_OK);
        fixture_close(&f);
    }
}

/* Of long keys a group has fewer. */
static void test_long_keys(void **state)
{
    (void)state;
    static const sdb_index_def DEF = {.name = "text", .n_parts = 1, .parts = &TEXT};
    static char text[70000];
    fixture f;
    fixture_open(&f, 10);
    memset(text, 'a', sizeof text - 1);
    for (int i = 0; i < 40; i++) {
        text[sizeof text - 2] = (char)('0' + i);
        text[sizeof text / 2] = i % 3 ? 0 : 'a'; /* most end there, and are alike */
        assert_int_equal(row_put(&f, 100 + i, i, text), SDB_OK);
    }
    assert_int_equal(sdb_txn_create_index(f.txn, f.table, &DEF), SDB_OK);
    assert_int_equal(count(&f, 1), 50);
    fixture_close(&f);
}

static void test_faults(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 40);
    int n = 0;
    for (int rc = SDB_NOMEM; rc != SDB_OK; n++) {
        int64_t blocks = sdb_mem_blocks();
        sdb_mem_inject(n + 1, false);
        rc = sdb_txn_create_index(f.txn, f.table, &DEFS[1]);
        sdb_mem_inject(0, false);
        if (rc == SDB_OK)
            break;
        assert_int_equal(rc, SDB_NOMEM);
        assert_int_equal(sdb_mem_blocks(), blocks);
        assert_int_equal(sdb_txn_indexes(f.txn, f.table), 0);
        assert_null(sdb_txn_check(f.txn));
    }
    assert_true(n > 3); /* the set, the index, the keys, and each group's nodes */
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
