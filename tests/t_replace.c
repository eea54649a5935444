/* t_replace.c - a row in place of another: what is the same in both, what is in the way, who has found the
** row before, and when the new one is written over it. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* clang-format off */
#define INT(x) {.type = SDB_INTEGER, .u.i = (x)}
#define REAL(x) {.type = SDB_REAL, .u.r = (x)}
#define TEXT(s) {.type = SDB_TEXT, .n = sizeof(s) - 1, .u.p = (s)}
#define BLOB(s) {.type = SDB_BLOB, .n = sizeof(s) - 1, .u.p = (s)}
#define NIL {.type = SDB_NULL}
/* clang-format on */

/* ---------------------------------------------------------------- the table */

/* t(id = rowid, k, v): by_k (k), by_u unique (k), by_kv (k, v NOCASE) */
typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
} fixture;

enum { COLUMNS = 3, BY_K = 1, BY_U, BY_KV };

static const sdb_part PART[2] = {{1, SDB_BINARY, false}, {2, SDB_NOCASE, false}};
static const sdb_index_def INDEXES[3] = {
    {.name = "by_k", .n_parts = 1, .parts = PART},
    {.name = "by_u", .unique = true, .n_parts = 1, .parts = PART},
    {.name = "by_kv", .n_parts = 2, .parts = PART},
};

static void fixture_open(fixture *f)
{
    sdb_table_def def = {.name = "t", .n_columns = COLUMNS, .rowid_column = 0, .n_indexes = 3,
                         .indexes = INDEXES};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f->txn, &def, &f->t), SDB_OK);
}

