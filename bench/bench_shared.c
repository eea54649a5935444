/* bench_shared.c - threads that share tables: a store, and what SQLite itself has for it - its memdb
** VFS, its shared cache, and a WAL file in memory (/dev/shm, without syncing).
**
** Each side has two databases of the same two tables. Every thread has a connection of its own. A read
** is one query, the rows of one group by an index; a write is a transaction that moves something
** between the rows of five groups, so each read knows which sum it must see. What is refused
** (SQLITE_BUSY, SQLITE_LOCKED) is counted and asked again at once, with no time-out; the time until it
** was done counts. Measured are
**
**     a reader alone
**     a reader beside a writer of the other database: what it costs that the machine does something else
**     a reader beside a writer of the same table
**     a writer alone; beside one of the other database; beside one of the other table
**
** The sides take turns in each, over some rounds. Rates are medians of the rounds, of what one thread
** does in a second of its own CPU time (what is refused costs that too; other programs on the machine
** do not); a ratio is the median of the rounds' ratios. Percentiles are of all rounds together, by the
** wall clock: the highest tell how long the machine left a thread waiting for a core.
**
**     bench_shared [ROUNDS [FILE]]      7 if not given; FILE gets the figures for shared.gp */
#include "bench.h"
#include "sql.h"

#include "../ext/statedb_static.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 100000, GROUP = 10, MOVES = 5, VALUE = 1000, AGE = 20000 };
enum { ROUNDS = 7, ROUNDS_MAX = 99, MS = 250 }; /* and how long a measurement takes */
enum { STATEDB, MEMDB, CACHE, WAL, SIDES };
static const char *const NAME[SIDES] = {"statedb, a store", "memdb VFS", "shared cache",
                                        "WAL, /dev/shm"};
static const double REACH = 0.95;

static char folder[] = "/dev/shm/statedb-bench-XXXXXX";
static int64_t id_of[ROWS]; /* of the row with k */

/* ---------------------------------------------------------------- databases */

static sqlite3 *connect(int side, int database)
{
    sqlite3 *db;
    char *name = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    switch (side) {
    case STATEDB:
        name = sqlite3_mprintf(":memory:");
        break;
    case MEMDB:
        name = sqlite3_mprintf("file:/bench%d?vfs=memdb", database);
        break;
    case CACHE:
        name = sqlite3_mprintf("file:bench%d?mode=memory&cache=shared", database);
        break;
    case WAL:
        name = sqlite3_mprintf("%s/%d", folder, database);
        break;
    }
    MUST(sqlite3_open_v2(name, &db, flags, NULL));
    sqlite3_free(name);
    if (side == STATEDB)
        MUST(sqlite3_statedb_static_init(db, NULL, NULL));
    if (side == WAL)
        execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    return db;
}

static void join(sqlite3 *db, int side, int database)
{
    if (side != STATEDB)
        return;
    char *sql = sqlite3_mprintf("SELECT statedb_attach('bench%d')", database);
    execute(db, sql);
    sqlite3_free(sql);
}

/* A database and its rows; it lives while the connection does. */
static sqlite3 *make(int side, int database)
{
    sqlite3 *db = connect(side, database);
    for (int t = 0; t < 2; t++) {
        sqlite3_stmt *insert;
        char *sql =
            side == STATEDB
                ? sqlite3_mprintf(
                      "CREATE VIRTUAL TABLE temp.t%d USING statedb(id INTEGER PRIMARY KEY,"
                      " k INTEGER, v INTEGER, INDEX by_k%d(k), store='bench%d')",
                      t, t, database)
                : sqlite3_mprintf("CREATE TABLE t%d(id INTEGER PRIMARY KEY, k INTEGER, v INTEGER);"
                                  "CREATE INDEX by_k%d ON t%d(k)",
                                  t, t, t);
        execute(db, sql);
        sqlite3_free(sql);
        sql = sqlite3_mprintf("INSERT INTO t%d VALUES (?, ?, %d)", t, VALUE);
        MUST(sqlite3_prepare_v2(db, sql, -1, &insert, NULL));
        sqlite3_free(sql);
        execute(db, "BEGIN");
        for (int64_t k = 0; k < ROWS; k++) {
            MUST(sqlite3_bind_int64(insert, 1, id_of[k]));
            MUST(sqlite3_bind_int64(insert, 2, k));
            sqlite3_step(insert);
            MUST(sqlite3_reset(insert));
        }
        execute(db, "COMMIT");
        MUST(sqlite3_finalize(insert));
    }
    return db;
}

/* ---------------------------------------------------------------- times */

/* Nanoseconds by size: 16 steps between a power of two and the next, so 6 percent apart. */
enum { STEPS = 16, BUCKETS = 40 * STEPS };
typedef struct times {
    uint64_t n, count[BUCKETS];
} times;

