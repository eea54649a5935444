/* t_threads.c - readers, writers and holders of snapshots on several threads: what a snapshot shows
** was committed as a whole, and stays. Made to be run under ThreadSanitizer too. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 64, WRITERS = 2, READERS = 2, HOLDERS = 1, COMMITS = 20000, TOTAL = ROWS * 1000 };

/* Each table holds ROWS accounts; every transaction moves an amount from one to another, so the sum
** never changes. by_amount holds the same rows. Odd commits touch both tables. */
typedef struct bank {
    sdb_db *db;
    sdb_table *table[WRITERS];
    atomic_int running; /* writers */
} bank;

typedef struct worker {
    bank *bank;
    int number;
    uint64_t rng;
    uint64_t seen;
} worker;

static uint64_t rnd(worker *w, uint64_t n)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng % n;
}

/* cmocka's asserts belong to the main thread. */
#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t amount)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = amount}};
    CHECK(sdb_put(txn, t, id, v) == SDB_OK);
}

static void move(worker *w, sdb_txn *txn, sdb_table *t)
{
    int64_t from = (int64_t)rnd(w, ROWS), to = (int64_t)rnd(w, ROWS), n = (int64_t)rnd(w, 50);
    int64_t had = sdb_row_value(t, sdb_txn_get(txn, t, from), 1).u.i;
    put(txn, t, from, had - n);
    put(txn, t, to, sdb_row_value(t, sdb_txn_get(txn, t, to), 1).u.i + n);
}

static void *writer(void *arg)
{
    worker *w = arg;
    bank *b = w->bank;
    sdb_txn *txn;
    for (int i = 0; i < COMMITS; i++) {
        CHECK(sdb_txn_begin(b->db, &txn) == SDB_OK);
        int rc = sdb_txn_lock(txn, b->table[w->number]);
        if (rc == SDB_OK && i % 4 == 0)
            rc = sdb_txn_lock(txn, b->table[1 - w->number]);
        if (rc == SDB_BUSY || rc == SDB_STALE) {
            sdb_txn_abort(txn);
            continue;
        }
        CHECK(rc == SDB_OK);
        int sp;
        move(w, txn, b->table[w->number]);
        CHECK(sdb_txn_savepoint(txn, &sp) == SDB_OK);
        put(txn, b->table[w->number], 5, 0); /* money out of nothing, taken back */
        sdb_txn_rollback_to(txn, sp);
        if (i % 4 == 0)
            move(w, txn, b->table[1 - w->number]);
        if (i % 7 == 0)
            sdb_txn_abort(txn);
        else
            CHECK(sdb_txn_commit(txn) == SDB_OK);
    }
    atomic_fetch_sub(&b->running, 1);
    return NULL;
}

static void check_sums(const bank *b, const sdb_snapshot *snap, sdb_cursor *cur)
{
    for (int t = 0; t < WRITERS; t++) {
        for (int index = 0; index < 2; index++) {
            int64_t sum = 0, rows = 0, last = INT64_MIN;
            CHECK(sdb_cursor_open(cur, snap, b->table[t], index) == SDB_OK);
            sdb_range all = {0};
            for (int rc = sdb_cursor_seek(cur, &all); rc == SDB_OK; rc = sdb_cursor_next(cur)) {
                int64_t amount = sdb_row_value(b->table[t], sdb_cursor_row(cur), 1).u.i;
                CHECK(index == 0 || amount >= last);
                last = amount;
                sum += amount;
                rows++;
            }
            sdb_cursor_close(cur);
            CHECK(rows == ROWS && sum == TOTAL);
        }
    }
}

static void *reader(void *arg)
{
    worker *w = arg;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    CHECK(sdb_snapshot_new(w->bank->db, &snap) == SDB_OK);
    CHECK(sdb_cursor_new(w->bank->db, &cur) == SDB_OK);
    while (atomic_load(&w->bank->running)) {
        sdb_snapshot_take(snap);
        check_sums(w->bank, snap, cur);
        sdb_snapshot_drop(snap);
        w->seen++;
    }
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    return NULL;
}

