/* t_stats.c - counters, tables, locks and what is held, as the store reports them. */
#define _GNU_SOURCE
#include "../core/mem.h"
#include "../core/statedb.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    sdb_db *db;
    sdb_table *a, *b;
} fixture;

static sdb_txn *begin(const fixture *f)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    return txn;
}

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static sdb_table *create(sdb_txn *txn, const char *name)
{
    sdb_table *t;
    sdb_part part = {.column = 1};
    sdb_index_def by_k = {.name = "by_k", .n_parts = 1, .parts = &part};
    sdb_table_def def = {.name = name, .n_columns = 2, .n_indexes = 1, .indexes = &by_k};
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    return t;
}

static void fixture_open(fixture *f)
{
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    sdb_txn *txn = begin(f);
    f->a = create(txn, "a");
    f->b = create(txn, "b");
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static sdb_stats stats(const fixture *f)
{
    sdb_stats s;
    sdb_stats_read(f->db, &s);
    return s;
}

static sdb_table_info info(const fixture *f, const sdb_table *t)
{
    sdb_snapshot *snap;
    sdb_table_info out;
    assert_int_equal(sdb_snapshot_new(f->db, &snap), SDB_OK);
    assert_int_equal(sdb_snapshot_table_info(snap, t, &out), SDB_MISUSE);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_snapshot_table_info(snap, t, &out), SDB_OK);
    sdb_snapshot_free(snap);
    return out;
}

/* ---------------------------------------------------------------- counters */

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < SDB_N_COUNTERS; i++) {
        assert_non_null(sdb_counter_name(i));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(sdb_counter_name(i), sdb_counter_name(k));
    }
    assert_string_equal(sdb_counter_name(SDB_N_DELETED), "rows_deleted");
    assert_null(sdb_counter_name(SDB_N_COUNTERS));
    assert_null(sdb_counter_name(-1));
}

static void test_counters(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_txn *txn = begin(&f);
    put(txn, f.a, 1, 1);
    put(txn, f.a, 2, 2);
    put(txn, f.a, 1, 3);
    assert_int_equal(sdb_delete(txn, f.a, sdb_txn_get(txn, f.a, 2)), SDB_OK);
    put(txn, f.b, 1, 1);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    txn = begin(&f);
    put(txn, f.b, 2, 2);
    sdb_txn_abort(txn); /* what was done is counted, undone or not */
    txn = begin(&f);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK); /* it has locked nothing */

    sdb_table_info a = info(&f, f.a), b = info(&f, f.b);
    assert_int_equal(a.count[SDB_N_COMMITS], 2);
    assert_int_equal(a.count[SDB_N_ABORTS], 0);
    assert_int_equal(a.count[SDB_N_INSERTED], 2);
    assert_int_equal(a.count[SDB_N_UPDATED], 1);
    assert_int_equal(a.count[SDB_N_DELETED], 1);
    assert_int_equal(b.count[SDB_N_COMMITS], 2);
    assert_int_equal(b.count[SDB_N_ABORTS], 1);
    assert_int_equal(b.count[SDB_N_INSERTED], 2);

    sdb_stats before = stats(&f);
    assert_int_equal(before.count[SDB_N_COMMITS], 2);
    assert_int_equal(before.count[SDB_N_ABORTS], 1);
    assert_int_equal(before.count[SDB_N_INSERTED], 4);
    assert_int_equal(before.tables, 2);
    assert_int_equal(before.memory.live, a.memory.live + b.memory.live);

    /* What a table has counted stays in the sum when the table has gone. */
    txn = begin(&f);
    assert_int_equal(sdb_txn_drop_table(txn, f.b), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_stats after = stats(&f);
    assert_int_equal(after.tables, 1);
    assert_int_equal(after.count[SDB_N_INSERTED], 4);
    assert_int_equal(after.count[SDB_N_UPDATED], 1);
    assert_int_equal(after.count[SDB_N_COMMITS], 3);
    assert_int_equal(after.memory.live, a.memory.live);
    assert_true(after.commit > before.commit);
    fixture_close(&f);
}