static void assert_sound(char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

static void commit(fixture *f)
{
    assert_sound(sdb_txn_check(f->txn));
    assert_int_equal(sdb_txn_commit(f->txn), SDB_OK);
    assert_sound(sdb_check(f->db));
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
}

static void fixture_close(fixture *f)
{
    commit(f);
    sdb_txn_abort(f->txn);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static int put(fixture *f, int64_t id, sdb_value k, sdb_value v)
{
    sdb_value values[COLUMNS] = {NIL, k, v};
    return sdb_put(f->txn, f->t, id, values);
}

static void put_int(fixture *f, int64_t id, int64_t k)
{
    assert_int_equal(put(f, id, (sdb_value)INT(k), (sdb_value)NIL), SDB_OK);
}

static int64_t k_of(fixture *f, const sdb_row *row)
{
    return sdb_row_value(f->t, row, 1).u.i;
}

/* ---------------------------------------------------------------- what is the same */

/* Each value in the place of each other: of a pair the keys may be equal, or just the bytes, or neither. */
static void test_keys(void **state)
{
    (void)state;
    static const sdb_value VALUE[] = {
        NIL, INT(0), INT(1), REAL(0.0), REAL(-0.0), REAL(1.0), INT(256), INT(257), TEXT(""), BLOB(""),
        TEXT("a"), TEXT("A"), BLOB("a\0"), BLOB("a"), TEXT("a\0"), INT('a'),
    };
    enum { N = sizeof VALUE / sizeof *VALUE };
    for (int committed = 0; committed < 2; committed++) {
        fixture f;
        fixture_open(&f);
        for (int i = 0; i < N * N; i++) {
            sdb_value a = VALUE[i / N], b = VALUE[i % N];
            assert_int_equal(put(&f, i, a, b), SDB_OK);
            if (committed)
                commit(&f);
            assert_int_equal(put(&f, i, b, a), SDB_OK);
            assert_int_equal(put(&f, i, b, b), SDB_OK);
            assert_sound(sdb_txn_check(f.txn));
            assert_int_equal(sdb_delete(f.txn, f.t, sdb_txn_get(f.txn, f.t, i)), SDB_OK);
        }
        fixture_close(&f);
    }
}

/* Another rowid, and the same columns: not in the way of itself. */
static void test_rowid(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_int(&f, 1, 10);
    put_int(&f, 2, 20);
    const sdb_row *old = sdb_txn_get(f.txn, f.t, 1);
    sdb_value values[COLUMNS] = {NIL, INT(10), NIL};
    assert_int_equal(sdb_stage(f.txn, f.t, 3, values), SDB_OK);
    assert_int_equal(sdb_stage_put(f.txn, old), SDB_OK);
    assert_null(sdb_txn_get(f.txn, f.t, 1));
    old = sdb_txn_get(f.txn, f.t, 3);
    assert_int_equal(k_of(&f, old), 10);
    assert_int_equal(sdb_stage(f.txn, f.t, 2, values), SDB_OK);
    assert_int_equal(sdb_stage_put(f.txn, old), SDB_EXISTS); /* the rowid */
    assert_ptr_equal(sdb_stage_clash(f.txn, SDB_BY_ROWID, old), sdb_txn_get(f.txn, f.t, 2));
    assert_null(sdb_stage_clash(f.txn, BY_U, old));
    fixture_close(&f);
}

/* ---------------------------------------------------------------- what is in the way */

static void test_exists(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_int(&f, 1, 10);
    put_int(&f, 2, 20);
    sdb_value values[COLUMNS] = {NIL, INT(20), NIL};
    const sdb_row *old = sdb_txn_get(f.txn, f.t, 1), *other = sdb_txn_get(f.txn, f.t, 2);
    assert_int_equal(put(&f, 1, values[1], values[2]), SDB_EXISTS);
    assert_int_equal(sdb_stage_put(f.txn, old), SDB_MISUSE); /* sdb_put has left nothing staged */
    assert_int_equal(sdb_stage(f.txn, f.t, 1, values), SDB_OK);
    for (int i = 0; i < 2; i++) { /* as often as it is tried */
        assert_int_equal(sdb_stage_put(f.txn, old), SDB_EXISTS);
        assert_null(sdb_stage_clash(f.txn, SDB_BY_ROWID, old));
        assert_null(sdb_stage_clash(f.txn, BY_K, old));
        assert_ptr_equal(sdb_stage_clash(f.txn, BY_U, old), other);
    }
    assert_int_equal(k_of(&f, sdb_txn_get(f.txn, f.t, 1)), 10);
    assert_int_equal(sdb_delete(f.txn, f.t, other), SDB_OK);
    assert_int_equal(sdb_stage_put(f.txn, old), SDB_OK);
    assert_int_equal(k_of(&f, sdb_txn_get(f.txn, f.t, 1)), 20);
    assert_int_equal(sdb_stage_put(f.txn, NULL), SDB_MISUSE);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- who has found it */

static const sdb_row *seek(fixture *f, sdb_cursor *cur, int64_t id)
{
    sdb_value key = INT(id);
    sdb_range range = {.eq = &key, .n_eq = 1};
    int rc = sdb_cursor_seek(cur, &range);
    assert_true(rc == SDB_OK || rc == SDB_DONE);
    (void)f;
    return sdb_cursor_row(cur);
}

/* A cursor finds rows that are there, and, when there have been changes, some that are not. Here k is the
** rowid, before there are changes. */
static void assert_found(int index)
{
    fixture f;
    fixture_open(&f);
    sdb_cursor *cur;
    int savepoint;
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    for (int i = 1; i <= 9; i++)
        put_int(&f, i, i);
    commit(&f);
    put_int(&f, 9, 90);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, index), SDB_OK);
        const sdb_row *row = seek(&f, cur, 1), *was = seek(&f, cur, 2);
        assert_ptr_equal(sdb_txn_get(f.txn, f.t, 1), row);
        assert_ptr_equal(seek(&f, cur, 1), row);
        if (i == 1) { /* by a change of that row */
            put_int(&f, 1, 10);
        } else if (i == 2) { /* of another */
            put_int(&f, 9, 91);
            put_int(&f, 1, 11);
        } else { /* by its return */
            assert_int_equal(sdb_txn_savepoint(f.txn, &savepoint), SDB_OK);
            put_int(&f, 1, 12);
            assert_int_equal(sdb_txn_rollback_to(f.txn, savepoint), SDB_OK);
            put_int(&f, 1, 13);
        }
        int64_t k = k_of(&f, sdb_txn_get(f.txn, f.t, 1));
        assert_ptr_equal(seek(&f, cur, 1), row); /* what it sees is as it was */
        assert_int_not_equal(k_of(&f, row), k);
        assert_int_equal(k_of(&f, sdb_txn_get(f.txn, f.t, 1)), k);
        assert_int_equal(sdb_delete(f.txn, f.t, seek(&f, cur, 1)), SDB_MISUSE);
        assert_ptr_equal(sdb_txn_get(f.txn, f.t, 2), was);
        assert_null(seek(&f, cur, 10));
        sdb_cursor_close(cur);
        put_int(&f, 1, 1);
        commit(&f);
        put_int(&f, 9, 90);
    }
    /* A cursor of another table's row of that rowid, or on what is not locked, tells nothing. */
    sdb_table *other;
    sdb_table_def def = {.name = "other", .n_columns = COLUMNS, .rowid_column = 0};
    assert_int_equal(sdb_txn_create_table(f.txn, &def, &other), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, SDB_BY_ROWID), SDB_OK);
    assert_non_null(seek(&f, cur, 1));
    assert_null(sdb_txn_get(f.txn, other, 1));
    sdb_cursor_close(cur);
    commit(&f);
    assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, SDB_BY_ROWID), SDB_OK);
    const sdb_row *row = seek(&f, cur, 1);
    assert_ptr_equal(sdb_txn_get(f.txn, f.t, 1), row);
    assert_int_equal(sdb_delete(f.txn, f.t, row), SDB_OK);
    assert_null(sdb_txn_get(f.txn, f.t, 1));
    assert_int_equal(sdb_txn_drop_table(f.txn, f.t), SDB_OK);
    assert_null(sdb_txn_get(f.txn, f.t, 2));
    sdb_cursor_free(cur);
    fixture_close(&f);
}

