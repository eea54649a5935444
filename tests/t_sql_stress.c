/* t_sql_stress.c - everything at once on one shared store: writers, readers, holders of snapshots,
** indexes and tables that come and go, each with a connection and a thread of its own. What every
** transaction preserves every reader finds preserved. Made to be run under the sanitizers too. */
#define _GNU_SOURCE
#include "../core/mem.h"
#include "../ext/statedb_static.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cmocka's asserts belong to the main thread. */
#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

/* The accounts of a and b together hold TOTAL; those of pair_one and pair_two with the same id hold the
** same, and the text says the number once more. */
enum { ACCOUNTS = 40, TOTAL = 2 * ACCOUNTS * 100, PAIRS = 10, FOREVER = 1000000 };
enum { MOVES = 400, WRITERS = 3, READERS = 2, HOLDERS = 1 };

#define TABLES                                                                                \
    "CREATE VIRTUAL TABLE temp.a USING statedb(id INTEGER PRIMARY KEY, n INT NOT NULL, t TEXT," \
    " INDEX by_n(n, t), store=bank);"                                                         \
    "CREATE VIRTUAL TABLE temp.b USING statedb(id INTEGER PRIMARY KEY, n INT NOT NULL, t TEXT," \
    " store=bank);"                                                                           \
    "CREATE VIRTUAL TABLE temp.pair_one USING statedb(id PRIMARY KEY, n, store=bank);"        \
    "CREATE VIRTUAL TABLE temp.pair_two USING statedb(id, n, t, UNIQUE INDEX i(id), store=bank);"

/* A number below n, from a state of the thread's own (xorshift64). */
static int rnd(uint64_t *rng, int n)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return (int)(*rng % (uint64_t)n);
}

static atomic_int n_writing; /* writers that have not finished */

/* ---------------------------------------------------------------- SQL */

static void fail_sql(sqlite3 *db, const char *sql)
{
    fprintf(stderr, "%s: %d %s\n", sql, sqlite3_extended_errcode(db), sqlite3_errmsg(db));
    abort();
}

static void run_ok(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL))
        fail_sql(db, sql);
}

static bool is_in_the_way(sqlite3 *db)
{
    int rc = sqlite3_extended_errcode(db);

    return rc == SQLITE_BUSY || rc == SQLITE_BUSY_SNAPSHOT;
}

static sqlite3 *db_open(void)
{
    sqlite3 *db;
    char *err = NULL;

    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    CHECK(sqlite3_statedb_static_init(db, &err, NULL) == SQLITE_OK);
    CHECK(sqlite3_busy_timeout(db, FOREVER) == SQLITE_OK);
    if (sqlite3_exec(db, "SELECT statedb_attach('bank')", NULL, NULL, NULL))
        fail_sql(db, "statedb_attach");
    return db;
}

/* A transaction that gives way to others, and tries again, until it is done. */
static void run_transaction(sqlite3 *db, const char *sql)
{
    for (;;) {
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
            return;
        if (!is_in_the_way(db))
            fail_sql(db, sql);
        if (!sqlite3_get_autocommit(db))
            run_ok(db, "ROLLBACK");
    }
}

static int64_t number(sqlite3_stmt *stmt)
{
    int64_t n;

    if (sqlite3_step(stmt) != SQLITE_ROW)
        fail_sql(sqlite3_db_handle(stmt), sqlite3_sql(stmt));
    n = sqlite3_column_int64(stmt, 0);
    if (sqlite3_reset(stmt))
        fail_sql(sqlite3_db_handle(stmt), sqlite3_sql(stmt));
    return n;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
        fail_sql(db, sql);
    return stmt;
}

/* ---------------------------------------------------------------- writers */

