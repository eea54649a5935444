/* t_sql_plan.c - what plans cost when they run: when an index is made on the way, that nothing is
** allocated once a statement has run before, how often an UPDATE is planned, and that loops of our own
** can be interrupted. */
#include "../core/mem.h"
#include "../ext/ext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- calls that are watched */

static int depth;           /* inside calls of the module */
static int64_t n_allocated; /* blocks, meanwhile */
static sqlite3_mem_methods plain;

static void *counting_malloc(int n)
{
    n_allocated += depth > 0;
    return plain.xMalloc(n);
}

static void *counting_realloc(void *p, int n)
{
    n_allocated += depth > 0;
    return plain.xRealloc(p, n);
}

static int watched_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    depth++;
    int rc = statedb_module->xOpen(vtab, out);
    depth--;
    return rc;
}

static int watched_close(sqlite3_vtab_cursor *cur)
{
    depth++;
    int rc = statedb_module->xClose(cur);
    depth--;
    return rc;
}

static int watched_filter(sqlite3_vtab_cursor *cur, int n, const char *text, int argc,
                          sqlite3_value **argv)
{
    depth++;
    int rc = statedb_module->xFilter(cur, n, text, argc, argv);
    depth--;
    return rc;
}

static int watched_next(sqlite3_vtab_cursor *cur)
{
    depth++;
    int rc = statedb_module->xNext(cur);
    depth--;
    return rc;
}

static int watched_column(sqlite3_vtab_cursor *cur, sqlite3_context *ctx, int i)
{
    depth++;
    int rc = statedb_module->xColumn(cur, ctx, i);
    depth--;
    return rc;
}

static int watched_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    depth++;
    int rc = statedb_module->xUpdate(vtab, argc, argv, rowid);
    depth--;
    return rc;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain), SQLITE_OK);
    static sqlite3_mem_methods counting;
    counting = plain;
    counting.xMalloc = counting_malloc;
    counting.xRealloc = counting_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &counting);
}

static void exec(sqlite3 *db, const char *sql)
{
    char *err = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &err) != SQLITE_OK)
        fail_msg("%s: %s", sql, err);
}

/* A connection with the module's calls watched, and a table. `big` has 5000 rows: k is id, half is
** that without an index, few has 50 values, and text is unique. */
static sqlite3 *db_new(void)
{
    static sqlite3_module watched;
    sqlite3 *db;
    int rc;

    watched = *statedb_module;
    watched.xOpen = watched_open;
    watched.xClose = watched_close;
    watched.xFilter = watched_filter;
    watched.xNext = watched_next;
    watched.xColumn = watched_column;
    watched.xUpdate = watched_update;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    conn *c = conn_new(db, &rc);
    assert_non_null(c);
    assert_int_equal(functions_register(c), SQLITE_OK);
    assert_int_equal(manager_register(c), SQLITE_OK);
    assert_int_equal(
        sqlite3_create_module_v2(db, "statedb", &watched, conn_ref(c), conn_unref), SQLITE_OK);
    manager_create_early(c);
    conn_unref(c);
    exec(db, "CREATE VIRTUAL TABLE big USING statedb(id INTEGER PRIMARY KEY, k INT, half INT,"
             " few INT, text TEXT UNIQUE, INDEX by_k(k), INDEX by_few(few, k));"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
             " INSERT INTO big SELECT i, i, i / 2, i % 50, 'text ' || i FROM n;"
             "CREATE TABLE few(x, t); INSERT INTO few SELECT id, text FROM big WHERE id % 1000 = 0");
    return db;
}

static void db_close(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    return stmt;
}

/* Run to the end; returns the code it ended with. */
static int run(sqlite3_stmt *stmt, int64_t *n_rows)
{
    int rc;

    *n_rows = 0;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        ++*n_rows;
    sqlite3_reset(stmt);
    return rc;
}

/* ---------------------------------------------------------------- automatic indexes */

