/* t_sequence.c - a table's sequence: seen, published and undone as its rows are. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static sdb_db *db;
static sdb_table *table;

static sdb_txn *begin(void)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    return txn;
}

static void set(sdb_txn *txn, int64_t value)
{
    assert_int_equal(sdb_txn_set_sequence(txn, table, value), SDB_OK);
    assert_int_equal(sdb_txn_sequence(txn, table), value);
}

static void check_published(int64_t value)
{
    sdb_txn *txn = begin();
    assert_int_equal(sdb_txn_sequence(txn, table), value);
    sdb_txn_abort(txn);
}

static void test_sequence(void **state)
{
    (void)state;
    sdb_table_def def = {.name = "t", .n_columns = 1, .rowid_column = 0};
    sdb_value row = {.type = SDB_NULL};
    sdb_cursor *cursor;
    int one, two;

    assert_int_equal(sdb_open(&db), SDB_OK);
    sdb_txn *txn = begin();
    assert_int_equal(sdb_txn_create_table(txn, &def, &table), SDB_OK);
    assert_int_equal(sdb_txn_sequence(txn, table), 0);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    txn = begin(); /* a row changes it as little as a deletion */
    assert_int_equal(sdb_put(txn, table, 100, &row), SDB_OK);
    set(txn, 7);
    assert_int_equal(sdb_delete(txn, table, sdb_txn_get(txn, table, 100)), SDB_OK);
    assert_int_equal(sdb_txn_sequence(txn, table), 7);
    check_published(0);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    check_published(7);

    txn = begin();
    set(txn, 8);
    assert_int_equal(sdb_txn_savepoint(txn, &one), SDB_OK);
    set(txn, 9);
    assert_int_equal(sdb_cursor_new(db, &cursor), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cursor, txn, table, SDB_BY_ROWID), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(txn, &two), SDB_OK);
    set(txn, INT64_MAX);
    sdb_txn_rollback_to(txn, two);
    assert_int_equal(sdb_txn_sequence(txn, table), 9);
    sdb_txn_rollback_to(txn, one);
    assert_int_equal(sdb_txn_sequence(txn, table), 8);
    sdb_cursor_free(cursor);
    set(txn, -3);
    sdb_txn_abort(txn);
    check_published(7);

    txn = begin(); /* nothing but the sequence */
    assert_int_equal(sdb_txn_savepoint(txn, &one), SDB_OK);
    set(txn, 10);
    sdb_txn_rollback_to(txn, one); /* to where the table was not written yet */
    assert_int_equal(sdb_txn_sequence(txn, table), 7);
    set(txn, 11);
    assert_int_equal(sdb_txn_rename_table(txn, table, "u"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    check_published(11);

    txn = begin(); /* another has the lock; the table is gone */
    set(txn, 12);
    sdb_txn *late = begin();
    assert_int_equal(sdb_txn_set_sequence(late, table, 13), SDB_BUSY);
    sdb_txn_abort(late);
    sdb_table_ref(table);
    assert_int_equal(sdb_txn_drop_table(txn, table), SDB_OK);
    assert_int_equal(sdb_txn_sequence(txn, table), 0);
    assert_int_equal(sdb_txn_set_sequence(txn, table, 1), SDB_MISUSE);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    check_published(0);
    sdb_table_unref(table);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sequence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
