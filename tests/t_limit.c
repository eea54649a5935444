/* t_limit.c - a store that may not grow: every kind of change is refused when its memory would pass the
** limit, and leaves everything as it was; what frees memory, or undoes, goes on working. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 5000 };

typedef struct fixture {
    sdb_db *db;
    sdb_txn *txn; /* open */
    sdb_table *t;
} fixture;

static void assert_sound(char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

static int put(fixture *f, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    return sdb_put(f->txn, f->t, id, v);
}

static void begin(fixture *f)
{
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
}

/* A committed table of ROWS rows, a transaction that has changed nothing yet, and no byte more. */
static fixture setup(void)
{
    fixture f;
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0};
    assert_int_equal(sdb_open(&f.db), SDB_OK);
    begin(&f);
    assert_int_equal(sdb_txn_create_table(f.txn, &def, &f.t), SDB_OK);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(put(&f, i, i), SDB_OK);
    assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    begin(&f);
    sdb_set_limit(f.db, 1);
    return f;
}

/* Change rows until there is no memory for one more. Returns how many were. */
static int fill(fixture *f)
{
    int n = 0;
    int rc;
    while ((rc = put(f, n, -1)) == SDB_OK)
        assert_true(++n < ROWS);
    assert_int_equal(rc, SDB_FULL);
    return n;
}

/* The first n rows are changed, the others not. */
static void assert_rows(fixture *f, int n)
{
    assert_int_equal(sdb_txn_count(f->txn, f->t), ROWS);
    for (int i = 0; i < ROWS; i++) {
        const sdb_row *row = sdb_txn_get(f->txn, f->t, i);
        assert_int_equal(sdb_row_value(f->t, row, 1).u.i, i < n ? -1 : i);
    }
    assert_sound(sdb_txn_check(f->txn));
}

static void teardown(fixture *f)
{
    sdb_txn_abort(f->txn);
    assert_sound(sdb_check(f->db));
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_abort(void **state)
{
    (void)state;
    fixture f = setup();
    assert_rows(&f, fill(&f));
    sdb_txn_abort(f.txn);
    begin(&f);
    assert_rows(&f, 0);
    teardown(&f);
}

static void test_commit(void **state)
{
    (void)state;
    fixture f = setup();
    int n = fill(&f);
    assert_int_equal(sdb_txn_prepare(f.txn), SDB_OK);
    assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    begin(&f);
    assert_rows(&f, n);
    teardown(&f);
}

/* A rollback cannot fail, with and without an open cursor that goes on seeing what it leaves. */
static void test_rollback(void **state)
{
    (void)state;
    for (int has_cursor = 0; has_cursor < 2; has_cursor++) {
        fixture f = setup();
        sdb_cursor *cur;
        int savepoint, n;
        int rc;
        assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
        assert_int_equal(sdb_txn_savepoint(f.txn, &savepoint), SDB_OK);
        n = fill(&f);
        if (has_cursor)
            assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, SDB_BY_ROWID), SDB_OK);
        assert_int_equal(sdb_txn_rollback_to(f.txn, savepoint), SDB_OK);
        assert_rows(&f, 0);
        if (has_cursor) {
            int64_t i = 0;
            for (rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur), i++)
                assert_int_equal(sdb_row_value(f.t, sdb_cursor_row(cur), 1).u.i, i < n ? -1 : i);
            assert_int_equal(i, ROWS);
        }
        sdb_cursor_free(cur);
        teardown(&f);
    }
}

static void test_index(void **state)
{
    (void)state;
    fixture f = setup();
    sdb_part part = {.column = 1};
    sdb_index_def def = {.name = "by_k", .n_parts = 1, .parts = &part};
    assert_int_equal(sdb_txn_create_index(f.txn, f.t, &def), SDB_FULL);
    assert_int_equal(sdb_txn_indexes(f.txn, f.t), 0);
    assert_rows(&f, 0);
    sdb_set_limit(f.db, 0);
    assert_int_equal(sdb_txn_create_index(f.txn, f.t, &def), SDB_OK);
    assert_rows(&f, 0);
    sdb_set_limit(f.db, 1);
    assert_int_equal(sdb_txn_drop_index(f.txn, f.t, 1), SDB_OK);
    assert_rows(&f, 0);
    teardown(&f);
}

static void test_feed(void **state)
{
    (void)state;
    fixture f = setup();
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "f"), SDB_FULL);
    assert_rows(&f, 0);
    sdb_set_limit(f.db, 0);
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "f"), SDB_OK);
    sdb_set_limit(f.db, 1);
    assert_rows(&f, fill(&f));
    assert_int_equal(sdb_txn_drop_feed(f.txn, f.t, "f"), SDB_OK);
    sdb_txn_abort(f.txn);
    begin(&f);
    assert_rows(&f, 0);
    teardown(&f);
}

/* All rows or none: a page that becomes free serves the next row, so it may end either way. */
static void test_delete_all(void **state)
{
    (void)state;
    fixture f = setup();
    fill(&f);
    sdb_txn_abort(f.txn);
    begin(&f);
    int rc = sdb_delete_all(f.txn, f.t);
    assert_true(rc == SDB_OK || rc == SDB_FULL);
    if (rc == SDB_FULL)
        assert_rows(&f, 0);
    else
        assert_int_equal(sdb_txn_count(f.txn, f.t), 0);
    assert_sound(sdb_txn_check(f.txn));
    sdb_set_limit(f.db, 0);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK);
    assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    begin(&f);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort), cmocka_unit_test(test_commit), cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_index), cmocka_unit_test(test_feed),   cmocka_unit_test(test_delete_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