/* With no memory for core a statement fails exactly when it would make an index. */
static void test_made_when_it_pays(void **state)
{
    static const struct {
        const char *sql;
        bool makes_one;
    } cases[] = {
        {"SELECT count(*) FROM big WHERE half = 7", false},
        {"SELECT count(*) FROM big WHERE half = ?1", false},
        {"SELECT count(*) FROM big WHERE few = 7 AND half = ?1", false},
        {"SELECT count(*) FROM big WHERE half = 7 OR half = 9", false},
        {"SELECT count(*) FROM few JOIN big ON big.half = few.x", true},
        {"SELECT count(*) FROM few LEFT JOIN big ON big.half = few.x AND big.id > 0", true},
        {"SELECT (SELECT max(id) FROM big WHERE half = few.x) FROM few", true},
        {"SELECT count(*) FROM few JOIN big ON big.k = few.x", false},
        {"SELECT count(*) FROM few JOIN big ON big.k = few.x AND big.half = few.x", false},
        {"SELECT count(*) FROM few JOIN big ON big.text = few.t AND big.half = few.x", false},
        {"SELECT count(*) FROM few CROSS JOIN big ON big.few IN (0, 1, 2) AND big.half = few.x", false},
        {"SELECT count(*) FROM big x CROSS JOIN big y ON y.few = 7 AND y.half = x.half", true},
    };
    sqlite3 *db = db_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sqlite3_stmt *stmt = prepare(db, cases[i].sql);
        int64_t n_before, n_after;
        assert_int_equal(run(stmt, &n_before), SQLITE_DONE);
        sdb_mem_inject(1, true);
        int rc = run(stmt, &n_after);
        sdb_mem_inject(0, false);
        if (rc != (cases[i].makes_one ? SQLITE_NOMEM : SQLITE_DONE))
            fail_msg("%s: %d", cases[i].sql, rc);
        assert_int_equal(run(stmt, &n_after), SQLITE_DONE);
        assert_int_equal(n_after, n_before);
        sqlite3_finalize(stmt);
    }
    db_close(db);
}

/* ---------------------------------------------------------------- allocations */

/* Not with a list of texts: SQLite copies each to hand it over. */
static void test_no_allocation_in_steady_state(void **state)
{
    static const char *const cases[] = {
        "SELECT k FROM big WHERE id = 7",
        "SELECT k FROM big WHERE text = 'text 7'",
        "SELECT text FROM big WHERE k = 7",
        "SELECT * FROM big",
        "SELECT * FROM big WHERE k > 100 AND k < 200 ORDER BY k DESC",
        "SELECT * FROM big WHERE text >= 'text 4' AND text < 'text 5' ORDER BY text",
        "SELECT * FROM big WHERE half = 7",
        "SELECT * FROM big WHERE id IN (1, 5, 7, 1000000)",
        "SELECT * FROM big WHERE k IN (1, 5, 7, 1000000) ORDER BY k",
        "SELECT * FROM big WHERE few = 7 AND k IN (7, 57, 8)",
        "SELECT * FROM few JOIN big ON big.id = few.x",
        "SELECT * FROM few JOIN big ON big.k = few.x",
        "SELECT * FROM few JOIN big ON big.text = few.t",
        "SELECT * FROM few JOIN big ON big.text = few.t AND big.half = few.x / 2",
        "SELECT y.k FROM big x CROSS JOIN big y ON y.id = x.half", /* they are fetched ahead */
        "SELECT z.k FROM big x CROSS JOIN big y ON y.k = x.half CROSS JOIN big z ON z.id = y.k",
        "SELECT * FROM big WHERE k IN (SELECT x FROM few)",
        "SELECT DISTINCT few FROM big",
        "SELECT few, count(*) FROM big GROUP BY few",
        "SELECT count(*) FROM big",
        "SELECT max(k) FROM big",
    };
    sqlite3 *db = db_new();

    (void)state;
    for (int in_transaction = 0; in_transaction < 2; in_transaction++) {
        if (in_transaction)
            exec(db, "BEGIN; UPDATE big SET half = half WHERE id = 1");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            sqlite3_stmt *stmt = prepare(db, cases[i]);
            int64_t n_before, n_after;
            for (int k = 0; k < 2; k++)
                assert_int_equal(run(stmt, &n_before), SQLITE_DONE);
            if (n_before == 0)
                fail_msg("%s: no rows", cases[i]);
            n_allocated = 0;
            sdb_mem_inject(1, true);
            int rc = run(stmt, &n_after);
            sdb_mem_inject(0, false);
            if (rc != SQLITE_DONE || n_allocated)
                fail_msg("%s: %d, %d allocations", cases[i], rc, (int)n_allocated);
            assert_int_equal(n_after, n_before);
            sqlite3_finalize(stmt);
        }
    }
    exec(db, "COMMIT");
    db_close(db);
}

static int64_t one(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = prepare(db, sql);

    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return n;
}

