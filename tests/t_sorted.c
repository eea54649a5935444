/* t_sorted.c - sorted rows against an index of the same definition: every range gives the same rows in
** the same order. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_INDEXES = 6 };

static const sdb_part PARTS[N_INDEXES][3] = {
    {{1, SDB_BINARY, false}},
    {{2, SDB_NOCASE, true}},
    {{2, SDB_BINARY, false}, {1, SDB_BINARY, true}},
    {{3, SDB_BINARY, false}},
    {{0, SDB_BINARY, true}},
    {{3, SDB_BINARY, true}, {2, SDB_RTRIM, false}, {1, SDB_BINARY, false}}};
static const sdb_index_def DEFS[N_INDEXES] = {
    {.name = "number", .n_parts = 1, .parts = PARTS[0]},
    {.name = "text", .n_parts = 1, .parts = PARTS[1]},
    {.name = "two", .n_parts = 2, .parts = PARTS[2]},
    {.name = "any", .n_parts = 1, .parts = PARTS[3]},
    {.name = "rowid", .unique = true, .n_parts = 1, .parts = PARTS[4]},
    {.name = "three", .n_parts = 3, .parts = PARTS[5]}};

typedef struct fixture {
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *table;
    sdb_cursor *rows, *there, *here; /* by rowid; in the index; in the sorted rows */
} fixture;

/* Texts that are long alike, texts that are short, numbers of few and of many values. */
static sdb_value random_value(int column, char *text)
{
    static const sdb_value ODD[] = {{.type = SDB_NULL},
                                    {.type = SDB_REAL, .u.r = -1e300},
                                    {.type = SDB_REAL, .u.r = 0.5},
                                    {.type = SDB_INTEGER, .u.i = INT64_MAX},
                                    {.type = SDB_TEXT, .n = 0, .u.p = ""},
                                    {.type = SDB_TEXT, .n = 2, .u.p = "a\0"},
                                    {.type = SDB_TEXT, .n = 1, .u.p = "a"},
                                    {.type = SDB_BLOB, .n = 0, .u.p = ""},
                                    {.type = SDB_BLOB, .n = 2, .u.p = "\xff\xff"}};
    int n;
    switch (column) {
    case 1:
        return (sdb_value){.type = SDB_INTEGER, .u.i = (int64_t)rnd(300)};
    case 2:
        n = sprintf(text, "%s-%02d%s", rnd(2) ? "a text that begins alike" : "A Text that begins alike",
                    (int)rnd(40), rnd(3) ? "" : "  ");
        return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)n, .u.p = text};
    default:
        return ODD[rnd(sizeof ODD / sizeof *ODD)];
    }
}

