/* t_sql_transaction.c - the transaction manager (ext/transaction.c) in difficulties: when
** a connection closes, when the manager appears and vanishes in a transaction, when COMMIT fails.
** What SQL alone can show is in transaction.test. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */

#include "../core/mem.h"
#include "../ext/statedb_static.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- SQL */

static char output[10000];

static int output_row(void *p, int n, char **values, char **names)
{
    (void)p;
    (void)names;
    for (int i = 0; i < n; i++) {
        if (*output)
            strcat(output, " ");
        strcat(output, values[i] ? values[i] : "NULL");
    }
    return 0;
}

/* Run statements; together they return this, or the last fails with this message. */
#define assert_sql(db, sql, expected) sql_check(db, sql, expected, __LINE__)

static void sql_check(sqlite3 *db, const char *sql, const char *expected, int line)
{
    char *err = NULL;

    *output = 0;
    if (sqlite3_exec(db, sql, output_row, NULL, &err))
        snprintf(output, sizeof output, "%s", err);
    sqlite3_free(err);
    if (strcmp(output, expected) != 0)
        fail_msg("line %d: %s: %s instead of %s", line, sql, output, expected);
}

static sqlite3 *db_open(const char *file)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    return db;
}

static void db_load(sqlite3 *db)
{
    char *err = NULL;

    assert_int_equal(sqlite3_statedb_static_init(db, &err, NULL), SQLITE_OK);
}

/* A connection that has run this before the extension was loaded. */
static sqlite3 *db_new(const char *before)
{
    sqlite3 *db = db_open(":memory:");

    assert_sql(db, before, "");
    db_load(db);
    return db;
}

static void db_close(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- closing */

static void test_close(void **state)
{
    static const char *const scripts[] = {
        "",
        "CREATE VIRTUAL TABLE t USING statedb(a)",
        "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1)",
        "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1); DROP TABLE t",
        "BEGIN",
        "BEGIN; CREATE VIRTUAL TABLE t USING statedb(a)",
        "BEGIN; CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1); ROLLBACK",
        "CREATE VIRTUAL TABLE t USING statedb(a); CREATE VIRTUAL TABLE temp.u USING statedb(a);"
        "INSERT INTO t VALUES(1); BEGIN; SAVEPOINT s; INSERT INTO u VALUES(1); DROP TABLE t;"
        "SAVEPOINT s2; DELETE FROM u",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        sqlite3 *db = db_new("");

        assert_sql(db, scripts[i], "");
        db_close(db);
        db = db_new("BEGIN; SAVEPOINT young");
        assert_sql(db, i == 0 || i == 3 ? scripts[i] : "", "");
        db_close(db);
    }
}

static void test_close_with_a_statement_pending(void **state)
{
    sqlite3 *db = db_new("");
    sqlite3_stmt *stmt;

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1), (2)", "");
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM t", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_close(db), SQLITE_BUSY);
    assert_sql(db, "INSERT INTO t VALUES(3); SELECT count(*) FROM t; BEGIN; DELETE FROM t", "3");
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(stmt, 0), 2);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- loading */

static void test_loading_again_keeps_the_tables(void **state)
{
    sqlite3 *db = db_new("");

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1)", "");
    db_load(db);
    assert_sql(db, "INSERT INTO t VALUES(2); SELECT * FROM t; BEGIN; INSERT INTO t VALUES(3)",
               "1 2");
    db_load(db);
    assert_sql(db, "INSERT INTO t VALUES(4); ROLLBACK; SELECT * FROM t", "1 2");
    db_close(db);
}

static void test_auto_extension(void **state)
{
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))sqlite3_statedb_static_init),
                     SQLITE_OK);
    db = db_open(":memory:");
    sqlite3_reset_auto_extension();
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1)", "");
    assert_sql(db, "BEGIN; DELETE FROM t; ROLLBACK; SELECT * FROM t", "1");
    db_close(db);
}

