/* t_sql_ahead.c - joins whose inner side is fetched ahead: who follows whom, and until when. */
#include "../core/mem.h"
#include "../ext/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static conn *c;
static sqlite3 *db;

static void exec(const char *sql)
{
    char *err = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &err) != SQLITE_OK)
        fail_msg("%s: %s", sql, err);
}

/* Tables too large for the cache, for what core takes for that: a names rows of b and c in columns, b of c. Of c,
** k has each value up to ten times. */
static int setup(void **state)
{
    int rc;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    c = conn_new(db, &rc);
    assert_non_null(c);
    assert_int_equal(functions_register(c), SQLITE_OK);
    assert_int_equal(manager_register(c), SQLITE_OK);
    assert_int_equal(
        sqlite3_create_module_v2(db, "statedb", statedb_module, conn_ref(c), conn_unref), SQLITE_OK);
    manager_create_early(c);
    exec("CREATE VIRTUAL TABLE a USING statedb(id INTEGER PRIMARY KEY, x INT, b INT, c INT, t TEXT, INDEX by_x(x));"
         "CREATE VIRTUAL TABLE b USING statedb(id INTEGER PRIMARY KEY, c INT, t TEXT UNIQUE);"
         "CREATE VIRTUAL TABLE c USING statedb(id INTEGER PRIMARY KEY, k INT, l INT, INDEX by_k(k), INDEX by_kl(l, k));"
         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000)"
         " INSERT INTO b SELECT i, i * 7919 % 70000 + 1, 'text ' || (i * 7919 % 70000) FROM n;"
         "INSERT INTO c SELECT id, c / 10, c FROM b;"
         "INSERT INTO a SELECT id, c, c * 31 % 70000 + 1, c * 37 % 70000 + 1, t FROM b WHERE id % 10 = 0;"
         "CREATE TABLE native AS SELECT * FROM a;"
         "CREATE VIRTUAL TABLE route USING statedb(id INTEGER PRIMARY KEY, net TEXT, b INT);"
         "CREATE VIRTUAL TABLE packet USING statedb(dst TEXT, x);"
         "INSERT INTO route SELECT id, '1' || (id / 65536) || '.' || (id / 256 % 256) || '.' || (id % 256) || '.0/24',"
         " c FROM b;"
         "INSERT INTO route(route) VALUES ('CREATE INDEX by_net ON route(net) USING lpm');"
         "INSERT INTO packet SELECT '1' || (x % 3) || '.' || (x * 7 / 256 % 256) || '.' || (x % 256) || '.7', x FROM a;"
         "UPDATE packet SET dst = NULL WHERE x % 91 = 0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    conn_unref(c);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
    return 0;
}

/* "x>y.2 ": x follows column 2 of y (0: the rowid), "x>y.2=7 " that and the number 7; for all that follow now,
** the newest cursor first. */
static const char *following(void)
{
    static char text[100];
    size_t n = 0;

    text[0] = '\0';
    for (const cursor *f = c->stores->open; f; f = f->next) {
        if (!f->follows)
            continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s>%s", cursor_vtable(f)->name,
                              cursor_vtable(f->leader)->name);
        for (int i = 0; i < f->n_from; i++) {
            const origin *from = &f->from[i];
            n += (size_t)snprintf(text + n, sizeof text - n, from->columns ? ".%d" : "=%d",
                                  from->columns ? __builtin_ctzll(from->columns) : (int)from->number);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, " ");
    }
    return text;
}

typedef struct outcome {
    char most[100]; /* that was seen of following() */
    char last[100]; /* the last but "" */
    bool is_over;   /* there was none with the last row */
    int64_t n, sum;
} outcome;

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    return stmt;
}

/* So many rows more. */
static void step(sqlite3_stmt *stmt, int64_t n, outcome *o)
{
    while (n-- > 0 && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *now = following();
        o->n++;
        o->sum = (o->sum * 31 + sqlite3_column_int64(stmt, 0)) % 1000000007;
        o->is_over = !*now;
        if (strlen(now) > strlen(o->most))
            strcpy(o->most, now);
        if (*now)
            strcpy(o->last, now);
    }
}