static void test_gauges(void **state)
{
    (void)state;
    fixture f;
    sdb_snapshot *plain, *idle;
    sdb_cursor *cur;
    sdb_watch *watch;
    fixture_open(&f);
    uint64_t taken = stats(&f).count[SDB_N_SNAPSHOTS];
    assert_int_equal(sdb_snapshot_new(f.db, &plain), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f.db, &idle), SDB_OK);
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    assert_int_equal(sdb_watch_new(f.db, &watch), SDB_OK);
    sdb_snapshot_take(plain);
    assert_int_equal(sdb_snapshot_save(f.db, "n", NULL), SDB_OK);
    assert_int_equal(sdb_watch_arm(watch, plain, f.a, SDB_BY_ROWID, &(sdb_range){0}), SDB_OK);
    sdb_txn *txn = begin(&f);
    sdb_set_limit(f.db, 12345678);

    sdb_stats s = stats(&f);
    assert_int_equal(s.transactions, 1);
    assert_int_equal(s.snapshots, 2);
    assert_int_equal(s.named, 1);
    assert_int_equal(s.cursors, 1);
    assert_int_equal(s.watches, 1);
    assert_int_equal(s.limit, 12345678);
    assert_int_equal(s.count[SDB_N_SNAPSHOTS], taken + 3); /* one is the transaction's */
    assert_int_equal(info(&f, f.a).watches, 1);

    put(txn, f.a, 1, 1);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_watch_arm(watch, plain, f.a, SDB_BY_ROWID, &(sdb_range){0}), SDB_OK);
    assert_true(sdb_watch_fired(watch)); /* the snapshot is older */
    s = stats(&f);
    assert_int_equal(s.watches, 0);
    assert_int_equal(s.count[SDB_N_WATCHES_ARMED], 2);
    assert_int_equal(s.count[SDB_N_WATCHES_FIRED], 2);
    assert_int_equal(sdb_watch_fd(watch) >= 0, 1); /* told once more, counted once */
    assert_int_equal(stats(&f).count[SDB_N_WATCHES_FIRED], 2);

    sdb_snapshot_free(plain);
    sdb_snapshot_free(idle);
    sdb_cursor_free(cur);
    sdb_watch_free(watch);
    s = stats(&f);
    assert_int_equal(s.transactions, 0);
    assert_int_equal(s.snapshots, 1);
    assert_int_equal(s.cursors, 0);
    assert_int_equal(s.count[SDB_N_SNAPSHOTS], taken + 4); /* and what is freed stays counted */
    fixture_close(&f);
}

/* ---------------------------------------------------------------- tables */

static void test_tables(void **state)
{
    (void)state;
    fixture f;
    sdb_snapshot *snap;
    sdb_table_info out;
    fixture_open(&f);
    assert_int_equal(sdb_snapshot_new(f.db, &snap), SDB_OK);
    assert_null(sdb_snapshot_next_table(snap, NULL));
    sdb_snapshot_take(snap);
    sdb_txn *txn = begin(&f);
    assert_int_equal(sdb_txn_create_feed(txn, f.a, "one"), SDB_OK);
    put(txn, f.a, 1, 1);
    put(txn, f.a, 2, 2);
    assert_int_equal(sdb_txn_acknowledge(txn, f.a, "one", 1), SDB_OK);
    assert_int_equal(sdb_txn_create_feed(txn, f.a, "two"), SDB_OK);
    assert_int_equal(sdb_delete(txn, f.a, sdb_txn_get(txn, f.a, 2)), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, f.a, 1), SDB_OK);
    assert_int_equal(sdb_txn_rename_table(txn, f.a, "z"), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(txn, f.b), SDB_OK);
    sdb_table *c = create(txn, "c");

    /* The snapshot shows what was, the transaction what will be. */
    sdb_table *t = sdb_snapshot_next_table(snap, NULL);
    assert_ptr_equal(t, f.a);
    assert_ptr_equal(sdb_snapshot_next_table(snap, t), f.b);
    assert_null(sdb_snapshot_next_table(snap, f.b));
    assert_int_equal(sdb_snapshot_table_info(snap, f.a, &out), SDB_OK);
    assert_string_equal(out.name, "a");
    assert_int_equal(out.rows, 0);
    assert_int_equal(out.indexes, 1);
    assert_int_equal(out.feeds, 0);
    assert_int_equal(out.acknowledged, out.revision);
    assert_int_equal(sdb_snapshot_table_info(snap, c, &out), SDB_MISUSE);

    t = sdb_txn_next_table(txn, NULL);
    assert_ptr_equal(t, f.a);
    assert_ptr_equal(sdb_txn_next_table(txn, t), c);
    assert_null(sdb_txn_next_table(txn, c));
    assert_int_equal(sdb_txn_table_info(txn, f.b, &out), SDB_MISUSE);
    assert_int_equal(sdb_txn_table_info(txn, f.a, &out), SDB_OK);
    assert_string_equal(out.name, "z");
    assert_int_equal(out.rows, 1);
    assert_int_equal(out.revision, 3);
    assert_int_equal(out.indexes, 0);
    assert_int_equal(out.feeds, 2);
    assert_int_equal(out.deletions, 1);
    assert_int_equal(out.acknowledged, 0); /* "two" has seen nothing */
    assert_true(out.memory.live > 0);
    sdb_txn_abort(txn);
    sdb_snapshot_free(snap);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- what is held */