/* Holds several snapshots of different ages and looks at them again and again. */
static void *holder(void *arg)
{
    worker *w = arg;
    enum { HELD = 5 };
    sdb_snapshot *snap[HELD];
    uint64_t revision[HELD] = {0};
    sdb_cursor *cur;
    CHECK(sdb_cursor_new(w->bank->db, &cur) == SDB_OK);
    for (int i = 0; i < HELD; i++)
        CHECK(sdb_snapshot_new(w->bank->db, &snap[i]) == SDB_OK);
    while (atomic_load(&w->bank->running)) {
        int i = (int)rnd(w, HELD);
        if (sdb_snapshot_held(snap[i]) && rnd(w, 3) == 0)
            sdb_snapshot_drop(snap[i]);
        if (!sdb_snapshot_held(snap[i])) {
            sdb_snapshot_take(snap[i]);
            revision[i] = sdb_snapshot_revision(snap[i], w->bank->table[0]);
        }
        CHECK(sdb_snapshot_revision(snap[i], w->bank->table[0]) == revision[i]);
        check_sums(w->bank, snap[i], cur);
        w->seen++;
    }
    for (int i = 0; i < HELD; i++)
        sdb_snapshot_free(snap[i]);
    sdb_cursor_free(cur);
    return NULL;
}

static void lock_seen(void *ctx, const sdb_lock_info *lock)
{
    CHECK(lock->txn && lock->table[0]);
    (void)ctx;
}

static void held_seen(void *ctx, const sdb_snapshot_info *held)
{
    (void)ctx;
    CHECK(held->commit && held->age_ms >= 0);
}

/* Asks for all that is counted and listed; no counter ever falls. */
static void *observer(void *arg)
{
    worker *w = arg;
    sdb_db *db = w->bank->db;
    sdb_stats last = {0};
    while (atomic_load(&w->bank->running)) {
        sdb_stats now;
        sdb_stats_read(db, &now);
        for (int i = 0; i < SDB_N_COUNTERS; i++)
            CHECK(now.count[i] >= last.count[i]);
        CHECK(now.commit >= last.commit && now.tables == WRITERS);
        last = now;
        CHECK(sdb_lock_each(db, lock_seen, NULL) == SDB_OK);
        CHECK(sdb_snapshot_each(db, held_seen, NULL) == SDB_OK);
        w->seen++;
    }
    return NULL;
}

static void test_bank(void **state)
{
    (void)state;
    static const sdb_part part = {1, SDB_BINARY, false};
    static const sdb_index_def index = {
        .name = "by_amount", .unique = false, .n_parts = 1, .parts = &part};
    bank b = {.running = WRITERS};
    sdb_txn *txn;
    assert_int_equal(sdb_open(&b.db), SDB_OK);
    assert_int_equal(sdb_txn_begin(b.db, &txn), SDB_OK);
    for (int i = 0; i < WRITERS; i++) {
        const char *name[] = {"a", "b"};
        sdb_table_def def = {
            .name = name[i], .n_columns = 2, .rowid_column = 0, .n_indexes = 1, .indexes = &index};
        assert_int_equal(sdb_txn_create_table(txn, &def, &b.table[i]), SDB_OK);
        for (int r = 0; r < ROWS; r++)
            put(txn, b.table[i], r, TOTAL / ROWS);
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    enum { N = WRITERS + READERS + HOLDERS + 1 };
    pthread_t thread[N];
    worker work[N];
    for (int i = 0; i < N; i++) {
        void *(*run)(void *) = i < WRITERS             ? writer
                               : i < WRITERS + READERS ? reader
                               : i < N - 1             ? holder
                                                       : observer;
        work[i] = (worker){.bank = &b, .number = i, .rng = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1)};
        assert_int_equal(pthread_create(&thread[i], NULL, run, &work[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    for (int i = WRITERS; i < N; i++)
        assert_true(work[i].seen > 0);

    char *wrong = sdb_check(b.db);
    if (wrong)
        fail_msg("%s", wrong);
    sdb_memory used;
    sdb_snapshot *last; /* the last to go collects what the others left */
    assert_int_equal(sdb_snapshot_new(b.db, &last), SDB_OK);
    sdb_snapshot_take(last);
    sdb_snapshot_free(last);
    sdb_memory_used(b.db, &used);
    assert_int_equal(used.retired, 0);
    sdb_unref(b.db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
