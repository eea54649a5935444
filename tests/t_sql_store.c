/* t_sql_store.c - shared stores used by connections on several threads: waiting for locks, circles,
** interrupts; connections that are closed in any order; text that SQLite still looks at while others
** replace the row. What one thread can show is in store.test. */
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
#include <unistd.h>

#include <cmocka.h>

/* cmocka's asserts belong to the main thread. */
#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

/* ---------------------------------------------------------------- SQL */

typedef struct output {
    char text[2000];
} output;

static int output_row(void *p, int n, char **values, char **names)
{
    output *out = p;

    (void)names;
    for (int i = 0; i < n; i++) {
        if (*out->text)
            strcat(out->text, " ");
        strcat(out->text, values[i] ? values[i] : "NULL");
    }
    return 0;
}

/* Run statements; together they return this, or the last fails with this message. */
#define assert_sql(db, sql, expected) sql_check(db, sql, expected, __LINE__)

static void sql_check(sqlite3 *db, const char *sql, const char *expected, int line)
{
    output out = {""};
    char *err = NULL;

    if (sqlite3_exec(db, sql, output_row, &out, &err))
        snprintf(out.text, sizeof out.text, "%s", err);
    sqlite3_free(err);
    if (strcmp(out.text, expected) != 0) {
        fprintf(stderr, "line %d: %s: %s instead of %s\n", line, sql, out.text, expected);
        abort();
    }
}

static sqlite3 *db_open(int busy_ms)
{
    sqlite3 *db;
    char *err = NULL;

    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    CHECK(sqlite3_statedb_static_init(db, &err, NULL) == SQLITE_OK);
    CHECK(sqlite3_busy_timeout(db, busy_ms) == SQLITE_OK);
    return db;
}

static void db_close(sqlite3 *db)
{
    CHECK(sqlite3_close(db) == SQLITE_OK);
}

#define TABLES                                                                            \
    "CREATE VIRTUAL TABLE temp.host USING statedb(id INTEGER PRIMARY KEY, n, store=fleet);" \
    "CREATE VIRTUAL TABLE temp.rack USING statedb(id INTEGER PRIMARY KEY, n, store=fleet);" \
    "CREATE VIRTUAL TABLE temp.room USING statedb(id INTEGER PRIMARY KEY, n, store=fleet)"

enum { FOREVER = 1000000 };

/* ---------------------------------------------------------------- waiting */

typedef struct job {
    sqlite3 *db;
    const char *sql, *expected;
    atomic_bool is_done;
} job;

static void *job_run(void *p)
{
    job *j = p;

    sql_check(j->db, j->sql, j->expected, 0);
    atomic_store(&j->is_done, true);
    return NULL;
}

static pthread_t job_start(job *j)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, job_run, j) == 0);
    return thread;
}

static void test_wait(void **state)
{
    sqlite3 *a = db_open(0), *b = db_open(FOREVER);
    job j = {.db = b, .sql = "UPDATE host SET n = n + 1; SELECT n FROM host", .expected = "12"};
    pthread_t thread;

    (void)state;
    assert_sql(a, TABLES "; INSERT INTO host VALUES(1, 1)", "");
    assert_sql(b, "SELECT statedb_attach('fleet')", "3");
    assert_sql(a, "BEGIN; UPDATE host SET n = 11", "");
    thread = job_start(&j);
    usleep(30000);
    assert_false(atomic_load(&j.is_done));
    assert_sql(a, "COMMIT", "");
    pthread_join(thread, NULL);
    /* a table that is dropped while we wait for it */
    assert_sql(a, "BEGIN; UPDATE host SET n = 5; DROP TABLE host", "");
    j = (job){.db = b,
              .sql = "UPDATE host SET n = n + 1",
              .expected = "statedb: host: the table has been dropped from store 'fleet', or renamed there"};
    thread = job_start(&j);
    usleep(30000);
    assert_false(atomic_load(&j.is_done));
    assert_sql(a, "COMMIT", "");
    pthread_join(thread, NULL);
    /* another one that is dropped meanwhile is no reason to fail */
    assert_sql(a, "BEGIN; INSERT INTO room VALUES(7, 7); DROP TABLE rack", "");
    j = (job){.db = b, .sql = "INSERT INTO room VALUES(NULL, 1); SELECT id FROM room", .expected = "7 8"};
    thread = job_start(&j);
    usleep(30000);
    assert_false(atomic_load(&j.is_done));
    assert_sql(a, "COMMIT", "");
    pthread_join(thread, NULL);
    db_close(a);
    db_close(b);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* Until the others have come to wait, the table is merely in use. */
static void assert_circle(sqlite3 *db, const char *sql, const char *expected)
{
    do
        CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_BUSY);
    while (strstr(sqlite3_errmsg(db), "another connection is writing"));
    assert_string_equal(sqlite3_errmsg(db), expected);
    assert_int_equal(sqlite3_extended_errcode(db), SQLITE_BUSY);
}

