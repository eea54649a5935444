/* bench_reader.c - what one reader costs that stays: a snapshot is held through the whole run while
** rows are updated behind it, here and in LMDB.
**
** Both hold the same rows, an 8-byte key and an 8-byte value, update the same random ones, BATCH in
** each transaction, and have one reader open from the beginning; at the end that must still read what
** it saw then. LMDB (on /dev/shm, without syncing) frees nothing that is younger than its oldest
** reader, and stops when its map is full. Printed ten times in a run: memory in megabytes and as a
** multiple of what it was at the start, and the thousands of updates in a second of CPU time since the
** line before; the last column is ours / theirs.
**
**     bench_reader [UPDATES]      2000000 if not given */
#include "bench.h"

#include "../core/statedb.h"

#include <lmdb.h>
#include <stdbool.h>
#include <unistd.h>

enum { ROWS = 100000, BATCH = 100, LINES = 10 };
static const size_t MAP_SIZE = (size_t)2 << 30; /* so much of /dev/shm may be used */
static const double REACH = 2.2;               /* what it saw, what is there now, and a little */

static void check_sum(uint64_t sum)
{
    if (sum != (uint64_t)ROWS * (ROWS - 1) / 2) {
        fprintf(stderr, "the reader does not read what it saw\n");
        exit(1);
    }
}

/* ---------------------------------------------------------------- ours */

typedef struct ours {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
} ours;

static void ours_put(const ours *o, sdb_txn *txn, int64_t key, int64_t value)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = value}};
    MUST(sdb_put(txn, o->t, key, v));
}

static void ours_open(ours *o)
{
    sdb_txn *txn;
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0};
    MUST(sdb_open(&o->db));
    MUST(sdb_snapshot_new(o->db, &o->snap));
    MUST(sdb_txn_begin(o->db, &txn));
    MUST(sdb_txn_create_table(txn, &def, &o->t));
    for (int64_t i = 0; i < ROWS; i++)
        ours_put(o, txn, i, i);
    MUST(sdb_txn_commit(txn));
    sdb_snapshot_take(o->snap);
}

static void ours_update(const ours *o, const int64_t *key, int64_t value)
{
    sdb_txn *txn;
    MUST(sdb_txn_begin(o->db, &txn));
    for (int i = 0; i < BATCH; i++)
        ours_put(o, txn, key[i], value + i);
    MUST(sdb_txn_commit(txn));
}

static void ours_close(ours *o)
{
    sdb_cursor *cur;
    sdb_range all = {0};
    uint64_t sum = 0;
    MUST(sdb_cursor_new(o->db, &cur));
    MUST(sdb_cursor_open(cur, o->snap, o->t, SDB_BY_ROWID));
    for (int rc = sdb_cursor_seek(cur, &all); rc == SDB_OK; rc = sdb_cursor_next(cur))
        sum += (uint64_t)sdb_row_value(o->t, sdb_cursor_row(cur), 1).u.i;
    check_sum(sum);
    sdb_cursor_free(cur);
    sdb_snapshot_free(o->snap);
    sdb_unref(o->db);
}

/* ---------------------------------------------------------------- LMDB */

typedef struct theirs {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *reader;
    bool is_full;
} theirs;

static int theirs_put(const theirs *l, MDB_txn *txn, int64_t key, int64_t value)
{
    uint64_t big_endian = __builtin_bswap64((uint64_t)key);
    return mdb_put(txn, l->dbi, &(MDB_val){8, &big_endian}, &(MDB_val){8, &value}, 0);
}

static void theirs_open(theirs *l, const char *folder)
{
    MDB_txn *txn;
    MUST(mdb_env_create(&l->env));
    MUST(mdb_env_set_mapsize(l->env, MAP_SIZE));
    MUST(mdb_env_open(l->env, folder, MDB_NOSYNC | MDB_WRITEMAP | MDB_NOMETASYNC | MDB_NOTLS, 0600));
    MUST(mdb_txn_begin(l->env, NULL, 0, &txn));
    MUST(mdb_dbi_open(txn, NULL, MDB_CREATE, &l->dbi));
    for (int64_t i = 0; i < ROWS; i++)
        MUST(theirs_put(l, txn, i, i));
    MUST(mdb_txn_commit(txn));
    MUST(mdb_txn_begin(l->env, NULL, MDB_RDONLY, &l->reader));
}

