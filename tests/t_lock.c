/* t_lock.c - write locks between threads: turns, time-outs, deadlocks, interrupts, fresh snapshots. */
#define _GNU_SOURCE
#include "../core/mem.h"
#include "../core/statedb.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* cmocka's asserts belong to the main thread. */
#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

enum { TABLES = 3 };

typedef struct fixture {
    sdb_db *db;
    sdb_table *t[TABLES];
} fixture;

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    CHECK(sdb_put(txn, t, id, v) == SDB_OK);
}

static void fixture_open(fixture *f)
{
    sdb_txn *txn;
    const char *name[TABLES] = {"a", "b", "c"};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    for (int i = 0; i < TABLES; i++) {
        sdb_table_def def = {.name = name[i], .n_columns = 2, .rowid_column = 0};
        assert_int_equal(sdb_txn_create_table(txn, &def, &f->t[i]), SDB_OK);
        put(txn, f->t[i], 1, 0);
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_time_out(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *a, *b;
    fixture_open(&f);
    assert_int_equal(sdb_txn_begin(f.db, &a), SDB_OK);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK);
    assert_int_equal(sdb_txn_lock(a, f.t[0]), SDB_OK);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_BUSY);
    sdb_txn_set_timeout(b, 10);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_BUSY);
    assert_int_equal(sdb_txn_lock(b, f.t[1]), SDB_OK); /* another table is free */
    sdb_txn_interrupt(b);
    sdb_txn_set_timeout(b, -1);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_INTERRUPTED);
    sdb_txn_abort(a);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_OK);
    sdb_txn_abort(b);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- with threads */

typedef struct job {
    fixture *f;
    int first, second, rc;
    atomic_int *ready;
} job;

/* Lock one table, wait for the others to have theirs, lock the next. */
static void *lock_two(void *arg)
{
    job *j = arg;
    sdb_txn *txn;
    CHECK(sdb_txn_begin(j->f->db, &txn) == SDB_OK);
    sdb_txn_set_timeout(txn, 60000);
    CHECK(sdb_txn_lock(txn, j->f->t[j->first]) == SDB_OK);
    atomic_fetch_add(j->ready, 1);
    while (atomic_load(j->ready) < TABLES)
        usleep(100);
    j->rc = sdb_txn_lock(txn, j->f->t[j->second]);
    sdb_txn_abort(txn);
    return NULL;
}

/* Three transactions, each holding a table and wanting the next one's: one of them is told so, the
** two others get what they want. */
static void test_deadlock(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    for (int round = 0; round < 20; round++) {
        pthread_t thread[TABLES];
        job j[TABLES];
        atomic_int ready = 0;
        int n_deadlock = 0, n_ok = 0;
        for (int i = 0; i < TABLES; i++) {
            j[i] = (job){&f, i, (i + 1) % TABLES, 0, &ready};
            assert_int_equal(pthread_create(&thread[i], NULL, lock_two, &j[i]), 0);
        }
        for (int i = 0; i < TABLES; i++) {
            pthread_join(thread[i], NULL);
            n_deadlock += j[i].rc == SDB_DEADLOCK;
            n_ok += j[i].rc == SDB_OK;
        }
        assert_int_equal(n_deadlock, 1);
        assert_int_equal(n_ok, TABLES - 1);
    }
    fixture_close(&f);
}

enum { THREADS = 4, ROUNDS = 500 };

/* Counts one row up in each of two tables, all locks first: nobody is ever refused, no count lost. */
static void *count_up(void *arg)
{
    fixture *f = arg;
    sdb_txn *txn;
    for (int i = 0; i < ROUNDS; i++) {
        sdb_table *want[] = {f->t[2], f->t[0], f->t[2]};
        CHECK(sdb_txn_begin(f->db, &txn) == SDB_OK);
        sdb_txn_set_timeout(txn, -1);
        int rc = sdb_txn_lock_all(txn, want, 1 + i % 3);
        if (rc == SDB_STALE) { /* the second table's last commit came after the first one's lock */
            sdb_txn_abort(txn);
            i--;
            continue;
        }
        CHECK(rc == SDB_OK);
        const sdb_row *row = sdb_txn_get(txn, f->t[2], 1);
        put(txn, f->t[2], 1, sdb_row_value(f->t[2], row, 1).u.i + 1);
        CHECK(sdb_txn_commit(txn) == SDB_OK);
    }
    return NULL;
}

static void test_turns(void **state)
{
    (void)state;
    fixture f;
    pthread_t thread[THREADS];
    sdb_txn *txn;
    fixture_open(&f);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_up, &f), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(sdb_txn_begin(f.db, &txn), SDB_OK);
    const sdb_row *row = sdb_txn_get(txn, f.t[2], 1);
    assert_int_equal(sdb_row_value(f.t[2], row, 1).u.i, THREADS * ROUNDS);
    sdb_txn_abort(txn);
    fixture_close(&f);
}

