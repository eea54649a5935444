/* t_rollback.c - rolling back while cursors are open on what is left: what they see stays, what is alive
** again is not freed. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static sdb_table *create(sdb_txn *txn, const char *name)
{
    sdb_table *t;
    sdb_table_def def = {.name = name, .n_columns = 2, .rowid_column = 0};
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    return t;
}

static void assert_sound(char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

/* A write to another table, while the cursor is open, makes a note of how much this one has retired so far.
** The rollback takes that back; the note has to go with it, or the row that is alive again is freed when
** the cursor is closed. */
static void test_sweep_from(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_cursor *cur;
    int savepoint;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    for (int commits = 0; commits < 2; commits++) {
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        sdb_table *t = create(txn, commits ? "t" : "u"), *other = create(txn, commits ? "v" : "w");
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);

        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        put(txn, t, 1, 10);
        put(txn, other, 1, 10);
        assert_int_equal(sdb_txn_savepoint(txn, &savepoint), SDB_OK);
        put(txn, t, 1, 11);
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 0), SDB_OK);
        put(txn, other, 1, 11);
        assert_int_equal(sdb_txn_rollback_to(txn, savepoint), SDB_OK);
        assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){0}), SDB_OK);
        assert_int_equal(sdb_row_value(t, sdb_cursor_row(cur), 1).u.i, 11);
        sdb_cursor_close(cur);
        assert_sound(sdb_txn_check(txn));
        for (int i = 2; i < 50; i++) /* what was freed would be used again */
            put(txn, t, i, i);
        assert_int_equal(sdb_row_value(t, sdb_txn_get(txn, t, 1), 1).u.i, 10);
        if (commits)
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        else
            sdb_txn_abort(txn);
        assert_sound(sdb_check(db));
    }
    sdb_cursor_free(cur);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* What a transaction has left behind under its cursor hangs on nodes of the table. Another transaction's cursor
** on another table, opened meanwhile and open longer, sees neither: they must go in the right order all the same. */
static void test_left_beside_others(void **state)
{
    (void)state;
    enum { ROWS = 400 };
    sdb_db *db;
    sdb_txn *txn, *other;
    sdb_cursor *cur, *on_a, *on_b;
    int savepoint;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &on_a), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &on_b), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    sdb_table *a = create(txn, "a"), *b = create(txn, "b");
    for (int i = 1; i <= ROWS; i++) {
        put(txn, a, i, i);
        put(txn, b, i, i);
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    assert_int_equal(sdb_txn_begin(db, &other), SDB_OK);
    put(other, a, 1, 2);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    put(txn, b, 300, 1);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, b, 0), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(other, &savepoint), SDB_OK); /* what it writes now has a later number, */
    put(other, a, 2, 3);
    put(txn, b, 1, 2); /* and this a later one still */
    sdb_txn_abort(txn);

    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    put(txn, b, 22, 1); /* the nodes above it die */
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(on_a, other, a, 0), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(on_b, other, b, 0), SDB_OK);
    put(other, a, 3, 4);
    assert_int_equal(sdb_txn_commit(other), SDB_OK);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){0}), SDB_OK);
    assert_int_equal(sdb_row_value(b, sdb_cursor_row(cur), 1).u.i, 1);
    sdb_cursor_free(cur);
    sdb_cursor_free(on_b);
    assert_sound(sdb_check(db));
    sdb_cursor_free(on_a);
    assert_sound(sdb_check(db));
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* What a table's cursor sees of what was rolled back goes with that cursor, though one of another table, with a
** number in between, stays: the abort frees what it hangs on. */
static void test_left_within(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_cursor *on_a, *on_b;
    int savepoint;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &on_a), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &on_b), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    sdb_table *a = create(txn, "a"), *b = create(txn, "b");
    put(txn, a, 1, 1);
    put(txn, b, 1, 1);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    for (int i = 2; i < 300; i++)
        put(txn, b, i, i);
    assert_int_equal(sdb_txn_savepoint(txn, &savepoint), SDB_OK);
    put(txn, a, 2, 2);
    assert_int_equal(sdb_cursor_open_txn(on_a, txn, a, 0), SDB_OK);
    put(txn, b, 2, 3);
    assert_int_equal(sdb_cursor_open_txn(on_b, txn, b, 0), SDB_OK);
    put(txn, b, 3, 4);
    assert_int_equal(sdb_txn_rollback_to(txn, savepoint), SDB_OK);
    sdb_cursor_close(on_b);
    sdb_cursor_close(on_a);
    sdb_txn_abort(txn);
    assert_sound(sdb_check(db));
    sdb_cursor_free(on_a);
    sdb_cursor_free(on_b);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep_from),
                                       cmocka_unit_test(test_left_beside_others),
                                       cmocka_unit_test(test_left_within)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