static void test_found(void **state)
{
    (void)state;
    for (int index = SDB_BY_ROWID; index <= BY_KV; index++)
        assert_found(index);
}

/* What was looked up only to plan may be another row when the table has been locked. */
static void test_found_before_lock(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_txn *txn;
    put_int(&f, 1, 10);
    commit(&f);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    bool begin = sdb_txn_peek_begin(txn);
    assert_int_equal(k_of(&f, sdb_txn_get(txn, f.t, 1)), 10);
    sdb_txn_peek_end(txn, begin);
    put_int(&f, 1, 11);
    commit(&f);
    assert_int_equal(sdb_txn_lock(txn, f.t), SDB_OK);
    assert_int_equal(k_of(&f, sdb_txn_get(txn, f.t, 1)), 11);
    sdb_txn_abort(txn);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- in its place */

/* Give row 1 another v, of the same length if that is true. Whether it stays where it is. */
static bool is_in_place(fixture *f, int64_t k, bool is_long)
{
    static int64_t n;
    sdb_value values[COLUMNS] = {NIL, INT(k), INT(1000 + ++n % 1000)};
    if (is_long)
        values[2] = (sdb_value)TEXT("longer than what was there before");
    const sdb_row *old = sdb_txn_get(f->txn, f->t, 1);
    uint64_t revision = sdb_txn_revision(f->txn, f->t);
    assert_int_equal(sdb_put_over(f->txn, f->t, old, 1, values), SDB_OK);
    assert_int_equal(sdb_txn_revision(f->txn, f->t), revision + 1);
    const sdb_row *row = sdb_txn_get(f->txn, f->t, 1);
    assert_int_equal(sdb_row_revision(row), revision + 1);
    assert_int_equal(k_of(f, row), k);
    if (!is_long)
        assert_int_equal(sdb_row_value(f->t, row, 2).u.i, values[2].u.i);
    assert_sound(sdb_txn_check(f->txn));
    return row == old;
}

static int64_t v_in(fixture *f, const sdb_snapshot *snap)
{
    const int64_t one = 1;
    const sdb_row *row;
    sdb_snapshot_get_many(snap, f->t, &one, 1, &row);
    return sdb_row_value(f->t, row, 2).u.i;
}

/* v, here, is in no index. */
static void place_open(fixture *f)
{
    sdb_table_def def = {.name = "t", .n_columns = COLUMNS, .rowid_column = 0, .n_indexes = 2,
                         .indexes = INDEXES};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f->txn, &def, &f->t), SDB_OK);
    for (int i = 1; i <= 100; i++)
        assert_int_equal(put(f, i, (sdb_value)INT(i), (sdb_value)INT(1000)), SDB_OK);
    commit(f);
}

static void test_in_place(void **state)
{
    (void)state;
    fixture f;
    place_open(&f);
    assert_false(is_in_place(&f, 1, false)); /* what is committed stays */
    assert_true(is_in_place(&f, 1, false));
    assert_false(is_in_place(&f, 1, true));
    assert_true(is_in_place(&f, 1, true));
    assert_false(is_in_place(&f, 1, false));
    assert_false(is_in_place(&f, 1000, false)); /* another key */
    assert_true(is_in_place(&f, 1000, false));
    assert_true(is_in_place(&f, 1000, false));
    sdb_memory before, after;
    sdb_memory_used(f.db, &before);
    for (int i = 0; i < 1000; i++)
        assert_true(is_in_place(&f, 1000, false));
    sdb_memory_used(f.db, &after);
    assert_int_equal(after.live, before.live);
    sdb_value values[COLUMNS] = {NIL, INT(1000), INT(1001)}; /* by a put too; not of another rowid */
    const sdb_row *row = sdb_txn_get(f.txn, f.t, 1);
    assert_int_equal(sdb_put(f.txn, f.t, 1, values), SDB_OK);
    assert_ptr_equal(sdb_txn_get(f.txn, f.t, 1), row);
    assert_int_equal(sdb_put_over(f.txn, f.t, row, 2000, values), SDB_OK);
    assert_null(sdb_txn_get(f.txn, f.t, 1));
    assert_int_equal(sdb_put_over(f.txn, f.t, sdb_txn_get(f.txn, f.t, 2000), 2, values), SDB_EXISTS);
    assert_int_equal(sdb_put_over(f.txn, f.t, NULL, 1, values), SDB_EXISTS);
    assert_ptr_equal(sdb_stage_clash(f.txn, BY_U, NULL), sdb_txn_get(f.txn, f.t, 2000));
    fixture_close(&f);
}