/* Cursors stay open for the next run of their statement, but only for so many statements; and none of them
** hides what has been written since, nor keeps what is dead from being freed. */
static void test_many_statements_in_turn(void **state)
{
    static const char *const cases[] = {
        "SELECT half FROM big WHERE id = 7",     "SELECT half FROM big WHERE k = 7",
        "SELECT max(half) FROM big WHERE k = 7", "SELECT half FROM big WHERE text = 'text 7'",
        "SELECT half FROM big WHERE few = 7 AND k = 7",
        "SELECT b.half FROM big a CROSS JOIN big b ON b.id = a.id WHERE a.k = 7",
        "SELECT a.half FROM big a CROSS JOIN big b ON b.k = a.k WHERE a.id = 7",
    };
    enum { KINDS = sizeof cases / sizeof *cases, MANY = 20, WARM = 10, ROUNDS = 50 };
    sqlite3_stmt *stmt[MANY];
    sqlite3 *db = db_new();
    int64_t live = 0;

    (void)state;
    for (int i = 0; i < MANY; i++)
        stmt[i] = prepare(db, cases[i % KINDS]);
    for (int round = 0; round < ROUNDS; round++) {
        char sql[64];
        snprintf(sql, sizeof sql, "UPDATE big SET half = %d WHERE id = 7", round);
        exec(db, sql);
        for (int turn = 0; turn < 3; turn++)
            for (int i = 0; i < MANY; i++) {
                n_allocated = 0;
                assert_int_equal(sqlite3_step(stmt[i]), SQLITE_ROW);
                assert_int_equal(sqlite3_column_int64(stmt[i], 0), round);
                assert_int_equal(sqlite3_step(stmt[i]), SQLITE_DONE);
                assert_int_equal(sqlite3_reset(stmt[i]), SQLITE_OK);
                assert_int_equal(round >= WARM ? n_allocated : 0, 0);
            }
        if (round == WARM)
            live = one(db, "SELECT statedb_memory('live')");
    }
    assert_int_equal(one(db, "SELECT statedb_memory('live')"), live);
    exec(db, "DROP TABLE big");
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(sqlite3_step(stmt[i]), SQLITE_ERROR);
        sqlite3_finalize(stmt[i]);
    }
    assert_int_equal(one(db, "SELECT count(*) FROM few"), 5);
    db_close(db);
}

/* A reader beside a writer: what it had open is of no use after each commit, and is not kept. */
static void test_reader_beside_writer(void **state)
{
    static const char CREATE[] =
        "CREATE VIRTUAL TABLE temp.s USING statedb(id INTEGER PRIMARY KEY, v INT, store='beside')";
    sqlite3 *writer = db_new(), *reader = db_new();

    (void)state;
    exec(writer, CREATE);
    exec(writer, "INSERT INTO s VALUES (1, 0)");
    exec(reader, CREATE);
    sqlite3_stmt *write = prepare(writer, "UPDATE s SET v = v + 1 WHERE id = 1");
    sqlite3_stmt *read = prepare(reader, "SELECT v FROM s WHERE id = 1");
    for (int i = 1; i <= 20; i++) {
        int64_t n;
        assert_int_equal(run(write, &n), SQLITE_DONE);
        n_allocated = 0;
        assert_int_equal(sqlite3_step(read), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int64(read, 0), i);
        assert_int_equal(sqlite3_step(read), SQLITE_DONE);
        assert_int_equal(sqlite3_reset(read), SQLITE_OK);
        assert_int_equal(i > 1 ? n_allocated : 0, 0);
    }
    sqlite3_finalize(write);
    sqlite3_finalize(read);
    exec(writer, "DROP TABLE s");
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    db_close(writer);
}

/* Text that is bound with its length has no NUL behind it, and needs none. */
static void test_bound_text_is_not_copied(void **state)
{
    static const char *const cases[] = {
        "SELECT k FROM big WHERE text = ?1",
        "SELECT k FROM big WHERE text BETWEEN ?1 AND ?1",
        "UPDATE big SET text = ?1 WHERE id = 7",
        "UPDATE big SET half = 3 WHERE text = ?1",
        "INSERT OR REPLACE INTO big VALUES (7, 7, 3, 7, ?1)",
        "DELETE FROM big WHERE text = ?1",
        "INSERT INTO big VALUES (7, 7, 3, 7, ?1)",
        "DELETE FROM big WHERE text = ?1 AND k = 7",
    };
    sqlite3 *db = db_new();
    char *text = malloc(6); /* a sanitizer sees whoever reads on */

    (void)state;
    assert_non_null(text);
    memcpy(text, "text 7", 6);
    exec(db, "BEGIN; UPDATE big SET half = half WHERE id = 1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sqlite3_stmt *stmt = prepare(db, cases[i]);
        int64_t n, n_changed = sqlite3_total_changes64(db);
        assert_int_equal(sqlite3_bind_text(stmt, 1, text, 6, SQLITE_STATIC), SQLITE_OK);
        n_allocated = 0;
        assert_int_equal(run(stmt, &n), SQLITE_DONE);
        if (n_allocated || n + sqlite3_total_changes64(db) - n_changed != 1)
            fail_msg("%s: %d allocations", cases[i], (int)n_allocated);
        sqlite3_finalize(stmt);
    }
    free(text);
    exec(db, "COMMIT");
    db_close(db);
}