/* One that has read is told that its snapshot is old; one that has not gets a new one. */
static void test_stale(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *a, *b, *c;
    fixture_open(&f);
    assert_int_equal(sdb_txn_begin(f.db, &a), SDB_OK);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK);
    assert_non_null(sdb_txn_get(b, f.t[0], 1));
    assert_int_equal(sdb_txn_begin(f.db, &c), SDB_OK);
    put(c, f.t[0], 1, 77);
    assert_int_equal(sdb_txn_commit(c), SDB_OK);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_STALE);
    assert_int_equal(sdb_txn_lock(b, f.t[1]), SDB_OK); /* that one has not changed */
    sdb_txn_abort(b);
    assert_int_equal(sdb_txn_lock(a, f.t[0]), SDB_OK);
    assert_int_equal(sdb_row_value(f.t[0], sdb_txn_get(a, f.t[0], 1), 1).u.i, 77);
    /* what it reads of a table it has locked is the newest, and a savepoint changes nothing */
    int sp;
    assert_int_equal(sdb_txn_savepoint(a, &sp), SDB_OK);
    sdb_table_def def = {.name = "d", .n_columns = 1, .rowid_column = -1};
    sdb_table *d;
    assert_int_equal(sdb_txn_begin(f.db, &c), SDB_OK);
    put(c, f.t[1], 1, 78);
    assert_int_equal(sdb_txn_create_table(c, &def, &d), SDB_OK);
    assert_int_equal(sdb_txn_commit(c), SDB_OK);
    assert_null(sdb_txn_table(a, "d"));
    assert_int_equal(sdb_txn_lock(a, f.t[1]), SDB_OK);
    assert_int_equal(sdb_row_value(f.t[1], sdb_txn_get(a, f.t[1], 1), 1).u.i, 78);
    put(a, f.t[1], 1, 79);
    sdb_txn_rollback_to(a, sp);
    assert_ptr_equal(sdb_txn_table(a, "d"), d);
    assert_int_equal(sdb_row_value(f.t[1], sdb_txn_get(a, f.t[1], 1), 1).u.i, 78);
    assert_int_equal(sdb_row_value(f.t[0], sdb_txn_get(a, f.t[0], 1), 1).u.i, 77);
    assert_int_equal(sdb_txn_count(a, f.t[2]), 1); /* not locked */
    assert_int_equal(sdb_txn_begin(f.db, &c), SDB_OK);
    put(c, f.t[2], 1, 80);
    assert_int_equal(sdb_txn_commit(c), SDB_OK);
    assert_int_equal(sdb_txn_lock(a, f.t[2]), SDB_STALE);
    sdb_txn_abort(a);
    fixture_close(&f);
}

static void *interrupt_soon(void *arg)
{
    usleep(20000);
    sdb_txn_interrupt(arg);
    return NULL;
}

static void test_interrupt(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *a, *b;
    pthread_t thread;
    fixture_open(&f);
    assert_int_equal(sdb_txn_begin(f.db, &a), SDB_OK);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK);
    assert_int_equal(sdb_txn_lock(a, f.t[0]), SDB_OK);
    sdb_txn_set_timeout(b, -1);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, b), 0);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_INTERRUPTED);
    pthread_join(thread, NULL);
    assert_int_equal(sdb_txn_lock(b, f.t[1]), SDB_OK); /* b goes on */
    sdb_txn_abort(a);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_OK);
    sdb_txn_abort(b);
    fixture_close(&f);
}

static bool is_third(void *ctx)
{
    return ++*(int *)ctx == 3;
}

static void test_stop(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *a, *b;
    int n = 0;
    fixture_open(&f);
    assert_int_equal(sdb_txn_begin(f.db, &a), SDB_OK);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK);
    assert_int_equal(sdb_txn_lock(a, f.t[0]), SDB_OK);
    sdb_txn_set_timeout(b, -1);
    sdb_txn_set_stop(b, 1, (sdb_stop){is_third, &n});
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_INTERRUPTED);
    assert_int_equal(n, 3);
    sdb_txn_set_timeout(b, 0);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_BUSY);
    assert_int_equal(n, 3);
    sdb_txn_set_timeout(b, 5); /* the end is before the next question */
    sdb_txn_set_stop(b, 60000, (sdb_stop){is_third, &n});
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_BUSY);
    assert_int_equal(n, 3);
    sdb_txn_abort(a);
    assert_int_equal(sdb_txn_lock(b, f.t[0]), SDB_OK);
    sdb_txn_abort(b);
    fixture_close(&f);
}

/* Beginning with what a snapshot holds, and the other way. */
static void test_begin_at(void **state)
{
    (void)state;
    fixture f;
    sdb_snapshot *snap, *again;
    sdb_txn *a, *b;
    fixture_open(&f);
    assert_int_equal(sdb_snapshot_new(f.db, &snap), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f.db, &again), SDB_OK);
    assert_int_equal(sdb_txn_begin_at(f.db, snap, &a), SDB_MISUSE);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK);
    put(b, f.t[0], 1, 77);
    put(b, f.t[0], 2, 78);
    assert_int_equal(sdb_txn_commit(b), SDB_OK);
    assert_int_equal(sdb_txn_begin_at(f.db, snap, &a), SDB_OK);
    sdb_snapshot_drop(snap);
    assert_int_equal(sdb_txn_begin(f.db, &b), SDB_OK); /* and memory is used again */
    put(b, f.t[0], 1, 79);
    assert_int_equal(sdb_txn_commit(b), SDB_OK);
    assert_int_equal(sdb_txn_count(a, f.t[0]), 1);
    assert_int_equal(sdb_row_value(f.t[0], sdb_txn_get(a, f.t[0], 1), 1).u.i, 0);
    assert_int_equal(sdb_txn_lock(a, f.t[0]), SDB_STALE);
    put(a, f.t[1], 1, 80);
    assert_int_equal(sdb_txn_snapshot(a, again), SDB_OK);
    sdb_txn_abort(a);
    assert_int_equal(sdb_snapshot_count(again, f.t[0]), 1);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_snapshot_count(snap, f.t[0]), 2);
    assert_string_equal(sdb_snapshot_name(snap, f.t[0]), "a");
    sdb_snapshot_free(snap);
    sdb_snapshot_free(again);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_out), cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_turns),    cmocka_unit_test(test_stale),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_begin_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