/* Not while somebody sees it; and not where it is followed by its revision, or watched. */
static void test_seen(void **state)
{
    (void)state;
    fixture f;
    place_open(&f);
    sdb_cursor *cur;
    sdb_watch *watch;
    sdb_snapshot *snap;
    int savepoint, deeper;
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    assert_int_equal(sdb_watch_new(f.db, &watch), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f.db, &snap), SDB_OK);
    assert_false(is_in_place(&f, 1, false));
    assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, SDB_BY_ROWID), SDB_OK);
    const sdb_row *row = seek(&f, cur, 1);
    int64_t v = sdb_row_value(f.t, row, 2).u.i;
    assert_false(is_in_place(&f, 1, false));
    assert_true(is_in_place(&f, 1, false)); /* the cursor does not see that one */
    assert_ptr_equal(seek(&f, cur, 1), row);
    assert_int_equal(sdb_row_value(f.t, row, 2).u.i, v);
    sdb_cursor_close(cur);
    assert_true(is_in_place(&f, 1, false));

    assert_int_equal(sdb_txn_savepoint(f.txn, &savepoint), SDB_OK);
    v = sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 1), 2).u.i;
    assert_false(is_in_place(&f, 1, false));
    assert_true(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_savepoint(f.txn, &deeper), SDB_OK);
    assert_false(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_release(f.txn, deeper), SDB_OK);
    assert_true(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_rollback_to(f.txn, savepoint), SDB_OK);
    assert_int_equal(sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 1), 2).u.i, v);
    assert_false(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_release(f.txn, savepoint), SDB_OK);
    assert_true(is_in_place(&f, 1, false));

    /* In a later state than that which made it and the nodes above it. */
    put_int(&f, 2, 2);
    assert_int_equal(sdb_cursor_open_txn(cur, f.txn, f.t, SDB_BY_ROWID), SDB_OK);
    put_int(&f, 3, 3);
    sdb_cursor_close(cur);
    assert_true(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_savepoint(f.txn, &savepoint), SDB_OK);
    v = sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 1), 2).u.i;
    assert_false(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_rollback_to(f.txn, savepoint), SDB_OK);
    assert_int_equal(sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 1), 2).u.i, v);
    assert_int_equal(sdb_txn_release(f.txn, savepoint), SDB_OK);

    commit(&f);
    assert_false(is_in_place(&f, 1, false));
    assert_true(is_in_place(&f, 1, false));
    sdb_snapshot_take(snap);
    assert_int_equal(v_in(&f, snap), v);
    assert_int_equal(sdb_watch_arm(watch, snap, f.t, BY_K, &(sdb_range){0}), SDB_OK);
    assert_false(is_in_place(&f, 1, false));
    commit(&f);
    assert_int_equal(sdb_watch_wait(watch, 0), SDB_OK);
    assert_int_equal(v_in(&f, snap), v);
    sdb_snapshot_drop(snap);

    assert_false(is_in_place(&f, 1, false));
    assert_true(is_in_place(&f, 1, false));
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "feed"), SDB_OK);
    assert_false(is_in_place(&f, 1, false));
    assert_false(is_in_place(&f, 1, false));

    sdb_txn_abort(f.txn);
    assert_int_equal(sdb_txn_begin(f.db, &f.txn), SDB_OK);
    sdb_cursor_free(cur);
    sdb_watch_free(watch);
    sdb_snapshot_free(snap);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),   cmocka_unit_test(test_rowid),
        cmocka_unit_test(test_exists), cmocka_unit_test(test_found),
        cmocka_unit_test(test_found_before_lock),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_seen),
    };
    return cmocka_run_group_tests_name("replace", tests, NULL, NULL);
}