static void times_add(times *t, uint64_t ns)
{
    int power = ns < STEPS ? 4 : 63 - __builtin_clzll(ns);
    uint64_t at = ns < STEPS ? ns : (uint64_t)(power - 3) * STEPS + (ns >> (power - 4)) - STEPS;
    t->count[at < BUCKETS ? at : BUCKETS - 1]++;
    t->n++;
}

static void times_merge(times *t, const times *from)
{
    t->n += from->n;
    for (int i = 0; i < BUCKETS; i++)
        t->count[i] += from->count[i];
}

/* Microseconds that so many of all took at most. */
static double times_at(const times *t, double part)
{
    double passed = 0;
    for (uint64_t i = 0; i < BUCKETS; i++) {
        passed += (double)t->count[i];
        if (passed >= part * (double)t->n) {
            uint64_t power = i / STEPS + 3;
            uint64_t ns = i < STEPS ? i : (i % STEPS + STEPS + 1) << (power - 4);
            return (double)ns / 1e3;
        }
    }
    return 0;
}

static double clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---------------------------------------------------------------- readers and writers */

typedef struct actor {
    sqlite3 *db;
    sqlite3_stmt *read, *begin, *update, *commit, *rollback;
    uint64_t random;
    bool is_writer;
    pthread_t thread;
    double n, asked, refused, wall, cpu; /* of the last measurement */
    times times;
} actor;

static pthread_barrier_t start;
static atomic_bool stop;

static uint64_t actor_random(actor *a)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return a->random;
}

static sqlite3_stmt *prepare_on(sqlite3 *db, const char *format, int table)
{
    char *sql = sqlite3_mprintf(format, table);
    sqlite3_stmt *stmt = prepare(db, sql);
    sqlite3_free(sql);
    return stmt;
}

static void actor_open(actor *a, int side, int database, int table, bool is_writer)
{
    memset(a, 0, sizeof *a);
    a->db = connect(side, database);
    join(a->db, side, database);
    a->is_writer = is_writer;
    a->random = rnd();
    a->read = prepare_on(a->db, "SELECT v FROM t%d WHERE k BETWEEN ? AND ?", table);
    a->begin = prepare_on(a->db, "BEGIN IMMEDIATE", 0);
    a->update = prepare_on(a->db, "UPDATE t%d SET v = v + ? WHERE id = ?", table);
    a->commit = prepare_on(a->db, "COMMIT", 0);
    a->rollback = prepare_on(a->db, "ROLLBACK", 0);
}

static void actor_close(actor *a)
{
    sqlite3_finalize(a->read);
    sqlite3_finalize(a->begin);
    sqlite3_finalize(a->update);
    sqlite3_finalize(a->commit);
    sqlite3_finalize(a->rollback);
    MUST(sqlite3_close(a->db));
}

/* Run a statement until it is not refused; false when the time was over before. `sum` adds its
** rows. */
static bool run(actor *a, sqlite3_stmt *stmt, int64_t *sum)
{
    for (;;) {
        int rc, rows = 0;
        int64_t total = 0;
        a->asked++;
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            total += sqlite3_column_int64(stmt, 0);
            rows++;
        }
        sqlite3_reset(stmt);
        if (rc == SQLITE_DONE) {
            if (sum)
                *sum = rows == GROUP ? total : -1;
            return true;
        }
        if ((rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED) {
            fprintf(stderr, "%s: %s\n", sqlite3_sql(stmt), sqlite3_errmsg(a->db));
            exit(1);
        }
        a->refused++;
        if (atomic_load(&stop))
            return false;
        sched_yield();
    }
}

static bool read_group(actor *a)
{
    int64_t sum, k = (int64_t)(actor_random(a) % (ROWS / GROUP)) * GROUP;
    sqlite3_bind_int64(a->read, 1, k);
    sqlite3_bind_int64(a->read, 2, k + GROUP - 1);
    if (!run(a, a->read, &sum))
        return false;
    if (sum != GROUP * VALUE) {
        fprintf(stderr, "a reader saw a half of a transaction\n");
        exit(1);
    }
    return true;
}

static bool add(actor *a, int64_t k, int amount)
{
    sqlite3_bind_int64(a->update, 1, amount);
    sqlite3_bind_int64(a->update, 2, id_of[k]);
    return run(a, a->update, NULL);
}

static bool write_groups(actor *a)
{
    if (!run(a, a->begin, NULL))
        return false;
    bool good = true;
    for (int i = 0; good && i < MOVES; i++) {
        int64_t k = (int64_t)(actor_random(a) % (ROWS / GROUP)) * GROUP + i;
        good = add(a, k, -1) && add(a, k + MOVES, 1);
    }
    if (good && run(a, a->commit, NULL))
        return true;
    run(a, a->rollback, NULL);
    return false;
}

