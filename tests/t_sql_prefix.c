/* t_sql_prefix.c - a routing table of the Internet in SQL: what its index finds, against the sorted list
** of its prefixes, in which every length is looked up by itself. */
#define _POSIX_C_SOURCE 200809L
#include "prefixes.h"
#include "random.h"

#include "../ext/statedb_static.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static sqlite3 *db;
static sdb_prefix *list; /* prefix i is the row of id i + 1 */
static size_t n;
static bool *is_there;

/* ---------------------------------------------------------------- SQL */

static void execute(const char *sql)
{
    char *err = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &err))
        fail_msg("%s: %s", sql, err);
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    return stmt;
}

static void bind_prefix(sqlite3_stmt *stmt, int at, const sdb_prefix *p)
{
    char text[SDB_PREFIX_TEXT];
    size_t length = sdb_prefix_print(p, text);

    assert_int_equal(sqlite3_bind_text(stmt, at, text, (int)length, SQLITE_TRANSIENT), SQLITE_OK);
}

/* The statement's next row is this one, or with 0 there is none. */
static void expect_id(sqlite3_stmt *stmt, int64_t id)
{
    int rc = sqlite3_step(stmt);

    assert_int_equal(rc, id ? SQLITE_ROW : SQLITE_DONE);
    if (id)
        assert_int_equal(sqlite3_column_int64(stmt, 0), id);
}

/* ---------------------------------------------------------------- the list */

/* The id of a prefix, or 0. */
static int64_t list_find(const sdb_prefix *p)
{
    const sdb_prefix *at = bsearch(p, list, n, sizeof *list, prefixes_compare);

    return at && is_there[at - list] ? at - list + 1 : 0;
}

/* An address or network near one of the table's. */
static sdb_prefix pick(void)
{
    sdb_prefix p = list[rnd(n)];
    unsigned full = sdb_family_bits((sdb_family)p.family);
    unsigned fixed = rnd(4) ? p.bits : (unsigned)rnd(full + 1);

    p.bits = (uint8_t)full;
    for (unsigned bit = fixed; bit < full; bit++)
        p.addr[bit / 8] ^= (uint8_t)(rnd(2) << (7 - bit % 8));
    sdb_prefix_cut(&p, rnd(3) ? full : (unsigned)rnd(full + 1));
    return p;
}

/* ---------------------------------------------------------------- tests */

static void check_matches(int times)
{
    sqlite3_stmt *lpm = prepare("SELECT id FROM route WHERE statedb_lpm(net, ?)");
    sqlite3_stmt *covers = prepare("SELECT id FROM route WHERE statedb_covers(net, ?)");
    int n_found = 0;

    for (int i = 0; i < times; i++) {
        sdb_prefix x = pick();
        bool is_longest = true;
        bind_prefix(lpm, 1, &x);
        bind_prefix(covers, 1, &x);
        for (int bits = x.bits; bits >= 0; bits--) {
            sdb_prefix p = x;
            sdb_prefix_cut(&p, (unsigned)bits);
            int64_t id = list_find(&p);
            if (!id)
                continue;
            expect_id(covers, id);
            if (is_longest)
                expect_id(lpm, id);
            is_longest = false;
            n_found++;
        }
        expect_id(lpm, 0);
        expect_id(covers, 0);
        sqlite3_reset(lpm);
        sqlite3_reset(covers);
    }
    assert_true(n_found > times / 10);
    sqlite3_finalize(lpm);
    sqlite3_finalize(covers);
}

static void check_within(int times)
{
    sqlite3_stmt *within = prepare("SELECT id FROM route WHERE statedb_within(net, ?)");

    for (int i = 0; i < times; i++) {
        sdb_prefix x = pick();
        size_t lo = 0, hi = n; /* the first that is not before x */
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (sdb_prefix_compare(&list[mid], &x) < 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        bind_prefix(within, 1, &x);
        for (int seen = 0; seen < 1000 && lo < n && sdb_prefix_covers(&x, &list[lo]); lo++) {
            if (is_there[lo])
                expect_id(within, (int64_t)lo + 1);
            seen += is_there[lo];
        }
        if (lo == n || !sdb_prefix_covers(&x, &list[lo]))
            expect_id(within, 0);
        sqlite3_reset(within);
    }
    sqlite3_finalize(within);
}

/* Many at once, and the join's answer summed up. */
static void check_join(int times)
{
    sqlite3_stmt *stmt;
    int64_t sum = 0;

    execute("CREATE TABLE IF NOT EXISTS packet(dst); DELETE FROM packet; BEGIN");
    stmt = prepare("INSERT INTO packet VALUES(?)");
    for (int i = 0; i < times; i++) {
        sdb_prefix x = pick();
        bind_prefix(stmt, 1, &x);
        expect_id(stmt, 0);
        sqlite3_reset(stmt);
        for (int bits = x.bits; bits >= 0; bits--) {
            sdb_prefix_cut(&x, (unsigned)bits);
            int64_t id = list_find(&x);
            sum += id;
            if (id)
                break;
        }
    }
    sqlite3_finalize(stmt);
    execute("COMMIT");
    stmt = prepare("SELECT sum(id) FROM route JOIN packet ON statedb_lpm(net, dst)");
    expect_id(stmt, sum);
    sqlite3_finalize(stmt);
}

static void test_table(void **state)
{
    (void)state;
    sqlite3_stmt *insert;

    execute("CREATE VIRTUAL TABLE route USING statedb(id INTEGER PRIMARY KEY, net TEXT,"
            " UNIQUE INDEX by_net(net) USING lpm); BEGIN");
    insert = prepare("INSERT INTO route VALUES(?1, ?2)");
    for (size_t i = 0; i < n; i++) {
        sqlite3_bind_int64(insert, 1, (int64_t)i + 1);
        bind_prefix(insert, 2, &list[i]);
        expect_id(insert, 0);
        sqlite3_reset(insert);
        is_there[i] = true;
    }
    sqlite3_finalize(insert);
    check_matches(1000);
    execute("COMMIT");
    check_matches(20000);
    check_within(2000);
    check_join(20000);

    /* Half of them go; a third of the others, too, but not for long. */
    execute("DELETE FROM route WHERE id % 2 = 0; BEGIN; DELETE FROM route WHERE id % 3 = 0");
    for (size_t i = 0; i < n; i++)
        is_there[i] = (i + 1) % 2 && (i + 1) % 3;
    check_matches(1000);
    check_within(1000);
    execute("ROLLBACK");
    for (size_t i = 0; i < n; i++)
        is_there[i] = (i + 1) % 2;
    check_matches(10000);
    check_within(1000);
    check_join(10000);
    execute("INSERT INTO route(route) VALUES('integrity-check')");

    /* The index made anew over the rows there are. */
    execute("INSERT INTO route(route) VALUES('DROP INDEX by_net');"
            "INSERT INTO route(route) VALUES('CREATE INDEX by_net ON route(net) USING lpm')");
    check_matches(10000);
    execute("INSERT INTO route(route) VALUES('integrity-check')");
}

static int setup(void **state)
{
    (void)state;
    list = prefixes_get(200000, &n);
    is_there = calloc(n, sizeof *is_there);
    return sqlite3_open(":memory:", &db) || sqlite3_statedb_static_init(db, NULL, NULL);
}

static int teardown(void **state)
{
    (void)state;
    free(list);
    free(is_there);
    return sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests_name("sql_prefix", tests, setup, teardown);
}
