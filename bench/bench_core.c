/* bench_core.c - the core alone: insert, get, iterate and delete at several sizes, beside LMDB.
**
** Both hold rows of an 8-byte key and an 8-byte value in one ordered table, written in one
** transaction and read through one snapshot; LMDB (a memory-mapped B+tree, the same promises to
** readers) runs on /dev/shm without syncing. Each figure is the median of several rounds in which
** the two take turns, in nanoseconds of CPU time an operation; the last column is ours / theirs.
**
**     bench_core [LARGEST]      sizes 1000, 100000, 10000000 up to LARGEST */
#include "bench.h"

#include "../core/statedb.h"

#include <lmdb.h>
#include <string.h>
#include <unistd.h>

enum { INSERT, GET, ITERATE, DELETE, STEPS, ROUNDS_MAX = 15 };
static const char *const STEP[] = {"insert", "get", "iterate", "delete"};

/* The keys of one run: 0..n-1 in order, or n random numbers. */
static int64_t *keys_make(size_t n, bool is_random)
{
    int64_t *key = malloc(n * sizeof *key);
    for (size_t i = 0; i < n; i++)
        key[i] = is_random ? (int64_t)(rnd() >> 1) : (int64_t)i;
    return key;
}

static uint64_t sum_expected;

static void check_sum(uint64_t sum)
{
    if (sum != sum_expected) {
        fprintf(stderr, "the rows read are not the rows written\n");
        exit(1);
    }
}

/* ---------------------------------------------------------------- ours */

static void run_statedb(const int64_t *key, const int64_t *lookup, size_t n, int reads, double *ns,
                        double *bytes)
{
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    sdb_memory used;
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0};
    MUST(sdb_open(&db));
    MUST(sdb_snapshot_new(db, &snap));
    MUST(sdb_cursor_new(db, &cur));
    MUST(sdb_txn_begin(db, &txn));
    MUST(sdb_txn_create_table(txn, &def, &t));
    double start = now();
    for (size_t i = 0; i < n; i++) {
        sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = key[i]}};
        MUST(sdb_put(txn, t, key[i], v));
    }
    MUST(sdb_txn_commit(txn));
    ns[INSERT] = (now() - start) / (double)n;
    sdb_memory_used(db, &used);
    *bytes = (double)used.live / (double)n;

    sdb_snapshot_take(snap);
    MUST(sdb_cursor_open(cur, snap, t, SDB_BY_ROWID));
    start = now();
    for (int r = 0; r < reads; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            sdb_value k = {.type = SDB_INTEGER, .u.i = lookup[i]};
            sdb_range one = {.eq = &k, .n_eq = 1};
            MUST(sdb_cursor_seek(cur, &one));
            sum += (uint64_t)sdb_row_value(t, sdb_cursor_row(cur), 1).u.i;
        }
        check_sum(sum);
    }
    ns[GET] = (now() - start) / (double)n / reads;
    start = now();
    for (int r = 0; r < reads; r++) {
        uint64_t sum = 0;
        sdb_range all = {0};
        for (int rc = sdb_cursor_seek(cur, &all); rc == SDB_OK; rc = sdb_cursor_next(cur))
            sum += (uint64_t)sdb_row_value(t, sdb_cursor_row(cur), 1).u.i;
        check_sum(sum);
    }
    ns[ITERATE] = (now() - start) / (double)n / reads;
    sdb_cursor_close(cur);
    sdb_snapshot_drop(snap);

    MUST(sdb_txn_begin(db, &txn));
    start = now();
    for (size_t i = 0; i < n; i++)
        MUST(sdb_delete(txn, t, sdb_txn_get(txn, t, lookup[i])));
    MUST(sdb_txn_commit(txn));
    ns[DELETE] = (now() - start) / (double)n;
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    sdb_unref(db);
}

/* ---------------------------------------------------------------- LMDB */

static MDB_val key_of(uint64_t *room, int64_t key)
{
    *room = __builtin_bswap64((uint64_t)key);
    return (MDB_val){8, room};
}