static void *work(void *arg)
{
    actor *a = arg;
    pthread_barrier_wait(&start);
    double cpu = clock_now(CLOCK_THREAD_CPUTIME_ID);
    double first = clock_now(CLOCK_MONOTONIC), last = first;
    do {
        bool done = a->is_writer ? write_groups(a) : read_group(a);
        double t = clock_now(CLOCK_MONOTONIC);
        /* What could not be done to the end has waited so long at least. */
        times_add(&a->times, (uint64_t)(t - last));
        a->n += done;
        last = t;
    } while (!atomic_load_explicit(&stop, memory_order_relaxed));
    a->wall = last - first;
    a->cpu = clock_now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return NULL;
}

/* Rows lie in the order in which they were written: let that be as it is after some time. */
static void age(int side)
{
    for (int i = 0; i < 4; i++) {
        actor a;
        actor_open(&a, side, i / 2, i % 2, true);
        for (int n = 0; n < AGE; n++)
            write_groups(&a);
        actor_close(&a);
    }
}

/* ---------------------------------------------------------------- measurements */

enum { READER, READER_STRANGER, READER_WRITER, WRITER, WRITER_STRANGER, WRITERS, KINDS };
static const struct {
    bool reads, has_other;
    int other_database, other_table;
} KIND[KINDS] = {
    [READER] = {.reads = true},
    [READER_STRANGER] = {.reads = true, .has_other = true, .other_database = 1},
    [READER_WRITER] = {.reads = true, .has_other = true},
    [WRITER] = {0},
    [WRITER_STRANGER] = {.has_other = true, .other_database = 1, .other_table = 1},
    [WRITERS] = {.has_other = true, .other_table = 1},
};

/* Of one side and kind: of a reader, or of all writers; and of the writer beside a reader. */
typedef struct figures {
    double wall[ROUNDS_MAX], cpu[ROUNDS_MAX], other_cpu[ROUNDS_MAX]; /* done in a second */
    double asked, refused, other_asked, other_refused;
    times times;
} figures;

static figures result[SIDES][KINDS];

static void measure(int side, int kind, int round)
{
    figures *f = &result[side][kind];
    actor a[2];
    int n = KIND[kind].has_other ? 2 : 1;
    actor_open(&a[0], side, 0, 0, !KIND[kind].reads);
    if (n == 2)
        actor_open(&a[1], side, KIND[kind].other_database, KIND[kind].other_table, true);
    atomic_store(&stop, false);
    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++)
        MUST(pthread_create(&a[i].thread, NULL, work, &a[i]));
    pthread_barrier_wait(&start);
    usleep(MS * 1000);
    atomic_store(&stop, true);
    for (int i = 0; i < n; i++)
        pthread_join(a[i].thread, NULL);
    pthread_barrier_destroy(&start);

    f->wall[round] = a[0].n / a[0].wall * 1e9;
    f->cpu[round] = a[0].n / a[0].cpu * 1e9;
    f->asked += a[0].asked;
    f->refused += a[0].refused;
    times_merge(&f->times, &a[0].times);
    if (n == 2) {
        f->other_cpu[round] = a[1].n / a[1].cpu * 1e9;
        f->other_asked += a[1].asked;
        f->other_refused += a[1].refused;
    }
    if (n == 2 && !KIND[kind].reads) {
        f->wall[round] += a[1].n / a[1].wall * 1e9;
        f->cpu[round] = (a[0].n + a[1].n) / (a[0].cpu + a[1].cpu) * 1e9;
    }
    for (int i = 0; i < n; i++)
        actor_close(&a[i]);
}

/* ---------------------------------------------------------------- the tables */

static double median_of(const double *at, int n)
{
    double copy[ROUNDS_MAX];
    memcpy(copy, at, (size_t)n * sizeof *at);
    return median(copy, n);
}

static double ratio(const double *a, const double *b, int n)
{
    double r[ROUNDS_MAX];
    for (int i = 0; i < n; i++)
        r[i] = a[i] / b[i];
    return median(r, n);
}

static const double PART[] = {0.5, 0.99, 0.999};
enum { PARTS = sizeof PART / sizeof *PART };

static void print_times(const times *t)
{
    for (int i = 0; i < PARTS; i++)
        printf(" %8.1f", times_at(t, PART[i]));
}