static void test_load_in_a_transaction(void **state)
{
    sqlite3 *db = db_new("BEGIN");

    (void)state;
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1), (2);"
               "SELECT * FROM t; ROLLBACK",
               "1 2");
    assert_sql(db, "SELECT * FROM t", "no such table: t");
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(7); BEGIN;"
               "INSERT INTO t VALUES(8); SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT;"
               "SELECT * FROM t",
               "7 8");
    db_close(db);
}

static void test_load_after_a_savepoint(void **state)
{
    sqlite3 *db = db_new("BEGIN; SAVEPOINT one");

    (void)state;
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a UNIQUE); INSERT INTO t VALUES(1), (2);"
               "SAVEPOINT two; INSERT INTO t VALUES(3); ROLLBACK TO two; SELECT * FROM t",
               "1 2");
    assert_sql(db, "INSERT INTO t VALUES(5), (1)", "UNIQUE constraint failed: t.a");
    assert_sql(db, "SELECT * FROM t; ROLLBACK TO one", "1 2");
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(b); INSERT INTO t VALUES(3);"
               "SAVEPOINT two; INSERT INTO t VALUES(4); ROLLBACK TO two; SELECT * FROM t",
               "3");
    assert_sql(db, "ROLLBACK TO one; COMMIT", "");
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(c); SELECT * FROM t", "");
    db_close(db);

    db = db_new("SAVEPOINT one");
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1);"
               "RELEASE one; SELECT * FROM t",
               "1");
    db_close(db);
}

/* ---------------------------------------------------------------- the manager's table */

/* The manager is made in the middle of a statement, and goes with it when it fails. */
static void test_temp_store(void **state)
{
    sqlite3 *db = db_new("");

    (void)state;
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a UNIQUE); INSERT INTO t VALUES(1);"
               "PRAGMA temp_store = MEMORY; SELECT * FROM t",
               "1");
    assert_sql(db, "BEGIN; SAVEPOINT s; INSERT INTO t VALUES(5), (1)",
               "UNIQUE constraint failed: t.a");
    assert_sql(db, "INSERT INTO t VALUES(5), (6); SELECT * FROM t", "1 5 6");
    assert_sql(db, "SAVEPOINT s2; DELETE FROM t; ROLLBACK TO s2; SELECT * FROM t", "1 5 6");
    assert_sql(db, "ROLLBACK TO s; INSERT INTO t VALUES(7); COMMIT; SELECT * FROM t", "1 7");
    assert_sql(db, "PRAGMA temp_store = FILE; INSERT INTO t VALUES(8), (1)",
               "UNIQUE constraint failed: t.a");
    assert_sql(db, "BEGIN; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT; SELECT * FROM t",
               "1 7");
    db_close(db);
}

static void test_drop_of_the_manager(void **state)
{
    sqlite3 *db = db_new("");

    (void)state;
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a UNIQUE); DROP TABLE temp.statedb_txn;"
               "BEGIN; INSERT INTO t VALUES(1); COMMIT; BEGIN; INSERT INTO t VALUES(2)",
               "");
    assert_sql(db, "DROP TABLE temp.statedb_txn", "database table is locked");
    assert_sql(db, "ROLLBACK; SELECT * FROM t; DROP TABLE temp.statedb_txn", "1");
    assert_sql(db, "BEGIN; INSERT INTO t VALUES(2); SAVEPOINT s; INSERT INTO t VALUES(3), (1)",
               "UNIQUE constraint failed: t.a");
    assert_sql(db, "INSERT INTO t VALUES(4); ROLLBACK TO s; COMMIT; SELECT * FROM t", "1 2");
    db_close(db);
}

/* SQLite reconnects every table in the middle of a transaction; the old object stays in charge. */
static void test_two_managers_in_one_transaction(void **state)
{
    sqlite3 *db = db_new("");

    (void)state;
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a); BEGIN; INSERT INTO t VALUES(1);"
               "SAVEPOINT s; CREATE TABLE n(x); INSERT INTO t VALUES(2); ROLLBACK TO s;"
               "DELETE FROM temp.statedb_txn; INSERT INTO t VALUES(3);"
               "SAVEPOINT s2; DELETE FROM t; ROLLBACK TO s2; SELECT * FROM t",
               "1 3");
    assert_sql(db, "ROLLBACK TO s; INSERT INTO t VALUES(4); COMMIT; SELECT * FROM t", "1 4");
    db_close(db);
}

