/* bench_core.c - the core alone: insert, get, iterate and delete at several sizes, beside LMDB and beside
** a plain tree without versions.
**
** All hold rows of an 8-byte key and an 8-byte value in order. Ours and LMDB's are written in one
** transaction and read through one snapshot; LMDB (a memory-mapped B+tree, the same promises to readers)
** runs on /dev/shm without syncing. The plain tree (art.h) is changed in place by its only user and
** promises nothing: the floor. `get many` is ours for many keys in one call, beside gets one by one of
** the others; it allocates nothing. Each figure is the median of several rounds in which they take
** turns, in nanoseconds of CPU time an operation; the ratios are ours / theirs.
**
**     bench_core [LARGEST]      sizes 1000, 100000, 10000000 up to LARGEST */
#include "bench.h"

#include "../core/mem.h"
#include "../core/statedb.h"
#include "art.h"

#include <lmdb.h>
#include <string.h>
#include <unistd.h>

enum { INSERT, GET, GET_MANY, ITERATE, DELETE, BYTES, FIGURES, ROUNDS_MAX = 15 };
static const char *const FIGURE[] = {"insert", "get", "get many", "iterate", "delete", "bytes"};

/* What one of them is to do: write the keys, read and delete them in the order of `lookup`; so many
** reads. */
typedef struct work {
    const int64_t *key, *lookup;
    size_t n;
    int reads;
} work;

/* The keys of one run: 0..n-1 in order, or n random numbers. */
static int64_t *keys_make(size_t n, bool is_random)
{
    int64_t *key = malloc(n * sizeof *key);
    for (size_t i = 0; i < n; i++)
        key[i] = is_random ? (int64_t)(rnd() >> 1) : (int64_t)i;
    return key;
}

static void must(bool ok)
{
    if (!ok) {
        fprintf(stderr, "the rows read are not the rows written\n");
        exit(1);
    }
}

static uint64_t sum_expected;

/* ---------------------------------------------------------------- ours */

static void run_statedb(const work *w, double *out)
{
    size_t n = w->n;
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
        sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = w->key[i]}};
        MUST(sdb_put(txn, t, w->key[i], v));
    }
    MUST(sdb_txn_commit(txn));
    out[INSERT] = (now() - start) / (double)n;
    sdb_memory_used(db, &used);
    out[BYTES] = (double)used.live / (double)n;

    sdb_snapshot_take(snap);
    MUST(sdb_cursor_open(cur, snap, t, SDB_BY_ROWID));
    start = now();
    for (int r = 0; r < w->reads; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            sdb_value k = {.type = SDB_INTEGER, .u.i = w->lookup[i]};
            sdb_range one = {.eq = &k, .n_eq = 1};
            MUST(sdb_cursor_seek(cur, &one));
            sum += (uint64_t)sdb_row_value(t, sdb_cursor_row(cur), 1).u.i;
        }
        must(sum == sum_expected);
    }
    out[GET] = (now() - start) / (double)n / w->reads;
    int64_t blocks = sdb_mem_blocks();
    start = now();
    for (int r = 0; r < w->reads; r++) {
        enum { MANY = 1000 };
        const sdb_row *row[MANY];
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i += MANY) {
            sdb_snapshot_get_many(snap, t, w->lookup + i, MANY, row);
            for (int k = 0; k < MANY; k++)
                sum += (uint64_t)sdb_row_value(t, row[k], 1).u.i;
        }
        must(sum == sum_expected);
    }
    out[GET_MANY] = (now() - start) / (double)n / w->reads;
    must(sdb_mem_blocks() == blocks);
    start = now();
    for (int r = 0; r < w->reads; r++) {
        uint64_t sum = 0;
        sdb_range all = {0};
        for (int rc = sdb_cursor_seek(cur, &all); rc == SDB_OK; rc = sdb_cursor_next(cur))
            sum += (uint64_t)sdb_row_value(t, sdb_cursor_row(cur), 1).u.i;
        must(sum == sum_expected);
    }
    out[ITERATE] = (now() - start) / (double)n / w->reads;
    sdb_cursor_close(cur);
    sdb_snapshot_drop(snap);

    MUST(sdb_txn_begin(db, &txn));
    start = now();
    for (size_t i = 0; i < n; i++)
        MUST(sdb_delete(txn, t, sdb_txn_get(txn, t, w->lookup[i])));
    MUST(sdb_txn_commit(txn));
    out[DELETE] = (now() - start) / (double)n;
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    sdb_unref(db);
}

/* ---------------------------------------------------------------- LMDB */

static char folder[] = "/dev/shm/statedb-bench-XXXXXX";

static void folder_empty(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/lock.mdb", folder);
    unlink(path);
}

static MDB_val key_of(uint64_t *room, int64_t key)
{
    *room = __builtin_bswap64((uint64_t)key);
    return (MDB_val){8, room};
}