/* ---------------------------------------------------------------- interrupts */

/* An UPDATE by a key that has one row as a rule is planned again where there are two, and not a second
** time. One by a key of many rows, or a list, is not planned so. */
static void test_one_row_as_a_rule(void **state)
{
    static const struct {
        const char *sql;
        int k, n_changed, n_prepared;
    } cases[] = {
        {"UPDATE big SET half = 1 WHERE k = ?1", 7, 1, 0},
        {"UPDATE big SET half = 1 WHERE k = ?1", 5001, 0, 0},
        {"UPDATE big SET half = 1 WHERE k = ?1", 8, 2, 1},
        {"UPDATE big SET half = 1 WHERE k = ?1 AND half >= 0", 8, 2, 1},
        {"UPDATE big SET half = 1 WHERE few = ?1 AND k = 8", 8, 2, 1},
        {"UPDATE big SET half = 1 WHERE k = 8 AND half >= ?1", 0, 2, 0}, /* that is counted */
        {"UPDATE big SET half = 1 WHERE few = ?1", 8, 101, 0},
        {"UPDATE big SET half = 1 WHERE k IN (?1, 9)", 8, 3, 0},
        {"UPDATE big SET half = 1 WHERE text = ?1", 8, 1, 0},
        {"UPDATE big SET half = 1 WHERE id = ?1", 8, 1, 0},
    };
    sqlite3 *db = db_new();

    (void)state;
    exec(db, "INSERT INTO big VALUES (5001, 8, 8, 8, '8')");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sqlite3_stmt *stmt = prepare(db, cases[i].sql);
        int n_prepared = 0;
        for (int k = 0; k < 3; k++) {
            int64_t n, before = sqlite3_total_changes64(db);
            assert_int_equal(sqlite3_bind_int(stmt, 1, cases[i].k), SQLITE_OK);
            assert_int_equal(run(stmt, &n), SQLITE_DONE);
            assert_int_equal(sqlite3_total_changes64(db) - before, cases[i].n_changed);
            n_prepared += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 1);
        }
        if (n_prepared != cases[i].n_prepared)
            fail_msg("%s: %d", cases[i].sql, n_prepared);
        sqlite3_finalize(stmt);
    }
    db_close(db);
}

static void interrupt(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    sqlite3_interrupt(sqlite3_context_db_handle(ctx));
    sqlite3_result_value(ctx, argv[0]);
}

/* The interrupt comes while SQLite works out an argument of xFilter, so that the loops in xFilter meet
** it: passing over rows in vain, making an index, looking for the longest match without one. */
static void test_interrupts(void **state)
{
    static const char *const cases[] = {
        "SELECT count(*) FROM big WHERE half = interrupt(-1)",
        "SELECT count(*) FROM few JOIN big ON big.half = interrupt(few.x)",
        "INSERT INTO big(big) VALUES(interrupt('CREATE INDEX i ON big(half)'))",
        "INSERT INTO big(big) VALUES(interrupt('integrity-check'))",
        "SELECT count(*) FROM nets WHERE statedb_lpm(net, interrupt('10.1.2.3'))",
    };
    sqlite3 *db = db_new();
    int64_t n;

    (void)state;
    assert_int_equal(sqlite3_create_function(db, "interrupt", 1, SQLITE_UTF8, NULL, interrupt, NULL,
                                             NULL),
                     SQLITE_OK);
    exec(db, "WITH RECURSIVE n(i) AS (SELECT 10000 UNION ALL SELECT i + 1 FROM n WHERE i < 90000)"
             " INSERT INTO big SELECT i, i, i / 2, i % 50, 'text ' || i FROM n;"
             "CREATE VIRTUAL TABLE nets USING statedb(net); INSERT INTO nets SELECT '10.0.0.0/8' FROM big");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sqlite3_stmt *stmt = prepare(db, cases[i]);
        assert_int_equal(run(stmt, &n), SQLITE_INTERRUPT);
        sqlite3_finalize(stmt);
    }
    sqlite3_stmt *stmt = prepare(db, "SELECT count(*) FROM big WHERE half = 7");
    assert_int_equal(run(stmt, &n), SQLITE_DONE);
    sqlite3_finalize(stmt);
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_when_it_pays),
        cmocka_unit_test(test_no_allocation_in_steady_state),
        cmocka_unit_test(test_many_statements_in_turn),
        cmocka_unit_test(test_reader_beside_writer),
        cmocka_unit_test(test_bound_text_is_not_copied),
        cmocka_unit_test(test_one_row_as_a_rule),
        cmocka_unit_test(test_interrupts),
    };
    return cmocka_run_group_tests_name("sql_plan", tests, setup, NULL);
}