static void test_a_name_that_is_taken(void **state)
{
    sqlite3 *db = db_new("CREATE TEMP TABLE statedb_txn(x); INSERT INTO statedb_txn VALUES(1)");

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a)",
               "statedb: cannot create temp.statedb_txn, by which transactions are followed: table "
               "statedb_txn already exists");
    assert_sql(db, "SELECT * FROM statedb_txn", "1");
    db_close(db);
}

/* ---------------------------------------------------------------- COMMIT that fails */

static int commit_veto(void *p)
{
    return *(int *)p;
}

static void test_commit_hook(void **state)
{
    sqlite3 *db = db_new("");
    int is_vetoed = 0;

    (void)state;
    sqlite3_commit_hook(db, commit_veto, &is_vetoed);
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a); INSERT INTO t VALUES(1)", "");
    is_vetoed = 1;
    assert_sql(db, "INSERT INTO t VALUES(2)", "constraint failed");
    assert_sql(db, "BEGIN; DELETE FROM t; COMMIT", "constraint failed");
    assert_sql(db, "SELECT * FROM t", "1");
    db_close(db);
}

/* A reader of the file makes COMMIT fail after xSync; the transaction goes on. */
static void test_commit_while_the_file_is_read(void **state)
{
    char file[] = "/tmp/t_sql_transaction.XXXXXX";
    sqlite3 *db;
    sqlite3 *reader;

    (void)state;
    assert_true(mkstemp(file) >= 0);
    db = db_open(file);
    reader = db_open(file);
    db_load(db);
    assert_sql(db,
               "CREATE TABLE n(x); INSERT INTO n VALUES(1);"
               "CREATE VIRTUAL TABLE temp.t USING statedb(a UNIQUE)",
               "");
    assert_sql(reader, "BEGIN; SELECT * FROM n", "1");
    assert_sql(db, "BEGIN; INSERT INTO t VALUES(1); INSERT INTO n VALUES(2); COMMIT",
               "database is locked");
    assert_sql(db,
               "INSERT INTO t VALUES(2), (3); SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT",
               "database is locked");
    assert_sql(db, "INSERT INTO t VALUES(4), (1)", "UNIQUE constraint failed: t.a");
    assert_sql(reader, "COMMIT", "");
    assert_sql(db, "COMMIT; SELECT * FROM t, n WHERE x = 2", "1 2 2 2 3 2");
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    db_close(db);
    remove(file);
}

/* ---------------------------------------------------------------- statements in statements */

static void run_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const char *sql = (const char *)sqlite3_value_text(argv[0]);

    (void)argc;
    if (sqlite3_exec(sqlite3_context_db_handle(ctx), sql, NULL, NULL, NULL))
        sqlite3_result_error(ctx, "inner statement failed", -1);
}

static void test_writes_by_a_function(void **state)
{
    sqlite3 *db = db_new("CREATE TABLE n(x); INSERT INTO n VALUES(1), (2)");

    (void)state;
    sqlite3_create_function(db, "run", 1, SQLITE_UTF8, NULL, run_function, NULL, NULL);
    assert_sql(db,
               "CREATE VIRTUAL TABLE t USING statedb(a UNIQUE);"
               "INSERT INTO n SELECT run('INSERT INTO t VALUES(' || x || ')') FROM n;"
               "SELECT * FROM t",
               "1 2");
    assert_sql(db,
               "BEGIN; INSERT INTO t SELECT CASE x WHEN 1 THEN 5 ELSE 1 END FROM n "
               "WHERE x > 0 AND run('INSERT INTO t VALUES(' || (x + 10) || ')') IS NULL",
               "UNIQUE constraint failed: t.a");
    assert_sql(db, "SELECT * FROM t; COMMIT; SELECT * FROM t", "1 2 1 2");
    db_close(db);
}

