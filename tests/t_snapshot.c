/* t_snapshot.c - named snapshots, and what differs between two. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3000, NONE = -1 };

typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *a, *b;
} fixture;

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static sdb_txn *begin(const fixture *f)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    return txn;
}

static void fixture_open(fixture *f)
{
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    sdb_txn *txn = begin(f);
    assert_int_equal(sdb_txn_create_table(txn, &def, &f->t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->a), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->b), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_snapshot_free(f->a);
    sdb_snapshot_free(f->b);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void count_one(void *ctx, const sdb_snapshot_info *info)
{
    uint64_t *bytes = ctx;
    assert_string_equal(info->name, "before");
    assert_true(info->age_ms >= 0);
    *bytes = info->bytes;
}

static void test_names(void **state)
{
    (void)state;
    fixture f;
    uint64_t bytes = 0;
    sdb_memory used;
    fixture_open(&f);
    sdb_txn *txn = begin(&f);
    for (int i = 0; i < 100; i++)
        put(txn, f.t, i, i);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_save(f.db, "before", NULL), SDB_OK);
    assert_int_equal(sdb_snapshot_save(f.db, "before", NULL), SDB_EXISTS);
    assert_int_equal(sdb_snapshot_save(f.db, "x", f.a), SDB_MISUSE);
    assert_int_equal(sdb_snapshot_load(f.a, "after"), SDB_DONE);
    assert_false(sdb_snapshot_held(f.a));
    assert_int_equal(sdb_snapshot_each(f.db, count_one, &bytes), SDB_OK);
    assert_int_equal(bytes, 0); /* nothing has changed since */
    txn = begin(&f);
    for (int i = 0; i < 100; i++)
        put(txn, f.t, i, -i);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_each(f.db, count_one, &bytes), SDB_OK);
    sdb_memory_used(f.db, &used);
    assert_true(bytes > 0);
    assert_int_equal(bytes, used.retired);
    assert_int_equal(sdb_snapshot_load(f.a, "before"), SDB_OK);
    assert_int_equal(sdb_snapshot_revision(f.a, f.t), 100);
    assert_int_equal(sdb_snapshot_forget(f.db, "before"), SDB_OK);
    assert_int_equal(sdb_snapshot_forget(f.db, "before"), SDB_DONE);
    assert_int_equal(sdb_snapshot_revision(f.a, f.t), 100); /* this one still holds it */
    assert_int_equal(sdb_snapshot_save(f.db, "again", f.a), SDB_OK);
    sdb_snapshot_drop(f.a);
    assert_int_equal(sdb_snapshot_load(f.b, "again"), SDB_OK);
    assert_int_equal(sdb_snapshot_revision(f.b, f.t), 100);
    sdb_snapshot_drop(f.b);
    assert_int_equal(sdb_snapshot_forget(f.db, "again"), SDB_OK);
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.retired, 0);
    assert_int_equal(sdb_snapshot_save(f.db, "left", NULL), SDB_OK); /* goes with the store */
    fixture_close(&f);
}

/* The number of a moment: a cursor on a dropped snapshot is as good as new while another holds it. */
static void test_commit(void **state)
{
    (void)state;
    fixture f;
    sdb_cursor *cur;
    fixture_open(&f);
    assert_int_equal(sdb_snapshot_commit(f.a), 0);
    sdb_snapshot_take(f.a);
    uint64_t empty = sdb_snapshot_commit(f.a);
    assert_true(empty > 0);
    sdb_txn *txn = begin(&f);
    put(txn, f.t, 1, 10);
    sdb_snapshot_take(f.b);
    assert_int_equal(sdb_snapshot_commit(f.b), empty); /* not committed yet */
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_commit(f.b), empty);
    sdb_snapshot_take(f.b);
    uint64_t one = sdb_snapshot_commit(f.b);
    assert_true(one > empty);
    assert_int_equal(sdb_snapshot_commit(f.a), empty);
    sdb_txn_abort(begin(&f));

    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_open(cur, f.b, f.t, SDB_BY_ROWID), SDB_OK);
    sdb_snapshot_drop(f.b);
    assert_int_equal(sdb_snapshot_commit(f.b), 0);
    sdb_snapshot_take(f.a);
    assert_int_equal(sdb_snapshot_commit(f.a), one);
    sdb_value id = {.type = SDB_INTEGER, .u.i = 1};
    sdb_range range = {.eq = &id, .n_eq = 1};
    assert_int_equal(sdb_cursor_seek(cur, &range), SDB_OK);
    assert_int_equal(sdb_row_value(f.t, sdb_cursor_row(cur), 1).u.i, 10);
    sdb_cursor_free(cur);
    fixture_close(&f);
}

static void assert_diff(const fixture *f, const int64_t *old, const int64_t *now)
{
    sdb_diff *d;
    int64_t last = -1;
    int seen = 0, want = 0;
    assert_int_equal(sdb_diff_new(f->db, &d), SDB_OK);
    assert_int_equal(sdb_diff_open(d, f->a, f->b, f->t), SDB_OK);
    while (sdb_diff_next(d) == SDB_OK) {
        const sdb_row *before = sdb_diff_before(d), *after = sdb_diff_after(d);
        int64_t id = sdb_row_rowid(before ? before : after);
        assert_true(id > last);
        last = id;
        assert_int_equal(before ? sdb_row_value(f->t, before, 1).u.i : NONE, old[id]);
        assert_int_equal(after ? sdb_row_value(f->t, after, 1).u.i : NONE, now[id]);
        seen += old[id] != now[id]; /* written again with the same content is a difference too */
    }
    for (int i = 0; i < ROWS; i++)
        want += old[i] != now[i];
    assert_int_equal(seen, want);
    sdb_diff_free(d);
}

static void test_diff(void **state)
{
    (void)state;
    static int64_t old[ROWS], now[ROWS];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        fixture f;
        rng = seed * 0x9e3779b97f4a7c15u;
        fixture_open(&f);
        for (int i = 0; i < ROWS; i++)
            now[i] = NONE;
        for (int round = 0; round < 12; round++) {
            sdb_txn *txn = begin(&f);
            for (int n = (int)rnd(round % 2 ? 5 : 2000); n > 0; n--) {
                int64_t id = (int64_t)rnd(ROWS);
                if (rnd(3)) {
                    now[id] = (int64_t)rnd(10);
                    put(txn, f.t, id, now[id]);
                } else if (now[id] != NONE) {
                    now[id] = NONE;
                    assert_int_equal(sdb_delete(txn, f.t, sdb_txn_get(txn, f.t, id)), SDB_OK);
                }
            }
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
            sdb_snapshot_drop(f.b);
            sdb_snapshot_take(f.b);
            if (sdb_snapshot_held(f.a))
                assert_diff(&f, old, now);
            if (rnd(2) || !sdb_snapshot_held(f.a)) {
                sdb_snapshot_drop(f.a);
                sdb_snapshot_take(f.a);
                memcpy(old, now, sizeof old);
            }
        }
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_diff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
