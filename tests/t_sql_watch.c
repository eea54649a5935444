/* t_sql_watch.c - watches in SQL (ext/watch_sql.c) among threads: a change is never missed, a wait can be
** interrupted, a descriptor tells as much, and a connection closes whatever is watched. What one thread can show is in watch.test. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "../core/mem.h"
#include "../ext/statedb_static.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { CHANGES = 300, WRITERS = 2 };

/* ---------------------------------------------------------------- SQL */

static sqlite3 *db_open(void)
{
    sqlite3 *db;
    char *err = NULL;

    if (sqlite3_open(":memory:", &db) || sqlite3_statedb_static_init(db, &err, NULL))
        abort();
    return db;
}

/* cmocka's asserts belong to the main thread. */
static void execute(sqlite3 *db, const char *sql)
{
    char *err = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &err) == SQLITE_OK)
        return;
    fprintf(stderr, "%s: %s\n", sql, err);
    abort();
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;
    int64_t result;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) || sqlite3_step(stmt) != SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    result = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return result;
}

static void close_all(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- never missed */

static void *writer_run(void *p)
{
    int me = *(int *)p;
    sqlite3 *db = db_open();
    char sql[200];

    execute(db, me ? "SELECT statedb_attach('two')" : "SELECT statedb_attach('one')");
    for (int i = 0; i < CHANGES; i++) {
        snprintf(sql, sizeof sql, "UPDATE %s SET n = n + 1 WHERE id = %d", me ? "u" : "t", i % 3);
        execute(db, sql);
        if (i % 10 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    sqlite3_close(db);
    return NULL;
}

/* Wait, read, wait, ... until all has been seen. One that missed a change would wait for ever; were a
** wait to end for nothing each time, it would end more often than there are changes. */
static int64_t changes_see(sqlite3 *db, const char *wait, const char *sum, int64_t until)
{
    int64_t n_waits = 0;

    while (ask(db, sum) < until) {
        assert_int_equal(ask(db, wait), 1);
        n_waits++;
    }
    return n_waits;
}

static void changes_run(const char *name, const char *wait)
{
    static const char sum[] = "SELECT (SELECT sum(n) FROM t WHERE id < 3) + (SELECT sum(n) FROM u WHERE id < 3)";
    int number[WRITERS] = {0, 1};
    pthread_t thread[WRITERS];
    sqlite3 *db = db_open();
    char *sql = sqlite3_mprintf("INSERT INTO statedb_watches(name, query) VALUES(%Q, %Q)", name, sum);

    execute(db, "CREATE VIRTUAL TABLE t USING statedb(id INTEGER PRIMARY KEY, n, store=one);"
                "CREATE VIRTUAL TABLE u USING statedb(id INTEGER PRIMARY KEY, n, store=two);"
                "INSERT INTO t VALUES(0, 0), (1, 0), (2, 0); INSERT INTO u SELECT * FROM t");
    execute(db, sql);
    sqlite3_free(sql);
    execute(db, "INSERT INTO statedb_watches(name, query) VALUES('quiet', 'SELECT * FROM t WHERE id = 7')");
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, writer_run, &number[i]), 0);
    assert_in_range(changes_see(db, wait, sum, (int64_t)CHANGES * WRITERS), 1, 2 * CHANGES * WRITERS);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
    ask(db, wait[20] == 'a' ? "SELECT statedb_wait('all', 0)" : "SELECT statedb_wait(NULL, 0)");
    assert_int_equal(ask(db, "SELECT statedb_wait(NULL, 0)"), 0);
    close_all(db);
}

static void test_one_watch(void **state)
{
    (void)state;
    changes_run("all", "SELECT statedb_wait('all', -1)");
}

static void test_any_watch(void **state)
{
    (void)state;
    changes_run("all", "SELECT statedb_wait(NULL, NULL)");
}

/* ---------------------------------------------------------------- interrupts */

typedef struct sleeper {
    sqlite3 *db;
    const char *sql;
    int rc;
    _Atomic bool is_awake;
} sleeper;

static void *sleeper_run(void *p)
{
    sleeper *s = p;

    s->rc = sqlite3_exec(s->db, s->sql, NULL, NULL, NULL);
    s->is_awake = true;
    return NULL;
}

/* An interrupt that comes before the statement has begun is none: so more than one. */
static void interrupt_run(sqlite3 *db, const char *sql)
{
    sleeper s = {.db = db, .sql = sql};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, sleeper_run, &s), 0);
    while (!s.is_awake) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        sqlite3_interrupt(db);
    }
    pthread_join(thread, NULL);
    assert_int_equal(s.rc, SQLITE_INTERRUPT);
}