/* ---------------------------------------------------------------- outside of BEGIN */

/* What a connection answers to these, one after the other, while the rows of a statement that has written have
** not all been read: with what it says itself, errors included. */
static void run_beneath(sqlite3 *db, const char *create, const char *const *scripts, char *out)
{
    sqlite3_stmt *stmt;

    assert_sql(db, create, "");
    sqlite3_create_function(db, "run", 1, SQLITE_UTF8, NULL, run_function, NULL, NULL);
    assert_int_equal(sqlite3_prepare_v2(db, "INSERT INTO t VALUES(1, 1), (2, run(?1)) RETURNING a", -1, &stmt, NULL),
                     SQLITE_OK);
    sqlite3_bind_text(stmt, 1, scripts[0], -1, SQLITE_STATIC);
    int rc = sqlite3_step(stmt);
    *out = 0;
    for (scripts++; *scripts; scripts++) {
        char *err = NULL;
        bool is_end = strcmp(*scripts, "end") == 0;

        *output = 0;
        if (is_end)
            snprintf(output, sizeof output, "%d", sqlite3_finalize(stmt));
        else if (sqlite3_exec(db, *scripts, output_row, NULL, &err))
            snprintf(output + strlen(output), 200, " %s", err);
        sqlite3_free(err);
        sprintf(out + strlen(out), "%s -> %s\n", *scripts, output);
    }
    sprintf(out + strlen(out), "%d %d", rc, sqlite3_get_autocommit(db));
}

