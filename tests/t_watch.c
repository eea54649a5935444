/* t_watch.c - watches fire for what they watch, once, after the commit, and for nothing else. */
#define _GNU_SOURCE
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* t(id = rowid, k), by_k not unique */
typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_watch *w;
} fixture;

static const sdb_part BY_K = {1, SDB_BINARY, false};
static const sdb_index_def INDEX = {.name = "by_k", .unique = false, .n_parts = 1, .parts = &BY_K};

static sdb_value integer(int64_t i)
{
    return (sdb_value){.type = SDB_INTEGER, .u.i = i};
}

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, integer(k)};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static void fixture_open(fixture *f)
{
    sdb_txn *txn;
    sdb_table_def def = {
        .name = "t", .n_columns = 2, .rowid_column = 0, .n_indexes = 1, .indexes = &INDEX};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &f->t), SDB_OK);
    for (int i = 0; i < 10; i++)
        put(txn, f->t, i, i * 10);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    assert_int_equal(sdb_watch_new(f->db, &f->w), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_watch_free(f->w);
    sdb_snapshot_free(f->snap);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void arm_for(fixture *f, sdb_watch *w, int index, const sdb_range *range)
{
    sdb_snapshot_take(f->snap);
    assert_int_equal(sdb_watch_arm(w, f->snap, f->t, index, range), SDB_OK);
    sdb_snapshot_drop(f->snap);
    assert_false(sdb_watch_fired(w));
}

static void commit_put(fixture *f, int64_t id, int64_t k)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    put(txn, f->t, id, k);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void test_one_key(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *txn;
    fixture_open(&f);
    sdb_value four = integer(4), forty = integer(40);
    sdb_range id4 = {.eq = &four, .n_eq = 1}, k40 = {.eq = &forty, .n_eq = 1};

    arm_for(&f, f.w, 0, &id4);
    commit_put(&f, 3, 1); /* a neighbour */
    commit_put(&f, 99, 1);
    assert_false(sdb_watch_fired(f.w));
    assert_int_equal(sdb_watch_wait(f.w, 0), SDB_DONE);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    put(txn, f.t, 4, 41);
    assert_false(sdb_watch_fired(f.w)); /* not before the commit */
    sdb_txn_abort(txn);
    assert_false(sdb_watch_fired(f.w)); /* and never for an abort */
    commit_put(&f, 4, 40);              /* an equal value is a change */
    assert_true(sdb_watch_fired(f.w));
    assert_int_equal(sdb_watch_wait(f.w, -1), SDB_OK);

    arm_for(&f, f.w, 1, &k40); /* a key of another index: the row leaves it, another enters it */
    commit_put(&f, 4, 44);
    assert_true(sdb_watch_fired(f.w));
    arm_for(&f, f.w, 1, &k40);
    commit_put(&f, 5, 55);
    assert_false(sdb_watch_fired(f.w));
    commit_put(&f, 5, 40);
    assert_true(sdb_watch_fired(f.w));
    arm_for(&f, f.w, 1, &k40);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    assert_int_equal(sdb_delete(txn, f.t, sdb_txn_get(txn, f.t, 5)), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_true(sdb_watch_fired(f.w));

    sdb_value absent = integer(1000); /* a key that is not there yet */
    sdb_range none = {.eq = &absent, .n_eq = 1};
    arm_for(&f, f.w, 0, &none);
    commit_put(&f, 999, 1);
    commit_put(&f, 1001, 1);
    assert_false(sdb_watch_fired(f.w));
    commit_put(&f, 1000, 1);
    assert_true(sdb_watch_fired(f.w));
    fixture_close(&f);
}

/* What happened between the snapshot and the arming, or was under way then, is not missed. */
static void test_nothing_is_missed(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *txn;
    fixture_open(&f);
    sdb_value four = integer(4);
    sdb_range id4 = {.eq = &four, .n_eq = 1};
    sdb_snapshot_take(f.snap);
    commit_put(&f, 4, 0);
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 0, &id4), SDB_OK);
    assert_true(sdb_watch_fired(f.w));
    sdb_snapshot_drop(f.snap);

    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
        put(txn, f.t, 4, 7);
        arm_for(&f, f.w, 0, &id4);
        if (commit)
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        else
            sdb_txn_abort(txn);
        assert_int_equal(sdb_watch_fired(f.w), commit);
    }
    /* after the abort the watch was still armed: it had to fire for the second */

    arm_for(&f, f.w, 1, &(sdb_range){0}); /* the index is dropped, the table is dropped */
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, f.t, 1), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_true(sdb_watch_fired(f.w));
    arm_for(&f, f.w, 0, &id4);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(txn, f.t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_true(sdb_watch_fired(f.w));
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 0, &id4), SDB_MISUSE);
    sdb_snapshot_drop(f.snap);
    fixture_close(&f);
}