static void *write_moves(void *seed)
{
    uint64_t rng = (uint64_t)(uintptr_t)seed;
    sqlite3 *db = db_open();
    char sql[1000];

    for (int i = 0; i < MOVES; i++) {
        int from = rnd(&rng, ACCOUNTS), to = rnd(&rng, ACCOUNTS);
        int n = rnd(&rng, 50), pair = rnd(&rng, PAIRS);
        const char *one = i & 1 ? "a" : "b", *two = i & 2 ? "a" : "b";
        switch (rnd(&rng, 6)) {
        case 0: /* alone */
            snprintf(sql, sizeof sql,
                     "UPDATE %s SET n = n + CASE id WHEN %d THEN %d ELSE -%d END, t = n || 'x' "
                     "WHERE id IN (%d, %d) AND %d <> %d",
                     one, from, n, n, from, to, from, to);
            run_ok(db, sql);
            break;
        case 1: /* writing first */
            snprintf(sql, sizeof sql,
                     "BEGIN; UPDATE %s SET n = n - %d, t = 'minus' WHERE id = %d;"
                     "UPDATE %s SET n = n + %d, t = NULL WHERE id = %d; COMMIT",
                     one, n, from, two, n, to);
            run_transaction(db, sql);
            break;
        case 2: /* reading first, and a savepoint that is taken back */
            snprintf(sql, sizeof sql,
                     "BEGIN; SELECT sum(n) FROM a; UPDATE %s SET n = n - %d WHERE id = %d;"
                     "SAVEPOINT s; DELETE FROM %s WHERE id > %d; ROLLBACK TO s;"
                     "UPDATE %s SET n = n + %d WHERE id = %d; RELEASE s; COMMIT",
                     one, n, from, two, from, two, n, to);
            run_transaction(db, sql);
            break;
        case 3: /* undone */
            snprintf(sql, sizeof sql, "BEGIN; UPDATE %s SET n = n + 1000000; DELETE FROM %s; ROLLBACK",
                     one, two);
            run_transaction(db, sql);
            break;
        case 4: /* by another key, and with the rows made anew */
            snprintf(sql, sizeof sql, "REPLACE INTO %s SELECT id, n, t || 'r' FROM %s WHERE n > %d", one,
                     one, n);
            run_ok(db, sql);
            break;
        default: /* two tables that say the same */
            snprintf(sql, sizeof sql,
                     "BEGIN IMMEDIATE; UPDATE pair_one SET n = n + 1 WHERE id = %d;"
                     "UPDATE pair_two SET n = n + 1, t = 'say ' || (n + 1) WHERE id = %d; COMMIT",
                     pair, pair);
            run_transaction(db, sql);
        }
    }
    sqlite3_close(db);
    atomic_fetch_sub(&n_writing, 1);
    return NULL;
}

/* ---------------------------------------------------------------- readers */

static const char *const total_sql = "SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b)";
static const char *const by_n_sql =
    "SELECT (SELECT sum(n) FROM a WHERE n > -1000000000) + (SELECT sum(n) FROM (SELECT n FROM b ORDER BY n))";
static const char *const pairs_sql =
    "SELECT count(*) FROM pair_one AS p JOIN pair_two AS q ON q.id = p.id AND q.n = p.n AND "
    "q.t = 'say ' || p.n";

/* Statements one by one, prepared once. Nobody makes them wait, and they never fail. */
static void *read_statements(void *p)
{
    sqlite3 *db = db_open();
    sqlite3_stmt *total = prepare(db, total_sql), *by_n = prepare(db, by_n_sql);
    sqlite3_stmt *pairs = prepare(db, pairs_sql);

    sqlite3_busy_timeout(db, 0);
    while (atomic_load(&n_writing)) {
        CHECK(number(total) == TOTAL);
        CHECK(number(by_n) == TOTAL);
        CHECK(number(pairs) == PAIRS);
    }
    sqlite3_finalize(total);
    sqlite3_finalize(by_n);
    sqlite3_finalize(pairs);
    sqlite3_close(db);
    return p;
}

/* Transactions: many statements, one version. */
static void *read_transactions(void *p)
{
    sqlite3 *db = db_open();
    sqlite3_stmt *a = prepare(db, "SELECT sum(n) FROM a"), *b = prepare(db, "SELECT sum(n) FROM b");
    sqlite3_stmt *sum = prepare(db, "SELECT sum(id * n + length(t)) FROM a");
    sqlite3_stmt *pairs = prepare(db, pairs_sql);

    sqlite3_busy_timeout(db, 0);
    for (int i = 0; atomic_load(&n_writing); i++) {
        int64_t first, in_a;
        run_ok(db, i % 3 == 0 ? "BEGIN" : i % 3 == 1 ? "BEGIN IMMEDIATE" : "SAVEPOINT s");
        first = number(sum);
        in_a = number(a);
        for (int k = 0; k < 20; k++) {
            CHECK(number(pairs) == PAIRS);
            CHECK(in_a + number(b) == TOTAL);
            CHECK(number(a) == in_a);
            CHECK(number(sum) == first);
        }
        run_ok(db, i % 3 == 0 ? "COMMIT" : i % 3 == 1 ? "ROLLBACK" : "RELEASE s");
    }
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    sqlite3_finalize(sum);
    sqlite3_finalize(pairs);
    sqlite3_close(db);
    return p;
}