static void test_interrupt(void **state)
{
    sqlite3 *db = db_open();

    (void)state;
    execute(db, "CREATE VIRTUAL TABLE t USING statedb(id INTEGER PRIMARY KEY, n);"
                "CREATE VIRTUAL TABLE u USING statedb(id INTEGER PRIMARY KEY, n, store=one);"
                "INSERT INTO t VALUES(1, 1); INSERT INTO u VALUES(1, 1);"
                "INSERT INTO statedb_watches(name, query) VALUES('t', 'SELECT * FROM t'), ('u', 'SELECT * FROM u'),"
                " ('none', 'SELECT * FROM t WHERE n = NULL')");
    interrupt_run(db, "SELECT statedb_wait('t', -1)");
    interrupt_run(db, "SELECT statedb_wait('none', NULL)");
    interrupt_run(db, "SELECT statedb_wait(NULL, 9223372036854775807)");
    execute(db, "UPDATE t SET n = 2");
    assert_int_equal(ask(db, "SELECT statedb_wait('t', -1)"), 1);
    assert_int_equal(ask(db, "SELECT statedb_wait('t', 30)"), 0);
    close_all(db);
}

/* A query that is running to arm its watch again: what it was to tell is told by the next wait. */
static void test_interrupt_of_the_query(void **state)
{
    static const char slow[] = "INSERT INTO statedb_watches(name, query) VALUES('slow', 'WITH n(i) AS (SELECT 1 UNION"
                               " ALL SELECT i + 1 FROM n WHERE i < (SELECT n FROM t)) SELECT count(*) FROM n')";
    sqlite3 *db = db_open();

    (void)state;
    execute(db, "CREATE VIRTUAL TABLE t USING statedb(n); INSERT INTO t VALUES(5)");
    execute(db, slow);
    execute(db, "UPDATE t SET n = 1e18");
    interrupt_run(db, "SELECT statedb_wait('slow', -1)");
    assert_int_equal(ask(db, "SELECT fired FROM statedb_watches"), 1);
    execute(db, "UPDATE t SET n = 7");
    assert_int_equal(ask(db, "SELECT statedb_wait('slow', -1)"), 1);
    assert_int_equal(ask(db, "SELECT statedb_wait('slow', 0)"), 0);
    execute(db, "DELETE FROM statedb_watches; UPDATE t SET n = 1e18");
    interrupt_run(db, slow);
    assert_int_equal(ask(db, "SELECT count(*) FROM statedb_watches"), 0);
    close_all(db);
}

/* ---------------------------------------------------------------- descriptors */

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void test_fd(void **state)
{
    sqlite3 *db = db_open();
    int fd;

    (void)state;
    execute(db, "CREATE VIRTUAL TABLE t USING statedb(id INTEGER PRIMARY KEY, n);"
                "CREATE VIRTUAL TABLE u USING statedb(id INTEGER PRIMARY KEY, n, store=one);"
                "INSERT INTO statedb_watches(name, query) VALUES('w', 'SELECT * FROM t CROSS JOIN u WHERE t.id IN (1, 2)')");
    execute(db, "INSERT INTO t VALUES(1, 1)");
    fd = (int)ask(db, "SELECT statedb_watch_fd('w')");
    assert_true(is_readable(fd)); /* it had fired before */
    assert_int_equal(ask(db, "SELECT statedb_wait('w', 0)"), 1);
    assert_false(is_readable(fd));
    execute(db, "INSERT INTO t VALUES(3, 1)");
    assert_false(is_readable(fd));
    execute(db, "INSERT INTO u VALUES(3, 1)");
    assert_true(is_readable(fd));
    assert_int_equal(ask(db, "SELECT statedb_watch_fd('w')"), fd);
    assert_int_equal(ask(db, "SELECT statedb_wait(NULL, 0)"), 1);
    assert_false(is_readable(fd));
    execute(db, "INSERT INTO t VALUES(2, 1)");
    assert_true(is_readable(fd));
    execute(db, "DROP TABLE t");
    assert_int_equal(ask(db, "SELECT statedb_wait('w', 0)"), 1);
    assert_true(is_readable(fd)); /* the next wait does not wait: it says what is wrong */
    assert_int_equal(sqlite3_exec(db, "SELECT statedb_wait('w', -1)", NULL, NULL, NULL), SQLITE_ERROR);
    execute(db, "CREATE VIRTUAL TABLE t USING statedb(id INTEGER PRIMARY KEY, n)");
    assert_int_equal(ask(db, "SELECT statedb_wait('w', 0)"), 1);
    assert_false(is_readable(fd));
    assert_int_equal(sqlite3_exec(db, "SELECT statedb_watch_fd(NULL)", NULL, NULL, NULL), SQLITE_ERROR);
    assert_string_equal(sqlite3_errmsg(db), "statedb_watch_fd: the argument is the name of a watch");
    close_all(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_watch),
        cmocka_unit_test(test_any_watch),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_of_the_query),
        cmocka_unit_test(test_fd),
    };
    return cmocka_run_group_tests_name("sql_watch", tests, NULL, NULL);
}