/* Many watches of random ranges: exactly those fire whose range holds a key that a committed change
** had before or has after. */
static void test_random(void **state)
{
    (void)state;
    enum { WATCHES = 60, KEYS = 100 };
    fixture f;
    sdb_txn *txn;
    fixture_open(&f);
    sdb_watch *watch[WATCHES];
    int lo[WATCHES], hi[WATCHES], index[WATCHES];
    bool want[WATCHES];
    rng = 5;
    for (int i = 0; i < WATCHES; i++)
        assert_int_equal(sdb_watch_new(f.db, &watch[i]), SDB_OK);
    for (int i = 0; i < WATCHES; i++)
        lo[i] = -1;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < WATCHES; i++) {
            if (lo[i] != -1 && !sdb_watch_fired(watch[i]) && rnd(50))
                continue;
            index[i] = (int)rnd(2);
            lo[i] = (int)rnd(KEYS);
            hi[i] = rnd(4) ? lo[i] + (int)rnd(rnd(4) ? 3 : KEYS) : KEYS * 2; /* one, few, no end */
            sdb_value a = integer(lo[i]), b = integer(hi[i]);
            sdb_range r = {.lower = &a, .upper = hi[i] < KEYS * 2 ? &b : NULL};
            arm_for(&f, watch[i], index[i], &r);
        }
        memset(want, 0, sizeof want);
        bool commits = rnd(5) > 0;
        assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
        for (int n = (int)rnd(3); n >= 0; n--) {
            int64_t id = (int64_t)rnd(KEYS), k = (int64_t)rnd(KEYS), old_k = -1;
            const sdb_row *old = sdb_txn_get(txn, f.t, id);
            if (old)
                old_k = sdb_row_value(f.t, old, 1).u.i;
            if (old && rnd(3) == 0) {
                assert_int_equal(sdb_delete(txn, f.t, old), SDB_OK);
                k = old_k;
            } else {
                put(txn, f.t, id, k);
            }
            for (int i = 0; i < WATCHES; i++) {
                int64_t key[2] = {index[i] ? k : id, index[i] && old ? old_k : id};
                for (int o = 0; o < (index[i] && !old ? 1 : 2); o++)
                    want[i] |= key[o] >= lo[i] && key[o] <= hi[i];
            }
        }
        if (commits)
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        else
            sdb_txn_abort(txn);
        for (int i = 0; i < WATCHES; i++)
            assert_int_equal(sdb_watch_fired(watch[i]), want[i] && commits);
    }
    for (int i = 0; i < WATCHES; i++)
        sdb_watch_free(watch[i]);
    fixture_close(&f);
}

static void test_fd(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_range all = {0};
    struct pollfd p = {.events = POLLIN};
    p.fd = sdb_watch_fd(f.w);
    assert_true(p.fd >= 0);
    for (int round = 0; round < 3; round++) {
        arm_for(&f, f.w, 0, &all);
        assert_int_equal(poll(&p, 1, 0), 0);
        commit_put(&f, round, 1);
        assert_int_equal(poll(&p, 1, 0), 1);
    }
    fixture_close(&f);
}

