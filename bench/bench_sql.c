/* bench_sql.c - statements on a statedb table, beside the same statements on a native table.
**
** Two connections to ":memory:", one with native tables and one with statedb tables, hold the same
** rows under the same indexes:
**
**     t    id INTEGER PRIMARY KEY, k INTEGER, v TEXT; ids in order, k random, indexed
**     u    the same columns; v is UNIQUE, and comes in random order
**
** and the rows that joins begin with, each of them that of a row of t, in random order:
**
**     outside         id, k
**     outside_native  the same, an ordinary table on both sides
**
** A piece of work is one prepared statement, run again and again with other arguments. The two take
** turns at each piece, and must answer the same rows in the same order; after a write their tables
** are compared. Every round begins with new connections. A figure is the median of the rounds, in
** nanoseconds of CPU time an operation; then come ours / theirs, and the ratio to reach, if one is
** set.
**
**     bench_sql [LARGEST]      sizes 10000, 1000000 up to LARGEST */
#include "bench.h"
#include "sql.h"

#include "../ext/statedb_static.h"

#include <stdbool.h>
#include <string.h>

enum { NATIVE, STATEDB, SIDES };
enum { MANY = 100000, RANGE = 100, ROUNDS_MAX = 9 };
enum { TEXT = 15, OWN = 8 + 8 + TEXT }; /* bytes of v, and of a row's values */

static const char *const SCHEMA[SIDES] = {
    "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, v TEXT);"
    "CREATE INDEX by_k ON t (k);"
    "CREATE TABLE u (id INTEGER PRIMARY KEY, k INTEGER, v TEXT UNIQUE);"
    "CREATE TABLE outside (id INTEGER, k INTEGER);",

    "CREATE VIRTUAL TABLE t USING statedb (id INTEGER PRIMARY KEY, k INTEGER, v TEXT,"
    " INDEX by_k (k));"
    "CREATE VIRTUAL TABLE u USING statedb (id INTEGER PRIMARY KEY, k INTEGER, v TEXT UNIQUE);"
    "CREATE VIRTUAL TABLE outside USING statedb (id INTEGER, k INTEGER);",
};

/* ---------------------------------------------------------------- the rows */

/* Row i is (i + 1, number[i], text[i]); in u it has another row's text. */
static size_t n;      /* rows */
static size_t n_some; /* and so many more, for the end: no more than n, nor than MANY */
static int64_t *number, *sorted;
static char (*text)[TEXT + 1];
static int64_t *order; /* 0..n-1, shuffled */