static void fixture_open(fixture *f, int n_rows)
{
    sdb_table_def def = {
        .name = "t", .n_columns = 4, .rowid_column = 0, .n_indexes = N_INDEXES, .indexes = DEFS};
    char text[64];
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f->txn, &def, &f->table), SDB_OK);
    for (int i = 0; i < n_rows; i++) {
        sdb_value v[4] = {{.type = SDB_NULL}};
        for (int c = 1; c < 4; c++)
            v[c] = random_value(c, text);
        assert_int_equal(sdb_put(f->txn, f->table, (int64_t)rnd(1000000), v), SDB_OK);
    }
    assert_int_equal(sdb_cursor_new(f->db, &f->rows), SDB_OK);
    assert_int_equal(sdb_cursor_new(f->db, &f->there), SDB_OK);
    assert_int_equal(sdb_cursor_new(f->db, &f->here), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(f->rows, f->txn, f->table, SDB_BY_ROWID), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_cursor_free(f->rows);
    sdb_cursor_free(f->there);
    sdb_cursor_free(f->here);
    sdb_txn_abort(f->txn);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* Returns how many rows the range has. */
static uint64_t compare(fixture *f, const sdb_range *range)
{
    uint64_t n_there, n_here, n = 0;
    assert_int_equal(sdb_cursor_count(f->there, range, &n_there), SDB_OK);
    assert_int_equal(sdb_cursor_count(f->here, range, &n_here), SDB_OK);
    assert_int_equal(n_here, n_there);
    int rc = sdb_cursor_seek(f->there, range);
    assert_int_equal(sdb_cursor_seek(f->here, range), rc);
    for (; rc == SDB_OK; n++) {
        assert_ptr_equal(sdb_cursor_row(f->here), sdb_cursor_row(f->there));
        rc = sdb_cursor_next(f->there);
        assert_int_equal(sdb_cursor_next(f->here), rc);
    }
    assert_null(sdb_cursor_row(f->here));
    assert_int_equal(n, n_there);
    return n;
}

static void test_ranges(void **state)
{
    (void)state;
    uint64_t n = 0;
    rng = 3;
    for (int n_rows = 0; n_rows < 3000; n_rows = n_rows * 3 + 1) {
        fixture f;
        fixture_open(&f, n_rows);
        for (int i = 0; i < N_INDEXES; i++) {
            const sdb_index_def *def = &DEFS[i];
            sdb_sorted *sorted;
            assert_int_equal(sdb_sorted_new(f.rows, def, NULL, &sorted), SDB_OK);
            assert_int_equal(sdb_cursor_open_txn(f.there, f.txn, f.table, i + 1), SDB_OK);
            assert_int_equal(sdb_cursor_open_txn(f.here, f.txn, f.table, SDB_BY_ROWID), SDB_OK);
            assert_int_equal(sdb_cursor_read(f.here, sorted), SDB_OK);
            n += compare(&f, &(sdb_range){0});
            for (int round = 0; round < 400; round++) {
                char text[5][64];
                sdb_value v[5];
                for (int k = 0; k < 5; k++) {
                    int part = k < def->n_parts ? k : (int)rnd(def->n_parts);
                    v[k] = random_value(rnd(8) ? def->parts[part].column : 3, text[k]);
                }
                sdb_range r = {.eq = v, .n_eq = (uint16_t)rnd(def->n_parts + 1u), .reverse = rnd(2),
                               .lower_open = rnd(2), .upper_open = rnd(2)};
                if (r.n_eq < def->n_parts) {
                    r.lower = rnd(2) ? &v[3] : NULL;
                    r.upper = rnd(2) ? &v[4] : NULL;
                }
                n += compare(&f, &r);
            }
            sdb_cursor_close(f.here);
            sdb_cursor_close(f.there);
            sdb_sorted_free(sorted);
        }
        fixture_close(&f);
    }
    assert_true(n > 100000);
}

/* The rows are those of the cursor's version, whatever becomes of the table. */
static void test_version(void **state)
{
    (void)state;
    fixture f;
    sdb_sorted *sorted;
    fixture_open(&f, 500);
    assert_int_equal(sdb_sorted_new(f.rows, &DEFS[0], NULL, &sorted), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(f.there, f.txn, f.table, 1), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(f.here, f.txn, f.table, SDB_BY_ROWID), SDB_OK);
    assert_int_equal(sdb_cursor_read(f.here, sorted), SDB_OK);
    assert_int_equal(sdb_delete_all(f.txn, f.table), SDB_OK);
    assert_true(compare(&f, &(sdb_range){0}) > 400);
    sdb_cursor_close(f.here);
    assert_int_equal(sdb_cursor_open_txn(f.here, f.txn, f.table, SDB_BY_ROWID), SDB_OK);
    assert_int_equal(sdb_cursor_seek(f.here, &(sdb_range){0}), SDB_DONE); /* no longer the sorted ones */
    sdb_sorted_free(sorted);
    fixture_close(&f);
}

/* A duplicate key in what is said to be unique, and no room for anything. */
static void test_failures(void **state)
{
    (void)state;
    sdb_index_def unique = DEFS[0], column = DEFS[0], prefix = DEFS[0];
    static const sdb_part NO_SUCH = {.column = 4};
    fixture f;
    sdb_sorted *sorted;
    uint64_t n;
    fixture_open(&f, 2000);
    unique.unique = true;
    assert_int_equal(sdb_sorted_new(f.rows, &unique, NULL, &sorted), SDB_OK);
    assert_int_equal(sdb_cursor_read(f.rows, sorted), SDB_OK);
    sdb_value one = {.type = SDB_INTEGER, .u.i = 1};
    assert_int_equal(sdb_cursor_count(f.rows, &(sdb_range){.eq = &one, .n_eq = 1}, &n), SDB_OK);
    assert_true(n > 1);
    sdb_cursor_close(f.rows);
    assert_int_equal(sdb_cursor_read(f.rows, sorted), SDB_MISUSE);
    sdb_sorted_free(sorted);
    assert_int_equal(sdb_sorted_new(f.rows, &unique, NULL, &sorted), SDB_MISUSE);
    assert_int_equal(sdb_cursor_open_txn(f.rows, f.txn, f.table, 2), SDB_OK);
    column.parts = &NO_SUCH;
    prefix.kind = SDB_LPM;
    assert_int_equal(sdb_sorted_new(f.rows, &column, NULL, &sorted), SDB_MISUSE);
    assert_int_equal(sdb_sorted_new(f.rows, &prefix, NULL, &sorted), SDB_MISUSE);
    int64_t blocks = sdb_mem_blocks();
    for (int64_t i = 1;; i++) {
        sdb_mem_inject(i, false);
        int rc = sdb_sorted_new(f.rows, &DEFS[2], NULL, &sorted);
        if (sdb_mem_inject(0, false) == 0) {
            assert_int_equal(rc, SDB_OK);
            assert_true(i > 8);
            break;
        }
        assert_int_equal(rc, SDB_NOMEM);
        assert_int_equal(sdb_mem_blocks(), blocks);
    }
    sdb_sorted_free(sorted);
    fixture_close(&f);
}

static bool is_due(void *ctx)
{
    return --*(int *)ctx == 0;
}

static void test_stop(void **state)
{
    (void)state;
    fixture f;
    sdb_sorted *sorted = NULL;
    fixture_open(&f, 10000);
    int64_t blocks = sdb_mem_blocks();
    int left = 1000;
    assert_int_equal(sdb_sorted_new(f.rows, &DEFS[0], &(sdb_stop){is_due, &left}, &sorted), SDB_OK);
    sdb_sorted_free(sorted);
    int n = 1000 - left;
    assert_true(n >= 4);
    for (int i = 1; i <= n; i++) {
        left = i;
        assert_int_equal(sdb_sorted_new(f.rows, &DEFS[0], &(sdb_stop){is_due, &left}, &sorted),
                         SDB_INTERRUPTED);
        assert_int_equal(sdb_mem_blocks(), blocks);
    }
    fixture_close(&f);
}

/* The same of what a transaction does to all rows: nothing is left of it. */
static void test_stop_of_changes(void **state)
{
    (void)state;
    static const sdb_part PART = {.column = 3};
    sdb_index_def def = {.name = "more", .n_parts = 1, .parts = &PART};
    fixture f;
    fixture_open(&f, 10000);
    uint64_t n_rows = sdb_txn_count(f.txn, f.table);
    for (int left = 1; left <= 2; left++) {
        int n = left;
        sdb_txn_set_stop(f.txn, 0, (sdb_stop){is_due, &n});
        assert_int_equal(sdb_txn_create_index(f.txn, f.table, &def), SDB_INTERRUPTED);
        assert_int_equal(sdb_txn_indexes(f.txn, f.table), N_INDEXES);
        n = left;
        assert_int_equal(sdb_delete_all(f.txn, f.table), SDB_INTERRUPTED);
        assert_int_equal(sdb_txn_count(f.txn, f.table), n_rows);
        assert_null(sdb_txn_check(f.txn));
    }
    sdb_txn_set_stop(f.txn, 0, (sdb_stop){0});
    assert_int_equal(sdb_txn_create_index(f.txn, f.table, &def), SDB_OK);
    assert_int_equal(sdb_delete_all(f.txn, f.table), SDB_OK);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_stop_of_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
