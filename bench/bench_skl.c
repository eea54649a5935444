/* bench_skl.c - badger's benchmark of its skiplist, ReadWrite, by a table.
**
** As many threads as the machine has cores do so many operations together, on a table that is empty at
** first: get the row of a random key, or put one (peers/others.go). What is put must at once be seen by
** all, as it is in a skiplist: so each put is a transaction, and each get takes a snapshot. In the rows
** named _txn a thread commits a hundred puts at a time instead. */
#include "rows.h"

#include <pthread.h>
#include <unistd.h>

enum { OPERATIONS = 300000, THREADS_MAX = 64, TXN = 100 };

static sdb_db *db;
static sdb_table *table;
static int n_threads;

static struct worker {
    pthread_t thread;
    uint64_t seed;
    size_t n;   /* operations */
    int tenths; /* of them that read */
    int batch;  /* puts in a transaction */
    uint64_t allocated;
    size_t hits;
} worker[THREADS_MAX];

static uint64_t worker_random(struct worker *w)
{
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 7;
    w->seed ^= w->seed << 17;
    return w->seed;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    sdb_snapshot *snap;
    sdb_txn *txn = NULL;
    int left = 0; /* puts in this transaction */
    MUST(sdb_snapshot_new(db, &snap));
    for (size_t i = 0; i < w->n; i++) {
        uint64_t draw = worker_random(w);
        int64_t key = (int64_t)worker_random(w);
        if ((int)(draw % 10) < w->tenths) {
            const sdb_row *found;
            sdb_snapshot_take(snap);
            sdb_snapshot_get_many(snap, table, &key, 1, &found);
            w->hits += found != NULL;
            sdb_snapshot_drop(snap);
            continue;
        }
        if (!left) {
            MUST(sdb_txn_begin(db, &txn));
            sdb_txn_set_timeout(txn, -1);
        }
        sdb_value v[] = {{.type = SDB_NULL}, {.type = SDB_TEXT, .n = 5, .u.p = "00123"}};
        MUST(sdb_put(txn, table, key, v));
        if (++left == w->batch) {
            MUST(sdb_txn_commit(txn));
            left = 0;
        }
    }
    if (left)
        MUST(sdb_txn_commit(txn));
    sdb_snapshot_free(snap);
    w->allocated = allocated;
    return NULL;
}

static void make(const row *r)
{
    (void)r;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    n_threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores;
    for (int i = 0; i < n_threads; i++)
        worker[i].seed = rnd();
}

static void read_write(const row *r, size_t n)
{
    const sdb_table_def def = {.name = "list", .n_columns = 2, .rowid_column = 0};
    sdb_txn *txn;
    clock_stop();
    MUST(sdb_open(&db));
    MUST(sdb_txn_begin(db, &txn));
    MUST(sdb_txn_create_table(txn, &def, &table));
    MUST(sdb_txn_commit(txn));
    clock_start();
    for (int i = 0; i < n_threads; i++) {
        struct worker *w = &worker[i];
        w->n = n / (size_t)n_threads + (i == 0 ? n % (size_t)n_threads : 0);
        w->tenths = r->arg;
        w->batch = r->what;
        MUST(pthread_create(&w->thread, NULL, work, w));
    }
    for (int i = 0; i < n_threads; i++) {
        MUST(pthread_join(worker[i].thread, NULL));
        allocated += worker[i].allocated;
        must(worker[i].hits == 0); /* of 2^64 keys */
    }
    clock_stop();
    sdb_unref(db);
    clock_start();
}

static void end(void)
{
}

static const row ROWS[] = {
    /* name, per, make, run, arg, what, is_random, fixed */
    {"skl_ReadWrite_frac_0", 1, make, read_write, 0, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_1", 1, make, read_write, 1, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_2", 1, make, read_write, 2, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_3", 1, make, read_write, 3, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_4", 1, make, read_write, 4, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_5", 1, make, read_write, 5, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_6", 1, make, read_write, 6, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_7", 1, make, read_write, 7, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_8", 1, make, read_write, 8, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_9", 1, make, read_write, 9, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_10", 1, make, read_write, 10, 1, false, OPERATIONS},
    {"skl_ReadWrite_frac_0_txn", 1, make, read_write, 0, TXN, false, OPERATIONS},
    {"skl_ReadWrite_frac_5_txn", 1, make, read_write, 5, TXN, false, OPERATIONS},
    {"skl_ReadWrite_frac_9_txn", 1, make, read_write, 9, TXN, false, OPERATIONS},
};

int main(int argc, char **argv)
{
    return rows_main(argc, argv, ROWS, sizeof ROWS / sizeof *ROWS, end);
}