/* Arguments in the order in which they are used, lest a run waits for them: those of row order[i], and the
** text of row order[order[i]]. */
static int64_t *number_in_turn;
static char (*text_in_turn)[TEXT + 1], (*text_in_turns)[TEXT + 1];

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void rows_make(void)
{
    size_t all = n + n_some;
    number = malloc(all * sizeof *number);
    text = malloc(all * sizeof *text);
    sorted = malloc(n * sizeof *sorted);
    order = malloc(n * sizeof *order);
    number_in_turn = malloc(n * sizeof *number_in_turn);
    text_in_turn = malloc(n * sizeof *text_in_turn);
    text_in_turns = malloc(n * sizeof *text_in_turns);
    for (size_t i = 0; i < all; i++) {
        number[i] = (int64_t)(rnd() >> 33);
        snprintf(text[i], sizeof text[i], "value-%09u", (unsigned)(i + 1) % 1000000000);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (int64_t)i;
    shuffle(order, n);
    memcpy(sorted, number, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_int64);
    for (size_t i = 0; i < n; i++) {
        number_in_turn[i] = number[order[i]];
        memcpy(text_in_turn[i], text[order[i]], sizeof *text);
        memcpy(text_in_turns[i], text[order[order[i]]], sizeof *text);
    }
}

static void rows_free(void)
{
    free(number);
    free(text);
    free(sorted);
    free(order);
    free(number_in_turn);
    free(text_in_turn);
    free(text_in_turns);
}

/* ---------------------------------------------------------------- the arguments of run i */

/* Some row; all of them before one comes again. */
static size_t pick(size_t i)
{
    return (size_t)order[i % n];
}

/* Some row's text; when the row comes again, another one. */
static size_t pick_text(size_t i)
{
    return (i + i / n) % n;
}

static void bind_text(sqlite3_stmt *stmt, int at, const char *v)
{
    MUST(sqlite3_bind_text(stmt, at, v, TEXT, SQLITE_STATIC));
}

static void set_id(sqlite3_stmt *stmt, size_t i)
{
    MUST(sqlite3_bind_int64(stmt, 1, (int64_t)pick(i) + 1));
}

static void set_k(sqlite3_stmt *stmt, size_t i)
{
    MUST(sqlite3_bind_int64(stmt, 1, number_in_turn[i % n]));
}

static void set_v(sqlite3_stmt *stmt, size_t i)
{
    bind_text(stmt, 1, text_in_turns[i % n]);
}

static void set_ids(sqlite3_stmt *stmt, size_t i)
{
    int64_t first = (int64_t)(pick(i) % (n - RANGE));
    MUST(sqlite3_bind_int64(stmt, 1, first + 1));
    MUST(sqlite3_bind_int64(stmt, 2, first + RANGE));
}

static void set_ks(sqlite3_stmt *stmt, size_t i)
{
    size_t first = pick(i) % (n - RANGE);
    MUST(sqlite3_bind_int64(stmt, 1, sorted[first]));
    MUST(sqlite3_bind_int64(stmt, 2, sorted[first + RANGE - 1]));
}

static void set_row(sqlite3_stmt *stmt, size_t i)
{
    MUST(sqlite3_bind_int64(stmt, 1, (int64_t)i + 1));
    MUST(sqlite3_bind_int64(stmt, 2, number[i]));
    bind_text(stmt, 3, text[i]);
}

static void set_row_of_u(sqlite3_stmt *stmt, size_t i)
{
    set_row(stmt, i);
    bind_text(stmt, 3, text_in_turn[i]);
}

static void set_new_row(sqlite3_stmt *stmt, size_t i)
{
    set_row(stmt, n + i);
}

static void set_id_and_v(sqlite3_stmt *stmt, size_t i)
{
    set_id(stmt, i);
    bind_text(stmt, 2, text[pick_text(i)]);
}

static void set_k_and_v(sqlite3_stmt *stmt, size_t i)
{
    set_k(stmt, i);
    bind_text(stmt, 2, text[n - 1 - pick_text(i)]);
}

/* ---------------------------------------------------------------- the work */

/* How often the statement runs: for each row once, for n_some of them once, MANY times, or for
** MANY / 50 ranges. A run of the others is an operation for each row, of t or of outside; of the last
** there is one, and of the two before as many as make MANY operations. */
enum { ALL, ONCE, POINT, RANGES, SCAN, JOIN, WHOLE };
enum { AUTOCOMMIT, TXN };

#define ADD(table) "INSERT INTO " table " VALUES (?1, ?2, ?3)"
#define UPDATE(key) "UPDATE t SET v = ?2 WHERE " key " = ?1"
#define BETWEEN(key) " FROM t WHERE " key " BETWEEN ?1 AND ?2 ORDER BY " key
#define TABLE(table) "SELECT id, k, v FROM " table

static const struct work {
    const char *name;
    double reach; /* the ratio to reach; 0: none is set */
    int runs, mode;
    void (*set)(sqlite3_stmt *stmt, size_t i);
    const char *sql;
    const char *columns; /* of the answer: i integer, v text */
    const char *after;   /* of a write: what the table is now */
} WORK[] = {
    {"INSERT, one txn, INDEX on k", .35, ALL, TXN, set_row, ADD("t"), "", TABLE("t")},
    {"INSERT, one txn, UNIQUE v", .35, ALL, TXN, set_row_of_u, ADD("u"), "", TABLE("u")},
    {"point by id", .50, POINT, AUTOCOMMIT, set_id, "SELECT v FROM t WHERE id = ?1", "v", NULL},
    {"point by k", .25, POINT, AUTOCOMMIT, set_k, "SELECT v FROM t WHERE k = ?1", "v", NULL},
    {"point by UNIQUE v", 0, POINT, AUTOCOMMIT, set_v, "SELECT k FROM u WHERE v = ?1", "i", NULL},
    {"join, inner lookup by id", .25, JOIN, AUTOCOMMIT, NULL,
     "SELECT sum(t.k) FROM outside CROSS JOIN t ON t.id = outside.id", "i", NULL},
    {"join, inner lookup by k", .25, JOIN, AUTOCOMMIT, NULL,
     "SELECT sum(length(t.v)) FROM outside CROSS JOIN t ON t.k = outside.k", "i", NULL},
    {"join by id, outer table native", 0, JOIN, AUTOCOMMIT, NULL,
     "SELECT sum(t.k) FROM outside_native AS o CROSS JOIN t ON t.id = o.id", "i", NULL},
    {"range of 100 by id", 0, RANGES, AUTOCOMMIT, set_ids, "SELECT k, v" BETWEEN("id"), "iv", NULL},
    {"range of 100 by k", .35, RANGES, AUTOCOMMIT, set_ks, "SELECT id, v" BETWEEN("k"), "iv", NULL},
    {"scan sum(k), a row", .90, SCAN, AUTOCOMMIT, NULL, "SELECT sum(k) FROM t", "i", NULL},
    {"scan sum(length(v)), a row", 0, SCAN, AUTOCOMMIT, NULL, "SELECT sum(length(v)) FROM t", "i",
     NULL},
    {"scan id, k, v, a row", 0, SCAN, AUTOCOMMIT, NULL, TABLE("t"), "iiv", NULL},
    {"scan count(*), a row", 0, SCAN, AUTOCOMMIT, NULL, "SELECT count(*) FROM t", "i", NULL},
    {"UPDATE v by id, one txn", .60, POINT, TXN, set_id_and_v, UPDATE("id"), "", TABLE("t")},
    {"UPDATE v by k, one txn", 0, POINT, TXN, set_k_and_v, UPDATE("k"), "", TABLE("t")},
    {"UPDATE v by id, one txn, again", .60, POINT, TXN, set_id_and_v, UPDATE("id"), "", TABLE("t")},
    {"UPDATE v by id, autocommit", 0, POINT, AUTOCOMMIT, set_id_and_v, UPDATE("id"), "",
     TABLE("t")},
    {"INSERT, autocommit", 0, ONCE, AUTOCOMMIT, set_new_row, ADD("t"), "", TABLE("t")},
    {"DELETE by id, one txn", .20, ONCE, TXN, set_id, "DELETE FROM t WHERE id = ?1", "",
     TABLE("t")},
    {"UPDATE of all rows, a row", 0, WHOLE, AUTOCOMMIT, NULL, "UPDATE t SET v = substr(v, 1)", "",
     TABLE("t")},
    {"DELETE of all rows, a row", 0, WHOLE, AUTOCOMMIT, NULL, "DELETE FROM u", "", TABLE("t")},
};
enum { WORKS = sizeof WORK / sizeof *WORK };

/* Run the statement to its end and mix its answer, in its order, into sum. */
static uint64_t run(sqlite3_stmt *stmt, const char *columns, uint64_t sum)
{
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (int c = 0; columns[c]; c++) {
            uint64_t v;
            if (columns[c] == 'v')
                memcpy(&v, sqlite3_column_text(stmt, c) + TEXT - sizeof v, sizeof v);
            else
                v = (uint64_t)sqlite3_column_int64(stmt, c);
            sum = sum * 31 + v;
        }
    }
    MUST(sqlite3_reset(stmt)); /* the code of a failed step */
    return sum;
}