static void print_readers(int rounds)
{
    printf(
        "%-16s | k reads in a CPU second: | with / beside | with /  | k commits | refused, o/oo\n"
        "%-16s |   alone  beside    with  |   CPU    wall |   alone |   a CPU s | reads writes\n",
        "a reader", "");
    for (int s = 0; s < SIDES; s++) {
        const figures *alone = &result[s][READER], *beside = &result[s][READER_STRANGER];
        const figures *with = &result[s][READER_WRITER];
        printf("%-16s | %7.0f %7.0f %7.0f  | %5.2f   %5.2f |   %5.2f | %9.1f | %5.0f %6.0f\n",
               NAME[s], median_of(alone->cpu, rounds) / 1e3, median_of(beside->cpu, rounds) / 1e3,
               median_of(with->cpu, rounds) / 1e3, ratio(with->cpu, beside->cpu, rounds),
               ratio(with->wall, beside->wall, rounds), ratio(with->cpu, alone->cpu, rounds),
               median_of(with->other_cpu, rounds) / 1e3, with->refused / with->asked * 1e3,
               with->other_refused / with->other_asked * 1e3);
    }
    printf("\n%-16s |    alone: p50 p99 p99.9     |            beside          |"
           "             with\n",
           "a read, us");
    for (int s = 0; s < SIDES; s++) {
        printf("%-16s |", NAME[s]);
        print_times(&result[s][READER].times);
        printf(" |");
        print_times(&result[s][READER_STRANGER].times);
        printf(" |");
        print_times(&result[s][READER_WRITER].times);
        printf("\n");
    }
}

static void print_writers(int rounds)
{
    printf("\n%-16s | k commits in a CPU second:   | two / beside |\n"
           "%-16s |   alone  other db  other tbl |  CPU    wall | refused, o/oo |"
           " us: p50 p99 p99.9\n",
           "two writers", "");
    for (int s = 0; s < SIDES; s++) {
        const figures *two = &result[s][WRITERS], *beside = &result[s][WRITER_STRANGER];
        printf("%-16s | %7.1f %9.1f %10.1f | %5.2f  %5.2f | %13.0f |", NAME[s],
               median_of(result[s][WRITER].cpu, rounds) / 1e3, median_of(beside->cpu, rounds) / 1e3,
               median_of(two->cpu, rounds) / 1e3, ratio(two->cpu, beside->cpu, rounds),
               ratio(two->wall, beside->wall, rounds),
               (two->refused + two->other_refused) / (two->asked + two->other_asked) * 1e3);
        print_times(&two->times);
        printf("\n");
    }
    const figures *f = result[STATEDB];
    printf("\nstatedb, with / beside: %.2f (reach %.2f); refused: %.0f\n",
           ratio(f[READER_WRITER].cpu, f[READER_STRANGER].cpu, rounds), REACH,
           f[READER_WRITER].refused + f[READER_WRITER].other_refused + f[WRITERS].refused +
               f[WRITERS].other_refused);
}

/* The figures for the plot: a block for the bars, then one for each side's times. */
static int save(const char *path, int rounds)
{
    static const double AT[] = {0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999};
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return 1;
    }
    fprintf(file, "# in a CPU second: k reads alone, beside, with; k commits alone, beside, two\n");
    for (int s = 0; s < SIDES; s++) {
        fprintf(file, "\"%s\"", NAME[s]);
        for (int kind = 0; kind < KINDS; kind++)
            fprintf(file, " %.1f", median_of(result[s][kind].cpu, rounds) / 1e3);
        fprintf(file, "\n");
    }
    for (int s = 0; s < SIDES; s++) {
        fprintf(file,
                "\n\n# %s: one in so many reads takes more microseconds than, alone and with\n",
                NAME[s]);
        for (size_t i = 0; i < sizeof AT / sizeof *AT; i++)
            fprintf(file, "%.0f %.2f %.2f\n", 1 / (1 - AT[i]),
                    times_at(&result[s][READER].times, AT[i]),
                    times_at(&result[s][READER_WRITER].times, AT[i]));
    }
    return fclose(file) != 0;
}

static void remove_files(void)
{
    static const char *const END[] = {"", "-wal", "-shm"};
    char path[300];
    for (int database = 0; database < 2; database++)
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%d%s", folder, database, END[i]);
            unlink(path);
        }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    sqlite3 *keep[SIDES][2];
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    atexit(remove_files);
    for (int64_t k = 0; k < ROWS; k++)
        id_of[k] = k + 1;
    shuffle(id_of, ROWS);
    for (int s = 0; s < SIDES; s++)
        for (int d = 0; d < 2; d++)
            keep[s][d] = make(s, d);
    for (int s = 0; s < SIDES; s++)
        age(s);
    for (int round = 0; round < rounds; round++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int s = 0; s < SIDES; s++)
                measure(s, kind, round);
    print_readers(rounds);
    print_writers(rounds);
    for (int s = 0; s < SIDES; s++)
        for (int d = 0; d < 2; d++)
            MUST(sqlite3_close(keep[s][d]));
    return argc > 2 ? save(argv[2], rounds) : 0;
}