static void assert_nobody_follows(void)
{
    assert_null(c->stores->open);
    for (const cursor *cur = c->stores->idle; cur; cur = cur->next) {
        assert_null(cur->leader);
        assert_false(cur->follows);
        assert_int_equal(cur->n_followers, 0);
        assert_false(cur->is_ahead);
    }
}

static outcome run(const char *sql, int64_t limit)
{
    sqlite3_stmt *stmt = prepare(sql);
    outcome o = {0};

    step(stmt, limit, &o);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_nobody_follows();
    return o;
}

static void test_who_follows(void **state)
{
    static const struct {
        const char *sql, *most;
    } cases[] = {
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b", "b>a.3 "},
        {"SELECT b.c FROM a LEFT JOIN b ON b.id = a.b", "b>a.3 "},
        {"SELECT b.c FROM a CROSS JOIN b ON b.t = a.t", "b>a.5 "},
        {"SELECT c.id FROM a CROSS JOIN c ON c.k = a.b", "c>a.3 "},
        {"SELECT c.id FROM a CROSS JOIN c ON c.id = a.rowid", "c>a.0 "},
        {"SELECT b.c + c.k FROM a CROSS JOIN b ON b.id = a.b CROSS JOIN c ON c.id = a.c", "c>a.4 b>a.3 "},
        {"SELECT b.c + c.k FROM a CROSS JOIN b ON b.id = a.b CROSS JOIN c ON c.id = b.c", "c>b.2 b>a.3 "},
        {"SELECT c.k FROM a CROSS JOIN b ON b.t = a.t CROSS JOIN c ON c.k = b.c", "c>a.2 b>a.5 "},
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b ORDER BY a.id DESC", "b>a.3 "},
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b WHERE a.x > 100 ORDER BY a.x", "b>a.3 "},
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b WHERE a.x IN (SELECT x FROM native)", "b>a.3 "},
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b WHERE a.x % 2", "b>a.3 "},
        {"SELECT y.c FROM b x CROSS JOIN b y ON y.id = x.c", "b>b.2 "},
        {"SELECT route.id FROM packet CROSS JOIN route ON statedb_lpm(net, dst)", "route>packet.1 "},
        {"SELECT b.c FROM packet CROSS JOIN route ON statedb_lpm(net, dst) CROSS JOIN b ON b.id = route.b",
         "b>route.3 route>packet.1 "},
        {"SELECT y.id FROM c x CROSS JOIN c y ON y.l = x.l AND y.k = x.k", "c>c.3.2 "},
        {"SELECT a.id FROM a LEFT JOIN c ON c.l = a.x AND c.k = 7", "c>a.2=7 "},
        {"SELECT a.id FROM a LEFT JOIN c ON c.l = 7 AND c.k = a.x", "c>a=7.2 "},
        /* nobody: a value is in no column, or in those of no table of ours */
        {"SELECT b.c FROM a CROSS JOIN b ON b.id = a.b + 1", ""},
        {"SELECT b.c FROM native CROSS JOIN b ON b.id = native.b", ""},
        {"SELECT c.id FROM a CROSS JOIN c ON c.l = a.x AND c.k = a.x / 10", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = run(cases[i].sql, INT64_MAX);
        if (strcmp(o.most, cases[i].most) != 0)
            fail_msg("%s: '%s', not '%s'", cases[i].sql, o.most, cases[i].most);
        assert_true(o.n > 0);
    }
}

/* What follows in vain is let go: rows are asked for that lead nowhere, or the guess was wrong, or has
** become so. */
static void test_let_go(void **state)
{
    outcome o;

    (void)state;
    o = run("SELECT b.c FROM a CROSS JOIN b ON b.id = a.b WHERE a.x % 500 = 1", INT64_MAX);
    assert_string_equal(o.last, "b>a.3 ");
    assert_true(o.is_over);
    o = run("SELECT b.c FROM a CROSS JOIN b ON b.id = CASE WHEN a.id < 20000 THEN a.b ELSE a.c END", 2000);
    assert_string_equal(o.last, "b>a.3 ");
    o = run("SELECT b.c FROM a CROSS JOIN b ON b.id = CASE WHEN a.id < 20000 THEN a.b ELSE a.c END", INT64_MAX);
    assert_int_equal(o.n, 7000);
    assert_string_equal(o.last, "b>a.4 ");
    assert_false(o.is_over);
    o = run("SELECT c.k FROM a CROSS JOIN b ON b.id = CASE WHEN a.id < 20000 THEN a.b ELSE a.b + 1 END"
            " CROSS JOIN c ON c.id = b.c", INT64_MAX);
    assert_string_equal(o.most, "c>b.2 b>a.3 ");
    assert_true(o.is_over); /* who follows b does so no more, either */
}

/* A statement that is left in the middle, and several at a time that may follow each other's cursors. */
static void test_closed_early(void **state)
{
    static const char SQL[] = "SELECT b.c + c.k FROM a CROSS JOIN b ON b.id = a.b CROSS JOIN c ON c.id = b.c";
    outcome all = run(SQL, INT64_MAX);

    (void)state;
    assert_int_equal(all.n, 7000);
    for (int64_t limit = 1; limit < 300; limit++)
        assert_int_equal(run(SQL, limit).n, limit);
    for (int first = 0; first < 2; first++) {
        sqlite3_stmt *stmt[2] = {prepare(SQL), prepare(SQL)};
        outcome o[2] = {0};
        for (int64_t n = 0; n < 1000; n++)
            for (int i = 0; i < 2; i++)
                step(stmt[i], 1, &o[i]);
        assert_true(strlen(o[1].most) > strlen(all.most));
        assert_int_equal(sqlite3_finalize(stmt[first]), SQLITE_OK);
        step(stmt[!first], INT64_MAX, &o[!first]);
        assert_int_equal(o[!first].sum, all.sum);
        assert_int_equal(sqlite3_finalize(stmt[!first]), SQLITE_OK);
        assert_nobody_follows();
    }
}

/* Writes while a statement runs: it goes on with the rows that it has begun with, or with those that it finds
** now, but with rows. */
static void test_written_meanwhile(void **state)
{
    static const char SQL[] = "SELECT b.c + c.k FROM a CROSS JOIN b ON b.id = a.b CROSS JOIN c ON c.id = b.c";
    static const char *const writes[] = {
        "UPDATE b SET c = c + 1 - 1, t = t || '!'", "DELETE FROM c WHERE k % 2", "DELETE FROM a WHERE id > 100",
        "SAVEPOINT s; DELETE FROM b; ROLLBACK TO s", "INSERT INTO a SELECT -id, x, b, c, t FROM a",
        "ROLLBACK TO start", "ROLLBACK; BEGIN; SAVEPOINT start"}; /* what is read then has been undone */
    outcome all = run(SQL, INT64_MAX);

    (void)state;
    for (int is_within = 0; is_within < 2; is_within++)
        for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
            outcome o = {0};
            if (is_within)
                exec("BEGIN; SAVEPOINT start; UPDATE a SET t = t || '!'; UPDATE b SET c = c, t = t || '!'");
            sqlite3_stmt *stmt = prepare(SQL);
            step(stmt, 700, &o);
            assert_string_equal(o.last, all.most);
            if (!is_within)
                exec("BEGIN; SAVEPOINT start");
            exec(writes[i]);
            step(stmt, INT64_MAX, &o);
            assert_true(o.n > 700);
            assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
            exec("ROLLBACK");
            assert_nobody_follows();
        }
    outcome again = run(SQL, INT64_MAX);
    assert_int_equal(again.sum, all.sum);
}

/* Nor in a transaction that has written. */
static void test_in_transaction(void **state)
{
    static const char SQL[] = "SELECT b.c FROM a CROSS JOIN b ON b.id = a.b";
    outcome before = run(SQL, INT64_MAX), after;

    (void)state;
    exec("BEGIN; UPDATE b SET c = c + 1 WHERE id % 4");
    outcome within = run(SQL, INT64_MAX);
    assert_string_equal(within.most, before.most);
    assert_true(within.sum != before.sum);
    exec("ROLLBACK");
    after = run(SQL, INT64_MAX);
    assert_int_equal(after.sum, before.sum);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_follows),       cmocka_unit_test(test_let_go),
        cmocka_unit_test(test_closed_early),      cmocka_unit_test(test_written_meanwhile),
        cmocka_unit_test(test_in_transaction),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