static uint64_t answer(sqlite3 *db, const char *sql, const char *columns)
{
    sqlite3_stmt *stmt = prepare(db, sql);
    uint64_t sum = run(stmt, columns, 0);
    MUST(sqlite3_finalize(stmt));
    return sum;
}

/* Nanoseconds an operation; *sum stands for what was read, or for what became of the table. */
static double work_do(const struct work *w, sqlite3 *db, uint64_t *sum)
{
    const size_t runs_of[] = {n, n_some, MANY, MANY / 50, 1 + MANY / n, 1 + MANY / n_some, 1};
    size_t runs = runs_of[w->runs];
    size_t operations = runs * (w->runs == SCAN || w->runs == WHOLE ? n : w->runs == JOIN ? n_some : 1);
    sqlite3_stmt *stmt = prepare(db, w->sql);
    *sum = 0;
    double start = now();
    if (w->mode == TXN)
        execute(db, "BEGIN");
    for (size_t i = 0; i < runs; i++) {
        if (w->set)
            w->set(stmt, i);
        *sum = run(stmt, w->columns, *sum);
    }
    if (w->mode == TXN)
        execute(db, "COMMIT");
    double taken = (now() - start) / (double)operations;
    MUST(sqlite3_finalize(stmt));
    if (w->after)
        *sum = answer(db, w->after, "iiv");
    return taken;
}