/* The first statement is run in the middle of the one that writes. The table that does for the manager does so in the
** transaction that begins there, until there is more to be told than a table is. */
static void test_outside_of_begin(void **state)
{
#define ALL "SELECT a, b FROM t ORDER BY a; SELECT a, b FROM u ORDER BY a"
    static const char *const scripts[][20] = {
        {"", "DROP TABLE t", "DROP TABLE u", "INSERT INTO u VALUES(1, 1), (1, 2)", "INSERT INTO t VALUES(3, 3)", ALL,
         "end", ALL, "DROP TABLE t", "SELECT a FROM u"},
        {"", "BEGIN", "INSERT INTO t VALUES(3, 3)", ALL, "end", ALL, "ROLLBACK", ALL},
        {"", "BEGIN", "end", "SAVEPOINT s", "INSERT INTO t VALUES(3, 3), (3, 4)", "DELETE FROM t", "DROP TABLE t",
         "SELECT a FROM u", "ROLLBACK TO s", ALL, "UPDATE t SET b = 9", "COMMIT", ALL},
        {"", "SAVEPOINT s", "INSERT INTO u VALUES(1, 1)", "end", "UPDATE t SET b = 7", "ROLLBACK TO s", ALL,
         "INSERT INTO t VALUES(4, 4)", "RELEASE s", ALL},
        {"", "BEGIN", "end", "ALTER TABLE t RENAME TO v", "INSERT INTO v VALUES(5, 5)", "SAVEPOINT s", "DROP TABLE v",
         "ROLLBACK TO s", "SELECT a FROM v", "ROLLBACK", ALL},
        {"BEGIN", ALL, "INSERT INTO t VALUES(3, 3)", "end", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", ALL,
         "COMMIT", ALL},
        {"BEGIN; SAVEPOINT s", "end", "DELETE FROM t WHERE a = 1", ALL, "ROLLBACK TO s", ALL, "COMMIT", ALL},
        {"INSERT INTO u VALUES(1, 1); SAVEPOINT s; INSERT INTO u VALUES(2, 2)", "ROLLBACK TO s", ALL, "end", ALL, "RELEASE s"},
        {"DROP TABLE u", ALL, "end", ALL},
        {"INSERT INTO u VALUES(1, 1), (2, 2), (2, 3)", ALL, "end", ALL},
        {"", "SELECT * FROM t WHERE run('BEGIN') IS NULL AND a = 1", "INSERT INTO u VALUES(1, 1)", "end", "ROLLBACK", ALL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        static char native[20000], ours[20000];
        sqlite3 *db = db_open(":memory:");

        run_beneath(db, "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE u(a INTEGER PRIMARY KEY, b)", scripts[i], native);
        db_close(db);
        db = db_new("");
        run_beneath(db,
                    "CREATE VIRTUAL TABLE t USING statedb(a INTEGER PRIMARY KEY, b);"
                    "CREATE VIRTUAL TABLE u USING statedb(a INTEGER PRIMARY KEY, b)",
                    scripts[i], ours);
        db_close(db);
        assert_string_equal(ours, native);
    }
#undef ALL
}

/* A statement with RETURNING keeps its savepoint until its last row is read, beyond others'. */
static void test_savepoints_that_overlap(void **state)
{
    sqlite3 *db = db_new("CREATE TABLE n(x); BEGIN");
    sqlite3_stmt *first;
    sqlite3_stmt *second;

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a UNIQUE)", "");
    sqlite3_prepare_v2(db, "INSERT INTO n VALUES(1), (2) RETURNING x", -1, &first, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO t VALUES(3), (4) RETURNING a", -1, &second, NULL);
    assert_int_equal(sqlite3_step(first), SQLITE_ROW);
    assert_sql(db, "INSERT INTO t VALUES(1), (2)", "");
    assert_int_equal(sqlite3_step(second), SQLITE_ROW);
    assert_int_equal(sqlite3_finalize(first), SQLITE_OK);
    assert_sql(db, "INSERT INTO t VALUES(5), (1)", "UNIQUE constraint failed: t.a");
    assert_int_equal(sqlite3_finalize(second), SQLITE_OK);
    assert_sql(db, "INSERT INTO t VALUES(6), (1)", "UNIQUE constraint failed: t.a");
    assert_sql(db, "SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT; SELECT * FROM t", "1 2 3 4");
    db_close(db);
}

static int progress_stop(void *p)
{
    return --*(int *)p <= 0;
}

static void test_interrupts(void **state)
{
    sqlite3 *db = db_new("");

    (void)state;
    assert_sql(db, "CREATE VIRTUAL TABLE t USING statedb(a)", "");
    for (int i = 1; i < 100; i++) {
        int left = i;

        sqlite3_progress_handler(db, 1, progress_stop, &left);
        sqlite3_exec(db,
                     "BEGIN; INSERT INTO t VALUES(1), (2); INSERT INTO t SELECT a FROM t; COMMIT",
                     NULL, NULL, NULL);
        sqlite3_progress_handler(db, 0, NULL, NULL);
        if (!sqlite3_get_autocommit(db))
            assert_sql(db, "ROLLBACK", "");
        assert_sql(db,
                   "INSERT INTO t(t) VALUES('integrity-check');"
                   "SELECT count(*) IN (0, 4) FROM t; DELETE FROM t",
                   "1");
    }
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_with_a_statement_pending),
        cmocka_unit_test(test_loading_again_keeps_the_tables),
        cmocka_unit_test(test_auto_extension),
        cmocka_unit_test(test_load_in_a_transaction),
        cmocka_unit_test(test_load_after_a_savepoint),
        cmocka_unit_test(test_temp_store),
        cmocka_unit_test(test_drop_of_the_manager),
        cmocka_unit_test(test_two_managers_in_one_transaction),
        cmocka_unit_test(test_a_name_that_is_taken),
        cmocka_unit_test(test_commit_hook),
        cmocka_unit_test(test_commit_while_the_file_is_read),
        cmocka_unit_test(test_writes_by_a_function),
        cmocka_unit_test(test_outside_of_begin),
        cmocka_unit_test(test_savepoints_that_overlap),
        cmocka_unit_test(test_interrupts),
    };
    return cmocka_run_group_tests_name("sql_transaction", tests, NULL, NULL);
}