static void theirs_update(theirs *l, const int64_t *key, int64_t value)
{
    MDB_txn *txn;
    int rc = 0;
    MUST(mdb_txn_begin(l->env, NULL, 0, &txn));
    for (int i = 0; i < BATCH && rc == 0; i++)
        rc = theirs_put(l, txn, key[i], value + i);
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    l->is_full = rc == MDB_MAP_FULL;
    MUST(l->is_full ? 0 : rc);
}

static uint64_t theirs_bytes(const theirs *l)
{
    MDB_envinfo info;
    MDB_stat stat;
    MUST(mdb_env_info(l->env, &info));
    MUST(mdb_env_stat(l->env, &stat));
    return (info.me_last_pgno + 1) * stat.ms_psize;
}

static void theirs_close(theirs *l)
{
    MDB_cursor *cur;
    MDB_val k, v;
    uint64_t sum = 0;
    MUST(mdb_cursor_open(l->reader, l->dbi, &cur));
    for (int rc = mdb_cursor_get(cur, &k, &v, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT))
        sum += *(const uint64_t *)v.mv_data;
    check_sum(sum);
    mdb_cursor_close(cur);
    mdb_txn_abort(l->reader);
    mdb_env_close(l->env);
}

/* ---------------------------------------------------------------- the table */

static double mb(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

/* So many updates on both sides; the CPU time of each. */
static void run(const ours *o, theirs *l, size_t updates, double *ns, double *lmdb_ns)
{
    int64_t key[BATCH];
    *ns = *lmdb_ns = 0;
    for (size_t done = 0; done < updates; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            key[i] = (int64_t)(rnd() % ROWS);
        double start = now();
        ours_update(o, key, (int64_t)done);
        double between = now();
        if (!l->is_full)
            theirs_update(l, key, (int64_t)done);
        *ns += between - start;
        *lmdb_ns += now() - between;
    }
}

static void bench(const char *folder, size_t updates)
{
    ours o;
    theirs l = {0};
    sdb_memory used;
    ours_open(&o);
    theirs_open(&l, folder);
    sdb_memory_used(o.db, &used);
    uint64_t first = used.live, lmdb_first = theirs_bytes(&l);
    double most = 1;
    printf("%10s | %7s %7s %7s %6s %7s | %7s %6s %7s | %5s\n", "updates", "live", "retired", "mapped",
           "/start", "k/s", "lmdb", "/start", "k/s", "ratio");
    for (int line = 0; line <= LINES; line++) {
        double ns = 0, lmdb_ns = 0, n = (double)updates / LINES;
        if (line > 0)
            run(&o, &l, updates / LINES, &ns, &lmdb_ns);
        sdb_memory_used(o.db, &used);
        double times = (double)used.live / (double)first;
        most = times > most ? times : most;
        printf("%10zu | %7.1f %7.1f %7.1f %6.2f", updates / LINES * (size_t)line, mb(used.live),
               mb(used.retired), mb(used.mapped), times);
        if (line > 0)
            printf(" %7.0f", n / ns * 1e6);
        else
            printf(" %7s", "");
        printf(" | %7.1f %6.1f", mb(theirs_bytes(&l)),
               (double)theirs_bytes(&l) / (double)lmdb_first);
        if (line == 0 || l.is_full)
            printf(" %7s |\n", l.is_full ? "full" : "");
        else
            printf(" %7.0f | %5.1f\n", n / lmdb_ns * 1e6, lmdb_ns / ns);
        fflush(stdout);
    }
    printf("ours at its most: %.2f times what it was at the start (reach %.1f)\n", most, REACH);
    theirs_close(&l);
    ours_close(&o);
}

int main(int argc, char **argv)
{
    size_t updates = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 2000000;
    char folder[] = "/dev/shm/statedb-bench-XXXXXX", path[300];
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    bench(folder, updates);
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/lock.mdb", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}