/* One descriptor for several watches; it belongs to whoever made it. */
static void test_tell(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_range all = {0};
    char bytes[64];
    int to[2];
    sdb_watch *other;
    assert_int_equal(pipe(to), 0);
    struct pollfd p = {.fd = to[0], .events = POLLIN};
    assert_int_equal(sdb_watch_new(f.db, &other), SDB_OK);
    sdb_watch_tell(f.w, to[1]);
    sdb_watch_tell(other, to[1]);
    arm_for(&f, f.w, 0, &all);
    arm_for(&f, other, 0, &all);
    assert_int_equal(poll(&p, 1, 0), 0);
    commit_put(&f, 1, 1);
    assert_int_equal(read(to[0], bytes, sizeof bytes), 16);
    sdb_watch_tell(f.w, -1);
    sdb_watch_tell(other, to[1]); /* it has fired */
    assert_int_equal(read(to[0], bytes, sizeof bytes), 8);
    arm_for(&f, f.w, 0, &all);
    commit_put(&f, 2, 1);
    assert_int_equal(poll(&p, 1, 0), 0);
    sdb_watch_free(other);
    close(to[0]);
    close(to[1]);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- waiting */

static void *commit_soon(void *arg)
{
    fixture *f = arg;
    usleep(20000);
    commit_put(f, 4, 4);
    return NULL;
}

static void test_wait_in_another_thread(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_range all = {0};
    for (int round = 0; round < 5; round++) {
        pthread_t thread;
        arm_for(&f, f.w, 0, &all);
        assert_int_equal(pthread_create(&thread, NULL, commit_soon, &f), 0);
        assert_int_equal(sdb_watch_wait(f.w, 60000), SDB_OK);
        sdb_snapshot_take(f.snap); /* who is woken sees the change */
        assert_true(sdb_snapshot_revision(f.snap, f.t) >= (uint64_t)round + 11);
        sdb_snapshot_drop(f.snap);
        pthread_join(thread, NULL);
    }
    fixture_close(&f);
}

static void test_sets(void **state)
{
    (void)state;
    enum { N = 6 };
    fixture f;
    fixture_open(&f);
    sdb_watch *w[N], *out[N];
    sdb_watch_set *set, *other;
    int n;
    assert_int_equal(sdb_watch_set_new(f.db, &set), SDB_OK);
    assert_int_equal(sdb_watch_set_new(f.db, &other), SDB_OK);
    assert_int_equal(sdb_watch_set_wait(set, 1, 0, out, N, &n), SDB_DONE); /* empty: its time */
    assert_int_equal(n, 0);
    for (int i = 0; i < N; i++) {
        sdb_value id = integer(i);
        sdb_range one = {.eq = &id, .n_eq = 1};
        assert_int_equal(sdb_watch_new(f.db, &w[i]), SDB_OK);
        arm_for(&f, w[i], 0, &one);
        sdb_watch_set_add(i % 2 ? set : other, w[i]);
    }
    assert_true(sdb_watch_set_has(other, w[0]));
    sdb_watch_set_merge(set, other);
    assert_true(sdb_watch_set_has(set, w[0]) && !sdb_watch_set_has(other, w[0]));
    sdb_watch_set_remove(set, w[5]);
    assert_false(sdb_watch_set_has(set, w[5]));
    for (int i = 0; i < 4; i++)
        commit_put(&f, i, 1);
    commit_put(&f, 5, 1);
    /* without settling: exactly one */
    assert_int_equal(sdb_watch_set_wait(set, -1, 0, out, N, &n), SDB_OK);
    assert_int_equal(n, 1);
    assert_false(sdb_watch_set_has(set, out[0]));
    /* with: all that have, and those that do meanwhile */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, commit_soon, &f), 0);
    assert_int_equal(sdb_watch_set_wait(set, 60000, 200, out, N, &n), SDB_OK);
    pthread_join(thread, NULL);
    assert_int_equal(n, 4);
    assert_int_equal(sdb_watch_set_wait(set, 5, 5, out, N, &n), SDB_DONE);
    sdb_watch_set_add(set, w[5]); /* one that has fired before it was added */
    assert_int_equal(sdb_watch_set_wait(set, -1, 1, out, N, &n), SDB_OK);
    assert_ptr_equal(out[0], w[5]);
    sdb_watch_set_add(set, w[0]);
    sdb_watch_set_clear(set);
    assert_false(sdb_watch_set_has(set, w[0]));
    for (int i = 0; i < N; i++)
        sdb_watch_free(w[i]);
    sdb_watch_set_free(set);
    sdb_watch_set_free(other);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- threads */

enum { COMMITS = 3000 };

static void *commit_many(void *arg)
{
    fixture *f = arg;
    sdb_txn *txn;
    for (int i = 0; i < COMMITS; i++) {
        if (sdb_txn_begin(f->db, &txn) != SDB_OK)
            abort();
        sdb_value v[2] = {{.type = SDB_NULL}, integer(i)};
        if (sdb_put(txn, f->t, 4, v) != SDB_OK || sdb_txn_commit(txn) != SDB_OK)
            abort();
    }
    return NULL;
}

/* Follows one row: whatever the timing, the last value is seen. */
static void test_follow(void **state)
{
    (void)state;
    fixture f;
    pthread_t thread;
    fixture_open(&f);
    sdb_value four = integer(4);
    sdb_range id4 = {.eq = &four, .n_eq = 1};
    sdb_cursor *cur;
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    assert_int_equal(pthread_create(&thread, NULL, commit_many, &f), 0);
    int64_t seen = -1;
    while (seen != COMMITS - 1) {
        sdb_snapshot_take(f.snap);
        assert_int_equal(sdb_cursor_open(cur, f.snap, f.t, 0), SDB_OK);
        assert_int_equal(sdb_cursor_seek(cur, &id4), SDB_OK);
        seen = sdb_row_value(f.t, sdb_cursor_row(cur), 1).u.i;
        sdb_cursor_close(cur);
        assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 0, &id4), SDB_OK);
        sdb_snapshot_drop(f.snap);
        if (seen != COMMITS - 1)
            assert_int_equal(sdb_watch_wait(f.w, 60000), SDB_OK);
    }
    pthread_join(thread, NULL);
    sdb_cursor_free(cur);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_key), cmocka_unit_test(test_nothing_is_missed),
        cmocka_unit_test(test_random),  cmocka_unit_test(test_fd), cmocka_unit_test(test_tell),
        cmocka_unit_test(test_sets),    cmocka_unit_test(test_wait_in_another_thread),
        cmocka_unit_test(test_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