static void run_lmdb(const work *w, double *out)
{
    size_t n = w->n;
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
        int64_t value = w->key[i];
        k = key_of(&room, w->key[i]);
        v = (MDB_val){8, &value};
        MUST(mdb_put(txn, dbi, &k, &v, 0));
    }
    MUST(mdb_txn_commit(txn));
    out[INSERT] = (now() - start) / (double)n;

    MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    MUST(mdb_stat(txn, dbi, &stat));
    out[BYTES] = (double)(stat.ms_branch_pages + stat.ms_leaf_pages) * stat.ms_psize / (double)n;
    start = now();
    for (int r = 0; r < w->reads; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            int64_t value;
            k = key_of(&room, w->lookup[i]);
            MUST(mdb_get(txn, dbi, &k, &v));
            memcpy(&value, v.mv_data, 8);
            sum += (uint64_t)value;
        }
        must(sum == sum_expected);
    }
    out[GET] = (now() - start) / (double)n / w->reads;
    MUST(mdb_cursor_open(txn, dbi, &cur));
    start = now();
    for (int r = 0; r < w->reads; r++) {
        uint64_t sum = 0;
        for (int rc = mdb_cursor_get(cur, &k, &v, MDB_FIRST); rc == 0;
             rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT)) {
            int64_t value;
            memcpy(&value, v.mv_data, 8);
            sum += (uint64_t)value;
        }
        must(sum == sum_expected);
    }
    out[ITERATE] = (now() - start) / (double)n / w->reads;
    mdb_cursor_close(cur);
    mdb_txn_abort(txn);

    MUST(mdb_txn_begin(env, NULL, 0, &txn));
    start = now();
    for (size_t i = 0; i < n; i++) {
        k = key_of(&room, w->lookup[i]);
        MUST(mdb_del(txn, dbi, &k, NULL));
    }
    MUST(mdb_txn_commit(txn));
    out[DELETE] = (now() - start) / (double)n;
    mdb_env_close(env);
    folder_empty();
}

/* ---------------------------------------------------------------- the plain tree */

typedef struct reading {
    uint64_t sum;
    uint8_t last[8];
    bool is_in_order;
} reading;

static void art_read(void *ctx, const art_leaf *leaf)
{
    reading *r = ctx;
    r->sum += leaf->value;
    r->is_in_order &= memcmp(r->last, leaf->key, 8) <= 0;
    memcpy(r->last, leaf->key, 8);
}

static void run_art(const work *w, double *out)
{
    art t = {0};
    size_t n = w->n;
    uint64_t key;
    double start = now();
    for (size_t i = 0; i < n; i++) {
        key = __builtin_bswap64((uint64_t)w->key[i]);
        art_put(&t, (const uint8_t *)&key, 8, (uint64_t)w->key[i]);
    }
    out[INSERT] = (now() - start) / (double)n;
    out[BYTES] = (double)t.bytes / (double)n;
    start = now();
    for (int r = 0; r < w->reads; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            key = __builtin_bswap64((uint64_t)w->lookup[i]);
            sum += *art_get(&t, (const uint8_t *)&key, 8);
        }
        must(sum == sum_expected);
    }
    out[GET] = (now() - start) / (double)n / w->reads;
    start = now();
    for (int r = 0; r < w->reads; r++) {
        reading all = {.is_in_order = true};
        art_each(t.root, art_read, &all);
        must(all.sum == sum_expected && all.is_in_order);
    }
    out[ITERATE] = (now() - start) / (double)n / w->reads;
    start = now();
    for (size_t i = 0; i < n; i++) {
        key = __builtin_bswap64((uint64_t)w->lookup[i]);
        must(art_del(&t, (const uint8_t *)&key, 8));
    }
    out[DELETE] = (now() - start) / (double)n;
    must(!t.root && t.bytes == 0);
}

/* ---------------------------------------------------------------- the table */

enum { OURS, LMDB, PLAIN, SIDES };

static void (*const RUN[SIDES])(const work *w, double *out) = {run_statedb, run_lmdb, run_art};

static void bench(size_t n, bool is_random)
{
    int rounds = n <= 1000 ? ROUNDS_MAX : n <= 100000 ? 7 : 1, repeat = n <= 1000 ? 10 : 1;
    static double all[SIDES][FIGURES][ROUNDS_MAX];
    int64_t *key = keys_make(n, is_random), *lookup = malloc(n * sizeof *lookup);
    work w = {key, lookup, n, n <= 1000 ? 50 : n <= 100000 ? 5 : 1};
    memcpy(lookup, key, n * sizeof *key);
    if (is_random)
        shuffle(lookup, n);
    sum_expected = 0;
    for (size_t i = 0; i < n; i++)
        sum_expected += (uint64_t)key[i];
    memset(all, 0, sizeof all);
    for (int r = 0; r < rounds; r++) {
        for (int k = 0; k < repeat; k++) { /* small sizes: more of them, for the clock's sake */
            for (int side = 0; side < SIDES; side++) {
                double out[FIGURES] = {0};
                RUN[side](&w, out);
                if (side != OURS)
                    out[GET_MANY] = out[GET];
                for (int f = 0; f < FIGURES; f++)
                    all[side][f][r] += out[f] / repeat;
            }
        }
    }
    for (int f = 0; f < FIGURES; f++) {
        double ours = median(all[OURS][f], rounds), lmdb = median(all[LMDB][f], rounds),
               plain = median(all[PLAIN][f], rounds);
        printf("%-8s %9zu %-10s %9.1f %9.1f %8.2f %9.1f %8.2f\n", FIGURE[f], n,
               is_random ? "random" : "sequential", ours, lmdb, ours / lmdb, plain, ours / plain);
    }
    fflush(stdout);
    free(key);
    free(lookup);
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 10000000;
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    printf("%-8s %9s %-10s %9s %9s %8s %9s %8s\n", "", "rows", "keys", "statedb", "lmdb", "ratio",
           "plain", "ratio");
    for (size_t n = 1000; n <= largest; n *= 100) {
        bench(n, true);
        bench(n, false);
    }
    rmdir(folder);
    return 0;
}