/* The one that closes the circle is told at once, and which. */
static void test_deadlock(void **state)
{
    sqlite3 *a = db_open(0), *b = db_open(FOREVER), *c = db_open(FOREVER);
    job j = {.db = b, .sql = "UPDATE host SET n = 2", .expected = ""};
    job k = {.db = c, .sql = "UPDATE rack SET n = 3", .expected = ""};
    pthread_t thread, second;

    (void)state;
    assert_sql(a, TABLES "; INSERT INTO host VALUES(1, 1); INSERT INTO rack VALUES(1, 1)", "");
    assert_sql(b, "SELECT statedb_attach('fleet')", "3");
    assert_sql(c, "SELECT statedb_attach('fleet')", "3");
    assert_sql(a, "BEGIN; UPDATE host SET n = 1", "");
    assert_sql(b, "BEGIN; UPDATE rack SET n = 2", "");
    assert_sql(c, "BEGIN; INSERT INTO room VALUES(1, 3)", "");
    thread = job_start(&j);
    assert_circle(a, "UPDATE rack SET n = 1",
                  "statedb: rack: it is being written by a transaction that waits for host, which this "
                  "transaction has written: roll it back");
    second = job_start(&k);
    assert_circle(a, "INSERT INTO room VALUES(1, 1)",
                  "statedb: room: it is being written by a transaction that waits for rack, and its "
                  "writer for host, which this transaction has written: roll it back");
    assert_false(atomic_load(&j.is_done) || atomic_load(&k.is_done));
    assert_sql(a, "ROLLBACK", "");
    pthread_join(thread, NULL);
    assert_sql(b, "COMMIT", "");
    pthread_join(second, NULL);
    assert_sql(c, "COMMIT; SELECT host.n, rack.n, room.n FROM host, rack, room", "2 3 3");
    db_close(a);
    db_close(b);
    db_close(c);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_interrupt(void **state)
{
    sqlite3 *a = db_open(0), *b = db_open(FOREVER);
    job j = {.db = b, .sql = "UPDATE host SET n = 2", .expected = "interrupted"};
    pthread_t thread;

    (void)state;
    assert_sql(a, TABLES "; INSERT INTO host VALUES(1, 1); BEGIN; DELETE FROM host", "");
    assert_sql(b, "SELECT statedb_attach('fleet')", "3");
    thread = job_start(&j);
    while (!atomic_load(&j.is_done)) { /* it may not have begun yet */
        usleep(1000);
        sqlite3_interrupt(b);
    }
    pthread_join(thread, NULL);
    assert_sql(b, "SELECT count(*) FROM host", "1");
    assert_sql(a, "COMMIT", "");
    assert_sql(b, "UPDATE host SET n = 2", "");
    db_close(a);
    db_close(b);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- counting */

/* Statements of their own are never told that they are too old, nor do they lose a change; in
** transactions it can be told, and then nothing was done. */
enum { COUNTERS = 3, COUNTS = 300 };

static void *count_up(void *p)
{
    static const char *const sql[] = {
        "UPDATE host SET n = n + 1 WHERE id = 1",
        "UPDATE host SET n = n + 1",
        "REPLACE INTO host SELECT id, n + 1 FROM host",
        "BEGIN; UPDATE host SET n = n + 1; COMMIT",
        "BEGIN; SELECT n FROM host; UPDATE host SET n = n + 1; COMMIT",
        "INSERT INTO log VALUES(1)", /* with a trigger */
    };
    sqlite3 *db = db_open(FOREVER);
    int64_t stale = 0;

    (void)p;
    assert_sql(db, "SELECT statedb_attach('fleet')", "3");
    assert_sql(db, "CREATE TEMP TABLE log(a); CREATE TEMP TRIGGER tr AFTER INSERT ON log BEGIN "
                   "UPDATE host SET n = n + 1; END", "");
    for (int i = 0; i < COUNTS; i++) {
        int rc = sqlite3_exec(db, sql[i % 6], NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            continue;
        CHECK(i % 6 == 4 && sqlite3_extended_errcode(db) == SQLITE_BUSY_SNAPSHOT);
        assert_sql(db, "ROLLBACK", "");
        stale++;
        i--;
    }
    db_close(db);
    return (void *)(intptr_t)stale;
}

static void test_count(void **state)
{
    sqlite3 *db = db_open(FOREVER);
    pthread_t thread[COUNTERS];
    char expected[20];

    (void)state;
    assert_sql(db, TABLES "; INSERT INTO host VALUES(1, 0)", "");
    for (int i = 0; i < COUNTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < COUNTERS; i++)
        pthread_join(thread[i], NULL);
    snprintf(expected, sizeof expected, "%d", COUNTERS * COUNTS);
    assert_sql(db, "SELECT n FROM host", expected);
    db_close(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* Who comes first makes the table, the others join it. */
static void *make_table(void *p)
{
    sqlite3 *db = db_open(FOREVER);

    for (int i = 0; i < 50; i++) {
        assert_sql(db, "CREATE VIRTUAL TABLE temp.host USING statedb(n, store=fleet)", "");
        if (sqlite3_exec(db, "INSERT INTO host VALUES(1)", NULL, NULL, NULL))
            CHECK(strstr(sqlite3_errmsg(db), "has been dropped"));
        assert_sql(db, "DROP TABLE host", "");
    }
    db_close(db);
    return p;
}

static void test_create_and_drop(void **state)
{
    pthread_t thread[COUNTERS];

    (void)state;
    for (int i = 0; i < COUNTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, make_table, NULL), 0);
    for (int i = 0; i < COUNTERS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- closing */

static void test_close(void **state)
{
    static const char *const ends[] = {
        "SELECT * FROM host", "BEGIN; SELECT * FROM host", "BEGIN IMMEDIATE; SELECT * FROM host",
        "BEGIN; UPDATE host SET n = 7", "BEGIN; SELECT * FROM host; DROP TABLE rack",
        "CREATE TEMP TABLE x(n); INSERT INTO x SELECT n FROM host; BEGIN; SELECT n FROM host",
    };

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (int is_zombie = 0; is_zombie < 2; is_zombie++) {
            sqlite3 *a = db_open(0), *b = db_open(0);
            sqlite3_stmt *stmt;
            assert_sql(a, TABLES "; INSERT INTO host VALUES(1, 'one'), (2, 'two')", "");
            assert_sql(b, "SELECT statedb_attach('fleet')", "3");
            assert_int_equal(sqlite3_exec(b, ends[i], NULL, NULL, NULL), SQLITE_OK);
            assert_int_equal(sqlite3_prepare_v2(b, "SELECT n FROM host ORDER BY id", -1, &stmt, NULL),
                             SQLITE_OK);
            assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
            if (is_zombie) {
                assert_int_equal(sqlite3_close_v2(b), SQLITE_OK);
            } else {
                assert_int_equal(sqlite3_close(b), SQLITE_BUSY);
            }
            db_close(a);
            assert_true(strcmp((const char *)sqlite3_column_text(stmt, 0), i == 3 ? "7" : "one") == 0);
            if (sqlite3_step(stmt) == SQLITE_ROW)
                assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
            sqlite3_finalize(stmt);
            if (!is_zombie)
                db_close(b);
            assert_int_equal(sdb_mem_blocks(), 0);
            assert_int_equal(sqlite3_memory_used(), 0);
        }
    }
}

/* ---------------------------------------------------------------- plans */

static int64_t answer(sqlite3_stmt *stmt)
{
    int64_t n;

    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    n = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
    assert_int_equal(sqlite3_reset(stmt), SQLITE_OK);
    return n;
}

/* A statement goes on when another connection drops its index, and is prepared again, for that index or
** a new one, when the connection comes to it. */
static void test_plans(void **state)
{
    static const char *const reasons[] = {
        "BEGIN; SELECT count(*) FROM host; COMMIT",
        "BEGIN IMMEDIATE; SELECT count(*) FROM host; ROLLBACK",
        "UPDATE host SET n = n WHERE id = 1",
        "SELECT count(*) FROM host; SELECT count(*), 1 FROM host", /* to prepare is reason enough */
    };

    (void)state;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        sqlite3 *a = db_open(0), *b = db_open(0);
        sqlite3_stmt *stmt;
        assert_sql(a, TABLES ";WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < 500)"
                   "INSERT INTO host SELECT x, x * 2 FROM i;"
                   "INSERT INTO host(host) VALUES('CREATE INDEX one ON host(n)')", "");
        assert_sql(b, "SELECT statedb_attach('fleet')", "3");
        assert_int_equal(sqlite3_prepare_v2(b, "SELECT id FROM host WHERE n = 200", -1, &stmt, NULL),
                         SQLITE_OK);
        assert_int_equal(answer(stmt), 100);
        assert_int_equal(sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1), 0);
        assert_sql(a, "INSERT INTO host(host) VALUES('DROP INDEX one')", "");
        assert_int_equal(answer(stmt), 100);
        assert_int_equal(answer(stmt), 100);
        assert_sql(a, "INSERT INTO host(host) VALUES('CREATE UNIQUE INDEX two ON host(n)')", "");
        assert_int_equal(answer(stmt), 100);
        assert_int_equal(sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1), 0);
        assert_int_equal(sqlite3_exec(b, reasons[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(answer(stmt), 100);
        assert_int_equal(sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1), 1);
        assert_int_equal(answer(stmt), 100);
        assert_int_equal(sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1), 0);
        sqlite3_finalize(stmt);
        db_close(a);
        db_close(b);
    }
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- text */

/* One thread replaces all rows as fast as it can, and with them the text that others have been handed.
** Everything in a row is of one letter: what else is seen has been freed (or has been written over). */
enum { REPLACED = 2000, ROUNDS = 30 };

static atomic_bool is_over;
static atomic_int n_replaced;

static void *replace_text(void *p)
{
    sqlite3 *db = db_open(FOREVER);

    assert_sql(db, "SELECT statedb_attach('fleet')", "2");
    for (int i = 0; !atomic_load(&is_over); i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "UPDATE host SET t = printf('%%.*c', %d + id, '%c')", 10 + i % 50,
                 'a' + i % 26);
        assert_sql(db, sql, "");
        atomic_fetch_add(&n_replaced, 1);
    }
    db_close(db);
    return p;
}

/* Whether a text is the same letter again and again. */
static void same_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    int n = sqlite3_value_bytes(argv[0]);

    (void)argc;
    for (int i = 0; i < n; i++)
        CHECK(text[i] == text[0] && text[0] >= 'a' && text[0] <= 'z');
    sqlite3_result_value(ctx, argv[0]);
}

static void test_text(void **state)
{
    static const char *const sql[] = {
        "SELECT same(max(t)), same(min(t)) FROM host",
        "SELECT same(t), max(id) FROM host",
        "SELECT same(t) FROM host WHERE id = (SELECT max(id) FROM host WHERE t > 'a')",
        "SELECT (SELECT same(t) FROM host AS i WHERE i.id = o.id), same(t) FROM host AS o",
        "WITH c AS (SELECT t FROM host LIMIT 5) SELECT same(x.t), same(y.t) FROM c AS x, c AS y",
        "SELECT same(t) FROM host WHERE id = 1 OR t > 'm' OR id IN (3, 4)",
        "SELECT same(t) FROM host UNION SELECT same(t) FROM host ORDER BY 1",
        "SELECT same(group_concat(t, '')), same(first_value(t) OVER w) FROM host WHERE id = 2 "
        "GROUP BY t WINDOW w AS (ORDER BY t)",
        "INSERT INTO native SELECT same(t) FROM host",
        "INSERT INTO native VALUES((SELECT t FROM host WHERE id = 1)) RETURNING same(t)",
        "UPDATE native SET t = (SELECT same(t) FROM host WHERE id = 2)",
        "UPDATE native SET t = h.t FROM (SELECT same(t) AS t FROM host WHERE id = 3) AS h",
        "DELETE FROM native WHERE t IN (SELECT same(t) FROM host)",
        "REPLACE INTO watch SELECT id, same(t) FROM host WHERE id < 4",
        "UPDATE watch SET t = (SELECT t FROM host WHERE host.id = watch.id) WHERE id = 2",
        "UPDATE watch SET t = (SELECT t FROM host WHERE id = 5)",
        "UPDATE own SET t = (SELECT t FROM host WHERE id = 5) WHERE id = 1",
        "DELETE FROM watch WHERE id = 3 AND same((SELECT t FROM host WHERE id = 5)) <> 'x'",
        "SELECT same(t) FROM watch UNION ALL SELECT same(t) FROM native UNION ALL "
        "SELECT same(t) FROM own WHERE t <> ''",
        "INSERT INTO log SELECT 1 FROM host WHERE id < 4",
        "BEGIN; SELECT same(max(t)) FROM host; SELECT same(t) FROM host; COMMIT",
        "BEGIN; UPDATE watch SET t = (SELECT t FROM host WHERE id = 6) WHERE id = 1; ROLLBACK",
    };
    sqlite3 *db = db_open(FOREVER);
    pthread_t thread;

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE temp.host USING statedb(id INTEGER PRIMARY KEY, t, "
                   "INDEX it(t), store=fleet);"
                   "CREATE VIRTUAL TABLE temp.watch USING statedb(id INTEGER PRIMARY KEY, t, store=fleet);"
                   "CREATE VIRTUAL TABLE temp.own USING statedb(id INTEGER PRIMARY KEY, t);"
                   "INSERT INTO own VALUES(1, 'aaa');"
                   "CREATE TABLE native(t); CREATE TABLE log(a);"
                   "CREATE TEMP TRIGGER tr AFTER INSERT ON log BEGIN "
                   "INSERT INTO native SELECT same(t) FROM host WHERE id = 1;"
                   "UPDATE watch SET t = (SELECT t FROM host WHERE id = 4) WHERE id = 1;"
                   "END", "");
    assert_sql(db, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20) "
                   "INSERT INTO host SELECT x, 'aaa' FROM n", "");
    assert_int_equal(sqlite3_create_function(db, "same", 1, SQLITE_UTF8, NULL, same_function, NULL, NULL),
                     SQLITE_OK);
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, replace_text, NULL), 0);
    for (int i = 0; i < ROUNDS || atomic_load(&n_replaced) < REPLACED; i++)
        for (size_t k = 0; k < sizeof sql / sizeof *sql; k++)
            if (sqlite3_exec(db, sql[k], NULL, NULL, NULL))
                fail_msg("%s: %s", sql[k], sqlite3_errmsg(db));
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    db_close(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close),    cmocka_unit_test(test_wait),
        cmocka_unit_test(test_deadlock), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_count),    cmocka_unit_test(test_create_and_drop),
        cmocka_unit_test(test_plans),    cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