/* ---------------------------------------------------------------- definitions */

static void *change_indexes(void *p)
{
    sqlite3 *db = db_open();

    while (atomic_load(&n_writing)) {
        run_ok(db, "INSERT INTO a(a) VALUES('DROP INDEX by_n')");
        run_ok(db, "INSERT INTO b(b) VALUES('CREATE INDEX b_by_n ON b(n DESC)')");
        run_transaction(db, "BEGIN; INSERT INTO a(a) VALUES('CREATE INDEX by_t ON a(t)'); ROLLBACK");
        run_ok(db, "INSERT INTO a(a) VALUES('CREATE INDEX by_n ON a(n, t)')");
        run_ok(db, "INSERT INTO b(b) VALUES('DROP INDEX b_by_n')");
    }
    sqlite3_close(db);
    return p;
}

/* A table that comes and goes, has the same number in all rows, and is joined while it is there. */
static void *change_tables(void *seed)
{
    uint64_t rng = (uint64_t)(uintptr_t)seed;
    sqlite3 *db = db_open();
    const char *gone = "has been dropped";

    while (atomic_load(&n_writing)) {
        char sql[200];
        run_ok(db, "CREATE VIRTUAL TABLE IF NOT EXISTS temp.guest USING statedb(n, store=bank)");
        snprintf(sql, sizeof sql, "BEGIN; DELETE FROM guest; INSERT INTO guest VALUES(%d), (%d); COMMIT",
                 rnd(&rng, 9), 7);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL)) {
            if (!is_in_the_way(db) && !strstr(sqlite3_errmsg(db), gone))
                fail_sql(db, sql);
            if (!sqlite3_get_autocommit(db))
                run_ok(db, "ROLLBACK");
        }
        if (sqlite3_exec(db, "SELECT * FROM guest", NULL, NULL, NULL) && !strstr(sqlite3_errmsg(db), gone))
            fail_sql(db, "SELECT * FROM guest");
        run_ok(db, rnd(&rng, 3) ? "SAVEPOINT s; DROP TABLE guest; RELEASE s" : "SELECT 1");
    }
    sqlite3_close(db);
    return NULL;
}

/* ---------------------------------------------------------------- all of them */

static void test_everything(void **state)
{
    enum { THREADS = WRITERS + READERS + HOLDERS + 3 };
    pthread_t thread[THREADS];
    sqlite3 *db = db_open();
    int n = 0;

    (void)state;
    run_ok(db, TABLES);
    run_ok(db, "WITH RECURSIVE i(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM i WHERE x < 39) "
               "INSERT INTO a SELECT x, 100, 'start' FROM i; INSERT INTO b SELECT * FROM a;"
               "INSERT INTO pair_one SELECT id, 0 FROM a WHERE id < 10;"
               "INSERT INTO pair_two SELECT id, 0, 'say 0' FROM pair_one");
    atomic_store(&n_writing, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&thread[n++], NULL, write_moves, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < READERS; i++)
        pthread_create(&thread[n++], NULL, read_statements, NULL);
    for (int i = 0; i < HOLDERS; i++)
        pthread_create(&thread[n++], NULL, read_transactions, NULL);
    pthread_create(&thread[n++], NULL, change_indexes, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[n++], NULL, change_tables, (void *)(uintptr_t)(i + 77));
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    sqlite3_stmt *total = prepare(db, total_sql), *pairs = prepare(db, pairs_sql);
    assert_int_equal(number(total), TOTAL);
    assert_int_equal(number(pairs), PAIRS);
    sqlite3_finalize(total);
    sqlite3_finalize(pairs);
    run_ok(db, "INSERT INTO a(a) VALUES('integrity-check')");
    total = prepare(db, "SELECT statedb_memory('retired', 'bank')"); /* nobody is there any more */
    assert_int_equal(number(total), 0);
    sqlite3_finalize(total);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