typedef struct held {
    int n;
    sdb_snapshot_info at[8];
    char name[8][8];
} held;

static void held_add(void *ctx, const sdb_snapshot_info *i)
{
    held *h = ctx;
    assert_true(h->n < 8);
    assert_true(i->age_ms >= 0);
    strcpy(h->name[h->n], i->name ? i->name : "");
    h->at[h->n++] = *i;
}

static held what_is_held(const fixture *f)
{
    held h = {0};
    assert_int_equal(sdb_snapshot_each(f->db, held_add, &h), SDB_OK);
    return h;
}

static void fill(const fixture *f, int64_t k)
{
    sdb_txn *txn = begin(f);
    for (int i = 0; i < 100; i++)
        put(txn, f->a, i, k);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void test_held(void **state)
{
    (void)state;
    fixture f;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    sdb_memory used;
    fixture_open(&f);
    fill(&f, 1);
    assert_int_equal(what_is_held(&f).n, 0);
    assert_int_equal(sdb_snapshot_new(f.db, &snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    assert_int_equal(what_is_held(&f).n, 0); /* an object that holds nothing */

    sdb_snapshot_take(snap);
    uint64_t commit = stats(&f).commit;
    held h = what_is_held(&f);
    assert_int_equal(h.n, 1);
    assert_string_equal(h.name[0], "");
    assert_int_equal(h.at[0].txn, 0);
    assert_int_equal(h.at[0].commit, commit);
    assert_int_equal(h.at[0].bytes, 0); /* nothing has changed since */
    fill(&f, 2);
    sdb_memory_used(f.db, &used);
    assert_true(used.retired > 0);
    assert_int_equal(what_is_held(&f).at[0].bytes, used.retired);

    /* A transaction is told from a snapshot, and what it writes to is seen all the same. */
    sdb_txn *txn = begin(&f);
    put(txn, f.a, 1, 3);
    h = what_is_held(&f);
    assert_int_equal(h.n, 2);
    int own = h.at[0].txn ? 0 : 1;
    assert_int_equal(h.at[own].txn, sdb_txn_id(txn));
    assert_int_equal(h.at[!own].txn, 0);
    assert_int_equal(h.at[!own].bytes, used.retired);
    assert_int_equal(h.at[own].bytes, 0);

    /* A cursor that has outlived its transaction holds what it sees. */
    assert_int_equal(sdb_cursor_open_txn(cur, txn, f.a, SDB_BY_ROWID), SDB_OK);
    put(txn, f.a, 1, 4);
    sdb_txn_abort(txn);
    h = what_is_held(&f);
    assert_int_equal(h.n, 2);
    sdb_cursor_close(cur);
    assert_int_equal(what_is_held(&f).n, 1);

    /* A table that was dropped is kept whole. */
    sdb_table_info a = info(&f, f.a);
    assert_int_equal(sdb_snapshot_save(f.db, "n", NULL), SDB_OK);
    txn = begin(&f);
    assert_int_equal(sdb_txn_drop_table(txn, f.a), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.live, a.memory.live);
    assert_int_equal(used.retired, a.memory.live);
    h = what_is_held(&f);
    assert_int_equal(h.n, 2);
    int named = h.name[0][0] ? 0 : 1;
    assert_string_equal(h.name[named], "n");
    assert_int_equal(h.at[named].bytes, a.memory.live);
    assert_true(h.at[!named].commit < h.at[named].commit);
    assert_int_equal(sdb_snapshot_forget(f.db, "n"), SDB_OK);
    sdb_snapshot_drop(snap);
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.live, 0);
    sdb_snapshot_free(snap);
    sdb_cursor_free(cur);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- locks */

typedef struct locks {
    int n;
    sdb_lock_info at[8];
    char table[8][8];
} locks;

static void lock_add(void *ctx, const sdb_lock_info *i)
{
    locks *l = ctx;
    assert_true(l->n < 8);
    assert_true(i->ms >= 0);
    strcpy(l->table[l->n], i->table);
    l->at[l->n++] = *i;
}

static locks all_locks(const fixture *f)
{
    locks l = {0};
    assert_int_equal(sdb_lock_each(f->db, lock_add, &l), SDB_OK);
    return l;
}

typedef struct waiter {
    const fixture *f;
    sdb_txn *txn;
    int rc;
} waiter;

static void *wait_for_a(void *arg)
{
    waiter *w = arg;
    w->rc = sdb_txn_lock(w->txn, w->f->a);
    return NULL;
}

static void test_locks(void **state)
{
    (void)state;
    fixture f;
    pthread_t thread;
    fixture_open(&f);
    assert_int_equal(all_locks(&f).n, 0);
    sdb_txn *x = begin(&f), *y = begin(&f), *z = begin(&f);
    assert_int_equal(sdb_txn_lock(x, f.a), SDB_OK);
    assert_int_equal(sdb_txn_rename_table(x, f.a, "other"), SDB_OK);
    create(x, "new");
    assert_int_equal(sdb_txn_lock(y, f.a), SDB_BUSY);
    assert_int_equal(sdb_txn_lock(z, f.b), SDB_OK);
    assert_null(sdb_txn_get(z, f.a, 1)); /* it has read: its snapshot has to stay */

    sdb_txn_set_timeout(z, -1);
    waiter w = {&f, z, 0};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_a, &w), 0);
    locks l = all_locks(&f);
    for (; l.n < 4; l = all_locks(&f))
        usleep(100);
    assert_string_equal(l.table[0], "a"); /* as everybody else knows it */
    assert_int_equal(l.at[0].txn, sdb_txn_id(x));
    assert_false(l.at[0].is_waiting);
    assert_string_equal(l.table[1], "a");
    assert_int_equal(l.at[1].txn, sdb_txn_id(z));
    assert_true(l.at[1].is_waiting);
    assert_string_equal(l.table[2], "b");
    assert_int_equal(l.at[2].txn, sdb_txn_id(z));
    assert_false(l.at[2].is_waiting);
    assert_string_equal(l.table[3], "new");

    assert_int_equal(sdb_txn_lock(x, f.b), SDB_DEADLOCK);
    sdb_txn_interrupt(z);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, SDB_INTERRUPTED);
    put(x, f.a, 1, 1);
    assert_int_equal(sdb_txn_commit(x), SDB_OK);
    assert_int_equal(sdb_txn_lock(z, f.a), SDB_STALE);
    sdb_txn_abort(y);
    sdb_txn_abort(z);
    assert_int_equal(all_locks(&f).n, 0);

    sdb_table_info a = info(&f, f.a), b = info(&f, f.b);
    assert_int_equal(a.count[SDB_N_BUSY], 1);
    assert_int_equal(a.count[SDB_N_LOCK_WAITS], 1);
    assert_int_equal(a.count[SDB_N_INTERRUPTED], 1);
    assert_true(a.count[SDB_N_LOCK_WAIT_NS] > 0);
    assert_int_equal(b.count[SDB_N_DEADLOCKS], 1);
    assert_int_equal(a.count[SDB_N_STALE] + b.count[SDB_N_STALE], 1);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_counters), cmocka_unit_test(test_gauges),
        cmocka_unit_test(test_tables), cmocka_unit_test(test_held),     cmocka_unit_test(test_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