static void run_lmdb(const char *folder, const int64_t *key, const int64_t *lookup, size_t n,
                     int reads, double *ns, double *bytes)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cur;
    MDB_val k, v;
    MDB_stat stat;
    uint64_t room;
    MUST(mdb_env_create(&env));
    MUST(mdb_env_set_mapsize(env, (size_t)4 << 30));
    MUST(mdb_env_open(env, folder, MDB_NOSYNC | MDB_WRITEMAP | MDB_NOMETASYNC, 0600));
    MUST(mdb_txn_begin(env, NULL, 0, &txn));
    MUST(mdb_dbi_open(txn, NULL, MDB_CREATE, &dbi));
    double start = now();
    for (size_t i = 0; i < n; i++) {
        int64_t value = key[i];
        k = key_of(&room, key[i]);
        v = (MDB_val){8, &value};
        MUST(mdb_put(txn, dbi, &k, &v, 0));
    }
    MUST(mdb_txn_commit(txn));
    ns[INSERT] = (now() - start) / (double)n;

    MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    MUST(mdb_stat(txn, dbi, &stat));
    *bytes = (double)(stat.ms_branch_pages + stat.ms_leaf_pages) * stat.ms_psize / (double)n;
    start = now();
    for (int r = 0; r < reads; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            int64_t value;
            k = key_of(&room, lookup[i]);
            MUST(mdb_get(txn, dbi, &k, &v));
            memcpy(&value, v.mv_data, 8);
            sum += (uint64_t)value;
        }
        check_sum(sum);
    }
    ns[GET] = (now() - start) / (double)n / reads;
    MUST(mdb_cursor_open(txn, dbi, &cur));
    start = now();
    for (int r = 0; r < reads; r++) {
        uint64_t sum = 0;
        for (int rc = mdb_cursor_get(cur, &k, &v, MDB_FIRST); rc == 0;
             rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT)) {
            int64_t value;
            memcpy(&value, v.mv_data, 8);
            sum += (uint64_t)value;
        }
        check_sum(sum);
    }
    ns[ITERATE] = (now() - start) / (double)n / reads;
    mdb_cursor_close(cur);
    mdb_txn_abort(txn);

    MUST(mdb_txn_begin(env, NULL, 0, &txn));
    start = now();
    for (size_t i = 0; i < n; i++) {
        k = key_of(&room, lookup[i]);
        MUST(mdb_del(txn, dbi, &k, NULL));
    }
    MUST(mdb_txn_commit(txn));
    ns[DELETE] = (now() - start) / (double)n;
    mdb_env_close(env);
}

static void folder_empty(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/lock.mdb", folder);
    unlink(path);
}

/* ---------------------------------------------------------------- the table */

static void bench(const char *folder, size_t n, bool is_random)
{
    int rounds = n <= 1000 ? ROUNDS_MAX : n <= 100000 ? 7 : 3;
    int reads = n <= 1000 ? 200 : n <= 100000 ? 10 : 1, repeat = n <= 1000 ? 20 : 1;
    static double ours[STEPS][ROUNDS_MAX], theirs[STEPS][ROUNDS_MAX];
    double bytes = 0, lmdb_bytes = 0;
    int64_t *key = keys_make(n, is_random), *lookup = malloc(n * sizeof *lookup);
    memcpy(lookup, key, n * sizeof *key);
    if (is_random)
        shuffle(lookup, n);
    sum_expected = 0;
    for (size_t i = 0; i < n; i++)
        sum_expected += (uint64_t)key[i];
    for (int r = 0; r < rounds; r++) {
        double a[STEPS], b[STEPS];
        for (int s = 0; s < STEPS; s++)
            ours[s][r] = theirs[s][r] = 0;
        for (int k = 0; k < repeat; k++) { /* small sizes: more of them, for the clock's sake */
            run_statedb(key, lookup, n, reads, a, &bytes);
            run_lmdb(folder, key, lookup, n, reads, b, &lmdb_bytes);
            folder_empty(folder);
            for (int s = 0; s < STEPS; s++) {
                ours[s][r] += a[s] / repeat;
                theirs[s][r] += b[s] / repeat;
            }
        }
    }
    for (int s = 0; s < STEPS; s++) {
        double a = median(ours[s], rounds), b = median(theirs[s], rounds);
        printf("%-8s %9zu %-10s %9.1f %9.1f %8.2f\n", STEP[s], n,
               is_random ? "random" : "sequential", a, b, a / b);
    }
    printf("%-8s %9zu %-10s %9.1f %9.1f %8.2f\n", "bytes", n, is_random ? "random" : "sequential",
           bytes, lmdb_bytes, bytes / lmdb_bytes);
    fflush(stdout);
    free(key);
    free(lookup);
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 10000000;
    char folder[] = "/dev/shm/statedb-bench-XXXXXX";
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    printf("%-8s %9s %-10s %9s %9s %8s\n", "", "rows", "keys", "statedb", "lmdb", "ratio");
    for (size_t n = 1000; n <= largest; n *= 100) {
        bench(folder, n, true);
        bench(folder, n, false);
    }
    folder_empty(folder);
    rmdir(folder);
    return 0;
}