/* ---------------------------------------------------------------- the table */

static double ns[WORKS][SIDES][ROUNDS_MAX];
static double bytes[WORKS][SIDES]; /* a row, once filled */
static double mapped[WORKS];       /* by statedb: also what it has from the system for later */

static sqlite3 *side_open(int side)
{
    sqlite3 *db;
    MUST(sqlite3_open(":memory:", &db));
    if (side == STATEDB)
        MUST(sqlite3_statedb_static_init(db, NULL, NULL));
    execute(db, SCHEMA[side]);
    execute(db, "BEGIN");
    sqlite3_stmt *stmt = prepare(db, "INSERT INTO outside VALUES (?1, ?2)");
    for (size_t i = 0; i < n_some; i++) {
        set_id(stmt, i);
        MUST(sqlite3_bind_int64(stmt, 2, number_in_turn[i]));
        run(stmt, "", 0);
    }
    MUST(sqlite3_finalize(stmt));
    execute(db, "CREATE TABLE outside_native AS SELECT * FROM outside; COMMIT");
    return db;
}

static double memory(sqlite3 *db, int side, const char *statedb)
{
    uint64_t used = side == NATIVE ? (uint64_t)sqlite3_memory_used() : answer(db, statedb, "i");
    return (double)used / (double)n;
}

static void one_round(int round)
{
    static const char LIVE[] = "SELECT statedb_memory('live')";
    static const char MAPPED[] = "SELECT statedb_memory('mapped')";
    sqlite3 *db[SIDES] = {side_open(NATIVE), side_open(STATEDB)};
    for (int w = 0; w < WORKS; w++) {
        uint64_t sum[SIDES];
        for (int turn = 0; turn < SIDES; turn++) {
            int s = (turn + round) % SIDES;
            double used = memory(db[s], s, LIVE), map = memory(db[s], s, MAPPED);
            ns[w][s][round] = work_do(&WORK[w], db[s], &sum[s]);
            bytes[w][s] = memory(db[s], s, LIVE) - used;
            if (s == STATEDB)
                mapped[w] = memory(db[s], s, MAPPED) - map;
        }
        if (sum[NATIVE] != sum[STATEDB] || sum[NATIVE] == 0) {
            fprintf(stderr, "%s: the two differ\n", WORK[w].name);
            exit(1);
        }
    }
    for (int s = 0; s < SIDES; s++)
        MUST(sqlite3_close(db[s]));
}

static void print(const char *name, double theirs, double ours, double reach)
{
    printf("%-34s %10.1f %10.1f %8.2f", name, theirs, ours, ours / theirs);
    if (reach > 0)
        printf(" %8.2f", reach);
    printf("\n");
}

static void bench(int rounds)
{
    rows_make();
    for (int r = 0; r < rounds; r++)
        one_round(r);
    printf("SQLite %s, :memory:, %zu rows. Medians of %d rounds; ratio: statedb / native.\n",
           sqlite3_libversion(), n, rounds);
    printf("%-34s %10s %10s %8s %8s\n", "CPU time per operation, ns", "native", "statedb", "ratio",
           "reach");
    for (int w = 0; w < WORKS; w++)
        print(WORK[w].name, median(ns[w][NATIVE], rounds), median(ns[w][STATEDB], rounds),
              WORK[w].reach);
    for (int w = 0; w < WORKS && WORK[w].runs == ALL; w++) {
        printf("Bytes per row, %s\n", strrchr(WORK[w].name, ',') + 2);
        print("in all", bytes[w][NATIVE], bytes[w][STATEDB], 0);
        print("beyond the values themselves", bytes[w][NATIVE] - OWN, bytes[w][STATEDB] - OWN,
              0.60);
        print("with what is kept for later", bytes[w][NATIVE], mapped[w], 0);
    }
    rows_free();
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1000000;
    for (n = 10000; n <= largest; n *= 100) {
        n_some = n < MANY ? n : MANY;
        bench(n <= 10000 ? ROUNDS_MAX : 3);
    }
    return 0;
}
