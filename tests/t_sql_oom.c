/* t_sql_oom.c - every statement of a script with every one of its allocations failing.
**
** One counter (core/mem.h) goes over SQLite's own allocations, the extension's and the arena's.
** Each statement is run with its first allocation failing, then its second, and so on until it has
** no fault; once with that one failing alone, and once with all after it failing too. A statement
** that reports no memory must have done nothing; it must report that or what it reports anyway.
** After each attempt the tables are in order and hold what ordinary tables hold that ran the same
** statements. When all is closed nothing is left. */
#include "../core/mem.h"
#include "../ext/statedb_static.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* `native` is the statement for ordinary tables where it is another one. */
typedef struct step {
    const char *sql;
    const char *native;
} step;

#define FILL "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 40) "

typedef struct script {
    const char *before; /* run before the extension is loaded, or NULL */
    const step *steps;
    int n_steps;
} script;

/* clang-format off */
static const step steps_all[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE,"
     " b INT NOT NULL DEFAULT 7, c, INDEX ib(b DESC, a), UNIQUE INDEX ic(c, b))",
     "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE,"
     " b INT NOT NULL DEFAULT 7, c); CREATE INDEX ib ON t(b DESC, a);"
     " CREATE UNIQUE INDEX ic ON t(c, b)"},
    {"CREATE VIRTUAL TABLE temp.u USING statedb(x, y REAL, PRIMARY KEY (x, y), CHECK (y < 9.0))",
     "CREATE TABLE temp.u(x, y REAL, PRIMARY KEY (x, y), CHECK (y < 9.0))"},
    {"INSERT INTO t VALUES(1, 'one', 1, 'first')", NULL},
    {FILL "INSERT INTO t SELECT x + 1, 'key ' || x, x % 5, hex(zeroblob(x)) FROM n", NULL},
    {"INSERT INTO t(a, c) VALUES('default', x'0102')", NULL},
    {"INSERT INTO u VALUES('x', 8.5), ('y', 9)", NULL},
    {"CREATE VIRTUAL TABLE k USING statedb(a CONSTRAINT even CHECK (abs(a) % 2 = 0),"
     " b UNIQUE ON CONFLICT REPLACE, id INTEGER PRIMARY KEY AUTOINCREMENT)",
     "CREATE TABLE k(a CONSTRAINT even CHECK (abs(a) % 2 = 0),"
     " b UNIQUE ON CONFLICT REPLACE, id INTEGER PRIMARY KEY AUTOINCREMENT)"},
    {"INSERT OR IGNORE INTO k(a, b) VALUES(-2, 1), (-3, 2), (8, 3), (7, 4)", NULL},
    {"UPDATE k SET b = a", NULL},
    {"UPDATE k SET a = b + 1", NULL},
    {"DELETE FROM k WHERE a > 0", NULL},
    {"INSERT INTO k(a, b) VALUES(0, 5), (2, 5), (4, -2)", NULL},
    {"SELECT * FROM k", NULL},
    {"DROP TABLE k", NULL},
    {"INSERT INTO u SELECT a, b FROM t WHERE b > 2 ORDER BY id", NULL},
    {"INSERT INTO t VALUES(100, 'a', 1, 1), (101, 'b', 2, 2), (102, 'KEY 7', 3, 3)", NULL},
    {"INSERT OR IGNORE INTO t VALUES(100, 'a', 1, 1), (2, 'b', 2, 2), (102, 'KEY 7', 3, 3)", NULL},
    {"INSERT OR FAIL INTO t VALUES(103, 'c', 1, 3), (2, 'd', 2, 2), (104, 'e', 3, 3)", NULL},
    {"REPLACE INTO t VALUES(3, 'KEY 9', 1, 1)", NULL},
    {"REPLACE INTO t SELECT id, 'r' || a, b, id % 7 FROM t WHERE id BETWEEN 5 AND 9 ORDER BY id",
     NULL},
    {"UPDATE t SET b = b + 1 WHERE b = 2", NULL},
    {"UPDATE t SET id = id + 1000, a = a || '!' WHERE id < 20", NULL},
    {"UPDATE t SET a = 'same'", NULL},
    {"UPDATE OR REPLACE t SET a = 'key 30' WHERE id = 25", NULL},
    {"SELECT * FROM t ORDER BY a", NULL},
    {"SELECT b, a, c FROM t ORDER BY b DESC, a DESC", NULL},
    {"SELECT id, max(c) FROM t WHERE b IN (1, 3) GROUP BY b ORDER BY 1", NULL},
    {"SELECT t.id, u.y, v.id FROM t JOIN u ON u.x = t.a JOIN t AS v ON v.b = u.y ORDER BY 1, 2, 3",
     NULL},
    {"SELECT count(*), max(u.x) FROM t LEFT JOIN u ON u.y = t.b", NULL},
    {"DELETE FROM t WHERE b = 4", NULL},
    {"INSERT INTO t(t) VALUES('CREATE UNIQUE INDEX i1 ON t(b)')", "CREATE UNIQUE INDEX i1 ON t(b)"},
    {"INSERT INTO t(t) VALUES('CREATE INDEX i1 ON t(b, c COLLATE rtrim DESC)')",
     "CREATE INDEX i1 ON t(b, c COLLATE rtrim DESC)"},
    {"SELECT id FROM t WHERE b = 1 ORDER BY c, id", NULL},
    {"INSERT INTO t(t) VALUES('CREATE INDEX i1 ON t(a)')", "CREATE INDEX i1 ON t(a)"},
    {"BEGIN", NULL},
    {"INSERT INTO t(t) VALUES('DROP INDEX i1')", "DROP INDEX i1"},
    {"INSERT INTO u VALUES(1, 1), (2, 2)", NULL},
    {"SAVEPOINT one", NULL},
    {"UPDATE t SET c = NULL WHERE id > 20", NULL},
    {"DELETE FROM u WHERE x > 'key 2'", NULL},
    {"SAVEPOINT two", NULL},
    {"INSERT INTO t(a, c) SELECT x || 'new', y FROM u ORDER BY x, y", NULL},
    {"INSERT INTO t(a, c) SELECT x || 'more', 5 FROM u ORDER BY x, y", NULL},
    {"ROLLBACK TO two", NULL},
    {"DELETE FROM t WHERE id = 26", NULL},
    {"RELEASE two", NULL},
    {"SELECT count(*), sum(id), max(a) FROM t", NULL},
    {"ROLLBACK TO one", NULL},
    {"CREATE VIRTUAL TABLE w USING statedb(k UNIQUE)", "CREATE TABLE w(k UNIQUE)"},
    {"CREATE VIRTUAL TABLE l USING statedb(LIKE t, e NOT NULL DEFAULT 5, UNIQUE (e, b), INDEX le(e))",
     "CREATE TABLE l(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE, b INT NOT NULL DEFAULT 7,"
     " c, e NOT NULL DEFAULT 5, UNIQUE (e, b)); CREATE UNIQUE INDEX lc ON l(c, b)"},
    {"INSERT INTO l(a, b, c) VALUES('x', 1, 2), ('y', 2, 3)", NULL},
    {"CREATE TABLE ordinary(x COLLATE NOCASE, y CHECK (ordinary.y > 0), UNIQUE (y))", NULL},
    {"CREATE INDEX oi ON ordinary(x DESC)", NULL},
    {"CREATE VIRTUAL TABLE o USING statedb(LIKE ordinary)",
     "CREATE TABLE o(x COLLATE NOCASE, y CHECK (y > 0), UNIQUE (y)); CREATE INDEX ox ON o(x)"},
    {"INSERT INTO o VALUES('a', 1), ('b', 0)", NULL},
    {"INSERT INTO o VALUES('a', 1), ('b', 2)", NULL},
    {"SELECT * FROM l JOIN o ON o.y = l.b", NULL},
    {"DROP TABLE o", NULL},
    {"DROP TABLE ordinary", NULL},
    {"DROP TABLE l", NULL},
    {"INSERT INTO w SELECT id FROM t ORDER BY id", NULL},
    {"ALTER TABLE w RENAME TO z", NULL},
    {"COMMIT", NULL},
    {"SELECT k FROM z ORDER BY k DESC", NULL},
    {"BEGIN", NULL},
    {"DROP TABLE z", NULL},
    {"DELETE FROM t", NULL},
    {"CREATE VIRTUAL TABLE z USING statedb(k2)", "CREATE TABLE z(k2)"},
    {"INSERT INTO z VALUES('gone')", NULL},
    {"ROLLBACK", NULL},
    {"SELECT count(*) FROM z, t", NULL},
    {"INSERT INTO z VALUES(-1), (-2)", NULL},
    {"DROP TABLE u", NULL},
    {"DROP TABLE t", NULL},
};

/* The manager (transaction.c) is created in a transaction and goes with it; then in the middle of a
** statement. */
static const step steps_young[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(a UNIQUE, b NOT NULL DEFAULT (1 || 'x'))",
     "CREATE TABLE t(a UNIQUE, b NOT NULL DEFAULT (1 || 'x'))"},
    {"INSERT INTO t(a) VALUES(1), (2), (1)", NULL},
    {"INSERT INTO t(a) VALUES(1), (2)", NULL},
    {"SAVEPOINT two", NULL},
    {"REPLACE INTO t(a) VALUES(2), (3)", NULL},
    {"ROLLBACK TO two", NULL},
    {"SELECT * FROM t", NULL},
    {"ROLLBACK TO one", NULL},
    {"CREATE VIRTUAL TABLE t USING statedb(a UNIQUE)", "CREATE TABLE t(a UNIQUE)"},
    {"INSERT INTO t VALUES(1), (2)", NULL},
    {"COMMIT", NULL},
    {"PRAGMA temp_store = MEMORY", NULL},
    {"INSERT INTO t VALUES(3), (4)", NULL},
    {"PRAGMA temp_store = FILE", NULL},
    {"BEGIN", NULL},
    {"SAVEPOINT one", NULL},
    {"INSERT INTO t VALUES(5), (6), (1)", NULL},
    {"INSERT INTO t VALUES(5), (6)", NULL},
    {"UPDATE t SET a = a + 10", NULL},
    {"ROLLBACK TO one", NULL},
    {"DELETE FROM t WHERE a = 2", NULL},
    {"COMMIT", NULL},
    {"DROP TABLE t", NULL},
};

/* Prefixes; the ordinary table has what the indexes and functions are to find. */
static const step steps_prefix[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(net, via, UNIQUE INDEX by_net(net) USING lpm)",
     "CREATE TABLE t(net UNIQUE, via)"},
    {"CREATE VIRTUAL TABLE u USING statedb(net, via)", "CREATE TABLE u(net, via)"},
    {"INSERT INTO t VALUES('10.0.0.0/8', 1), ('10.1.0.0/16', 2), ('::/0', 3)", NULL},
    {"INSERT OR IGNORE INTO t VALUES('10.9.9.9/8', 4), ('10.0.0.300', 5), ('10.1.1.1', 6)",
     "INSERT INTO t VALUES('10.1.1.1', 6)"},
    {"INSERT INTO u SELECT * FROM t", NULL},
    {"SELECT via FROM t WHERE statedb_lpm(net, '10.1.1.2')", "SELECT 2"},
    {"SELECT via FROM u WHERE statedb_lpm(net, '10.1.1.1')", "SELECT 6"},
    {"SELECT via FROM t WHERE statedb_covers(net, '10.1.1.1')", "VALUES(6), (2), (1)"},
    {"SELECT via FROM u WHERE statedb_within(net, '10.0.0.0/8') ORDER BY 1", "VALUES(1), (2), (6)"},
    {"SELECT u.via, t.via FROM u JOIN t ON statedb_lpm(t.net, u.net) ORDER BY 1",
     "VALUES(1, 1), (2, 2), (3, 3), (6, 6)"},
    {"SELECT statedb_net('10.1.2.3/8'), statedb_host('10.1.2.3/8'), statedb_family('::'), "
     "statedb_masklen('aa:bb/9'), hex(statedb_net_key('10.1.2.3'))",
     "SELECT '10.0.0.0/8', '10.1.2.3', 'ipv6', 9, '000A01020320'"},
    {"INSERT INTO u(u) VALUES('CREATE INDEX i1 ON u(net) USING lpm')", "CREATE INDEX i1 ON u(net)"},
    {"UPDATE u SET net = '11.0.0.0/8' WHERE statedb_covers(net, '10.1.1.2')",
     "UPDATE u SET net = '11.0.0.0/8' WHERE via < 3"},
    {"REPLACE INTO t SELECT statedb_net(net), via + 10 FROM u WHERE via <> 1",
     "REPLACE INTO t SELECT net, via + 10 FROM u WHERE via <> 1"},
    {"DELETE FROM t WHERE statedb_lpm(net, '11.1.1.1')", "DELETE FROM t WHERE net = '11.0.0.0/8'"},
};

/* Tables of two shared stores, and one of the connection's own. */
static const step steps_shared[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(a UNIQUE, b, store=one)", "CREATE TABLE t(a UNIQUE, b)"},
    {"CREATE VIRTUAL TABLE u USING statedb(a UNIQUE, b, store=two)", "CREATE TABLE u(a UNIQUE, b)"},
    {"CREATE VIRTUAL TABLE w USING statedb(a UNIQUE, b)", "CREATE TABLE w(a UNIQUE, b)"},
    {"INSERT INTO t VALUES(1, 1), (2, 2)", NULL},
    {"SELECT statedb_attach('one')", "SELECT 0"},
    {"BEGIN", NULL},
    {"SELECT * FROM t", NULL},
    {"SAVEPOINT one", NULL},
    {"INSERT INTO u SELECT * FROM t", NULL},
    {"SAVEPOINT two", NULL},
    {"INSERT INTO w SELECT * FROM u", NULL},
    {"INSERT INTO t SELECT a + 2, b FROM w", NULL},
    {"ROLLBACK TO two", NULL},
    {"SELECT * FROM t, u", NULL},
    {"UPDATE u SET b = a || b", NULL},
    {"ALTER TABLE u RENAME TO z", NULL},
    {"RELEASE one", NULL},
    {"COMMIT", NULL},
    {"SELECT * FROM z, t", NULL},
    {"BEGIN", NULL},
    {"DROP TABLE z", NULL},
    {"ROLLBACK", NULL},
    {"SELECT store, name, rows FROM statedb_tables",
     "VALUES (NULL, 'main.w', 0), ('one', 't', 2), ('two', 'z', 2)"},
    {"SELECT tbl_name, name, columns FROM statedb_indexes WHERE tbl_name = 't'",
     "SELECT 't', 'sqlite_autoindex_t_1', 'a'"},
    {"SELECT count(*) FROM statedb_stats JOIN statedb_locks", "SELECT 0"},
    {"INSERT INTO statedb_snapshots(store, name) VALUES('one', 'then')", "SELECT 0 WHERE 0"},
    {"SELECT store, name FROM statedb_snapshots", "SELECT 'one', 'then'"},
    {"UPDATE t SET b = 7 WHERE a = 1", NULL},
    {"SELECT a, b, _snapshot FROM t WHERE _snapshot = 'then' AND a > 0 ORDER BY a DESC",
     "VALUES(2, 2, 'then'), (1, 1, 'then')"},
    {"SELECT op, id, b FROM statedb_diff('t', 'then') JOIN t ON t.rowid = id",
     "SELECT 'update', rowid, b FROM t WHERE a = 1"},
    {"DELETE FROM statedb_snapshots", "SELECT 0 WHERE 0"},
    {"DELETE FROM z", NULL},
};

/* JSON, too; with keys that are not as they are written. */
static const step steps_multi[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(n, tags, INDEX by_tag(tags) USING multi)",
     "CREATE TABLE t(n, tags)"},
    {"CREATE VIRTUAL TABLE u USING statedb(n, tags)", "CREATE TABLE u(n, tags)"},
    {"INSERT INTO t VALUES(1, '[\"b\",\"a\",\"b\"]'), (2, '{\"a\\n\":1,\"c\":[2]}'), (3, NULL)", NULL},
    {"INSERT OR IGNORE INTO t VALUES(4, '[1.5,[2, 3]]'), (5, 'x'), (6, '[\"ab\"]')",
     "INSERT INTO t VALUES(4, '[1.5,[2, 3]]'), (6, '[\"ab\"]')"},
    {"INSERT INTO u SELECT * FROM t", NULL},
    {"SELECT n FROM t WHERE statedb_has(tags, 'a')", "SELECT 1"},
    {"SELECT n FROM u WHERE statedb_has(tags, 'a')", "SELECT 1"},
    {"SELECT n FROM t WHERE statedb_has(tags, 1.5)", "SELECT 4"},
    {"SELECT n FROM t WHERE statedb_has_prefix(tags, 'a') ORDER BY 1", "VALUES(1), (2), (6)"},
    {"SELECT n FROM u WHERE statedb_has_prefix(tags, 'a')", "VALUES(1), (2), (6)"},
    {"INSERT INTO u(u) VALUES('CREATE INDEX i1 ON u(tags) USING multi')", "CREATE INDEX i1 ON u(tags)"},
    {"UPDATE u SET tags = '[\"a\",\"z\"]' WHERE statedb_has_prefix(tags, 'a')",
     "UPDATE u SET tags = '[\"a\",\"z\"]' WHERE n IN (1, 2, 6)"},
    {"UPDATE u SET n = n + 10 WHERE statedb_has(tags, 'z')", "UPDATE u SET n = n + 10 WHERE n IN (1, 2, 6)"},
    {"SELECT t.n, u.n FROM t JOIN u ON statedb_has(t.tags, u.n) ORDER BY 1", "SELECT 1 WHERE 0"},
    {"DELETE FROM t WHERE statedb_has(tags, 'ab')", "DELETE FROM t WHERE n = 6"},
    {"DELETE FROM u", NULL},
};

/* Feeds. What they show is written down. */
static const step steps_feed[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(a, id INTEGER PRIMARY KEY, b TEXT COLLATE NOCASE, store=feeds)",
     "CREATE TABLE t(a, id INTEGER PRIMARY KEY, b)"},
    {"INSERT INTO t VALUES('one', 1, 'long enough for a block of its own, which it must have'), ('two', 2, NULL)",
     NULL},
    {"CREATE VIRTUAL TABLE f USING statedb_feed(main.t)", "CREATE TABLE f(x)"},
    {"CREATE VIRTUAL TABLE g USING statedb_feed(nobody)", "SELECT nothing"},
    {"SELECT _revision, _op, id, a, _rowid FROM f WHERE _revision > '0' AND rowid <= 9 ORDER BY 1",
     "VALUES(1, 'upsert', 1, 'one', 1), (2, 'upsert', 2, 'two', 2)"},
    {"DELETE FROM f WHERE _revision = 2", "SELECT nothing"},
    {"DELETE FROM f WHERE _revision <= 1", "SELECT 1 WHERE 0"},
    {"BEGIN", NULL},
    {"DELETE FROM t WHERE id = 2", NULL},
    {"REPLACE INTO t(a, id) VALUES('three', 3)", NULL},
    {"SELECT f._revision, f.a FROM f JOIN t USING (id)", "SELECT 1 WHERE 0"},
    {"SELECT f._revision, f.a FROM f LEFT JOIN t USING (id, a)", "SELECT 2, 'two'"},
    {"SAVEPOINT one", NULL},
    {"DELETE FROM f", "SELECT 1 WHERE 0"},
    {"SELECT count(*) FROM f", "SELECT 0"},
    {"CREATE VIRTUAL TABLE temp.g USING statedb_feed(t)", "CREATE TABLE temp.g(x)"},
    {"DELETE FROM t WHERE id = 1", NULL},
    {"ROLLBACK TO one", NULL},
    {"SELECT _revision FROM f", "SELECT 2"},
    {"DELETE FROM t WHERE id = 1", NULL},
    {"COMMIT", NULL},
    {"SELECT _revision, _op, a, length(b) FROM f",
     "VALUES(3, 'delete', 'two', NULL), (4, 'upsert', 'three', NULL), (5, 'delete', 'one', 54)"},
    {"CREATE VIRTUAL TABLE temp.g USING statedb_feed(t)", "CREATE TABLE temp.g(x)"},
    {"SELECT store, tbl_name, name, acknowledged, rows, deletions FROM statedb_feeds",
     "VALUES('feeds', 't', 'f', 1, 1, 2), ('feeds', 't', 'g', 0, 1, 0)"},
    {"DELETE FROM f", "SELECT 1 WHERE 0"},
    {"SELECT id, _revision FROM t WHERE _revision > 2 ORDER BY _revision", "SELECT 3, 4"},
    {"DELETE FROM statedb_feeds WHERE name = 'g'", "SELECT 1 WHERE 0"},
    {"SELECT name, deletions FROM statedb_feeds", "SELECT 'f', 0"},
    {"ALTER TABLE t RENAME TO u", NULL},
    {"DROP TABLE f", NULL},
    {"CREATE VIRTUAL TABLE f USING statedb_feed(u)", "CREATE TABLE f(x)"},
    {"SELECT count(*) FROM f", "SELECT 0"},
    {"DROP TABLE f", NULL},
    {"SELECT count(*) FROM statedb_feeds", "SELECT 0"},
    {"DROP TABLE u", NULL},
    {"DROP TABLE g", NULL},
};

/* Watches. A wait may have told what then found no memory for its text: so it is 0 when it is asked again. */
#define NOTHING "SELECT 1 WHERE 0"
static const step steps_watch[] = {
    {"CREATE VIRTUAL TABLE t USING statedb(a UNIQUE, b, INDEX by_b(b))", "CREATE TABLE t(a UNIQUE, b)"},
    {"CREATE VIRTUAL TABLE u USING statedb(net, UNIQUE INDEX by_net(net) USING lpm, store=one)",
     "CREATE TABLE u(net UNIQUE)"},
    {"INSERT INTO t VALUES(1, 'x'), (2, 'y'), (3, 'z')", NULL},
    {"INSERT INTO u VALUES('10.0.0.0/8')", NULL},
    {"INSERT INTO statedb_watches(name, query) VALUES('one', 'SELECT * FROM u JOIN t ON"
     " t.a IN (1, ''one'', 3) AND t.b > ''a'' WHERE statedb_lpm(u.net, ''10.1.1.1'')')", NOTHING},
    {"INSERT INTO statedb_watches(name, query) VALUES('all', 'WITH n(i) AS (SELECT 1 UNION ALL SELECT"
     " i + 1 FROM n WHERE i < 70) SELECT (SELECT b FROM t WHERE t.a = i) FROM n')", NOTHING},
    {"SELECT name, fired, ranges > 0 FROM statedb_watches", "VALUES('one', 0, 1), ('all', 0, 1)"},
    {"SELECT statedb_wait(NULL, 1)", "SELECT 0"},
    {"SELECT statedb_watch_fd('one') > 0", "SELECT 1"},
    {"UPDATE t SET b = 'a' WHERE a = 1", NULL},
    {"SELECT statedb_wait('one', 0) >= 0", "SELECT 1"},
    {"SELECT statedb_wait(NULL, 0) >= 0", "SELECT 1"},
    {"SELECT statedb_wait('one', 2)", "SELECT 0"},
    {"DELETE FROM statedb_watches WHERE name = 'all'", NOTHING},
    {"DROP TABLE u", NULL},
};
/* clang-format on */

static const script all = {NULL, steps_all, sizeof steps_all / sizeof *steps_all};
static const script young = {"BEGIN; SAVEPOINT one", steps_young,
                             sizeof steps_young / sizeof *steps_young};
static const script prefix = {NULL, steps_prefix, sizeof steps_prefix / sizeof *steps_prefix};
static const script multi = {NULL, steps_multi, sizeof steps_multi / sizeof *steps_multi};
static const script feed = {NULL, steps_feed, sizeof steps_feed / sizeof *steps_feed};
static const script watching = {NULL, steps_watch, sizeof steps_watch / sizeof *steps_watch};
static const script shared = {NULL, steps_shared, sizeof steps_shared / sizeof *steps_shared};

enum { LIMIT = 20000 };

static const char *const table_names[] = {"t", "u", "w", "z"};

/* ---------------------------------------------------------------- SQLite's memory */

static sqlite3_mem_methods system_memory;

static void *faulty_malloc(int n)
{
    return sdb_mem_fault() ? NULL : system_memory.xMalloc(n);
}

static void *faulty_realloc(void *p, int n)
{
    return sdb_mem_fault() ? NULL : system_memory.xRealloc(p, n);
}

static int memory_setup(void **state)
{
    sqlite3_mem_methods faulty;

    (void)state;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory))
        return -1;
    faulty = system_memory;
    faulty.xMalloc = faulty_malloc;
    faulty.xRealloc = faulty_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &faulty) ||
        sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0))
        return -1;
    return sqlite3_initialize();
}

/* ---------------------------------------------------------------- two databases */

typedef struct pair {
    sqlite3 *ours;
    sqlite3 *native;
} pair;

/* What a statement returns, as one text. */
typedef struct output {
    char *text;
    size_t n;
    size_t room;
} output;

static void output_add(output *out, const char *text)
{
    size_t n = strlen(text);

    if (out->n + n + 2 > out->room) {
        out->room = 2 * (out->n + n + 2);
        out->text = realloc(out->text, out->room);
        assert_non_null(out->text);
    }
    memcpy(out->text + out->n, text, n);
    out->n += n;
    out->text[out->n++] = '|';
    out->text[out->n] = 0;
}

static int output_row(void *p, int n, char **values, char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        output_add(p, values[i] ? values[i] : "NULL");
    return 0;
}

static int run(sqlite3 *db, const char *sql, output *out)
{
    int rc;

    out->n = 0;
    rc = sqlite3_exec(db, sql, output_row, out, NULL);
    if (rc)
        rc = sqlite3_extended_errcode(db);
    output_add(out, "");
    return rc;
}

static void run_ok(sqlite3 *db, const char *sql)
{
    output out = {0};
    int rc = run(db, sql, &out);

    if (rc)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    free(out.text);
}

static bool is_nomem(int rc)
{
    return rc == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM;
}

static void pair_open(pair *p, const char *before)
{
    char *err = NULL;

    assert_int_equal(sqlite3_open(":memory:", &p->native), SQLITE_OK);
    assert_int_equal(sqlite3_open(":memory:", &p->ours), SQLITE_OK);
    run_ok(p->native, before ? before : "");
    run_ok(p->ours, before ? before : "");
    assert_int_equal(sqlite3_statedb_static_init(p->ours, &err, NULL), SQLITE_OK);
}

/* Nothing may be left, and closing itself must not need memory. */
static void pair_close(pair *p, int at)
{
    sdb_mem_inject(1, true);
    int rc = sqlite3_close(p->ours);
    sdb_mem_inject(0, false);
    assert_int_equal(rc, SQLITE_OK);
    assert_int_equal(sqlite3_close(p->native), SQLITE_OK);
    if (sdb_mem_blocks() || sqlite3_memory_used())
        fail_msg("after step %d: %lld blocks, %lld bytes of SQLite's left", at,
                 (long long)sdb_mem_blocks(), (long long)sqlite3_memory_used());
}

/* One statement without faults on both, with the same result. */
static void pair_step(pair *p, const step *s)
{
    output ours = {0};
    output native = {0};
    int rc = run(p->ours, s->sql, &ours);
    int expected = run(p->native, s->native ? s->native : s->sql, &native);

    if (rc != expected || strcmp(ours.text, native.text) != 0)
        fail_msg("%s: %d %s instead of %d %s (%s)", s->sql, rc, ours.text, expected, native.text,
                 sqlite3_errmsg(p->ours));
    free(ours.text);
    free(native.text);
}

static void pair_prepare(pair *p, const script *s, int n_steps)
{
    pair_open(p, s->before);
    for (int i = 0; i < n_steps; i++)
        pair_step(p, &s->steps[i]);
}

/* The same tables with the same rows, by rowid and in order of all columns; and ours sound. */
static void pair_compare(pair *p, const char *what, int64_t nth)
{
    output ours = {0};
    output native = {0};
    char sql[200];

    for (size_t i = 0; i < sizeof table_names / sizeof *table_names; i++) {
        snprintf(sql, sizeof sql, "SELECT rowid, * FROM %s ORDER BY 1", table_names[i]);
        int rc = run(p->ours, sql, &ours);
        int expected = run(p->native, sql, &native);

        if (rc != expected || strcmp(ours.text, native.text) != 0)
            fail_msg("%s, allocation %lld: table %s: %d %s instead of %d %s (%s)", what,
                     (long long)nth, table_names[i], rc, ours.text, expected, native.text,
                     sqlite3_errmsg(p->ours));
        if (rc)
            continue;
        snprintf(sql, sizeof sql, "INSERT INTO %s(%s) VALUES('integrity-check')", table_names[i],
                 table_names[i]);
        run_ok(p->ours, sql);
    }
    free(ours.text);
    free(native.text);
}

/* ---------------------------------------------------------------- the sweep */

/* Run a step with a fault. False: it took none, or none that mattered, and has been done. */
static bool step_try(pair *p, const step *s, int64_t nth, bool is_persistent, bool *took_fault)
{
    output ours = {0};
    output native = {0};
    int expected;
    bool is_failed;

    sdb_mem_inject(nth, is_persistent);
    int rc = run(p->ours, s->sql, &ours);
    *took_fault = sdb_mem_inject(0, false) > 0;
    is_failed = is_nomem(rc);
    if (is_failed) {
        assert_true(*took_fault);
    } else {
        expected = run(p->native, s->native ? s->native : s->sql, &native);
        if (rc != expected || strcmp(ours.text, native.text) != 0)
            fail_msg("%s, allocation %lld: %d %s instead of %d %s (%s)", s->sql, (long long)nth, rc,
                     ours.text, expected, native.text, sqlite3_errmsg(p->ours));
    }
    /* For want of memory SQLite rolls everything back; if that was a statement within ours which it then
    ** starts anew, it does not even say so. */
    if (*took_fault && sqlite3_get_autocommit(p->ours) && !sqlite3_get_autocommit(p->native))
        run_ok(p->native, "ROLLBACK");
    assert_int_equal(sqlite3_get_autocommit(p->ours), sqlite3_get_autocommit(p->native));
    pair_compare(p, s->sql, nth);
    free(ours.text);
    free(native.text);
    return is_failed;
}

/* Every allocation of step i. The databases go on from one attempt to the next while the step does
** nothing; when SQLite has rolled back the transaction or the step is done they are built anew. */
static int64_t step_sweep(const script *s, int i, bool is_persistent)
{
    pair p;
    bool took_fault = true;
    int64_t n = 0;

    pair_prepare(&p, s, i);
    while (took_fault) {
        bool was_autocommit = sqlite3_get_autocommit(p.ours);
        bool is_failed;

        if (++n > LIMIT)
            fail_msg("%s: no end of faults", s->steps[i].sql);
        is_failed = step_try(&p, &s->steps[i], n, is_persistent, &took_fault);
        if (took_fault && (!is_failed || sqlite3_get_autocommit(p.ours) != was_autocommit)) {
            pair_close(&p, i);
            pair_prepare(&p, s, i);
        }
    }
    for (int k = i + 1; k < s->n_steps; k++)
        pair_step(&p, &s->steps[k]);
    pair_close(&p, i);
    return n - 1;
}

static void sweep(const script *s, bool is_persistent)
{
    int64_t n = 0;

    for (int i = 0; i < s->n_steps; i++)
        n += step_sweep(s, i, is_persistent);
    assert_true(n > s->n_steps);
    print_message("%lld faults\n", (long long)n);
}

static void test_single_faults(void **state)
{
    (void)state;
    sweep(&all, false);
}

static void test_persistent_faults(void **state)
{
    (void)state;
    sweep(&all, true);
}

static void test_faults_of_a_young_manager(void **state)
{
    (void)state;
    sweep(&young, false);
    sweep(&young, true);
}

static void test_faults_of_prefixes(void **state)
{
    (void)state;
    sweep(&prefix, false);
    sweep(&prefix, true);
}

static void test_faults_of_multi(void **state)
{
    (void)state;
    sweep(&multi, false);
    sweep(&multi, true);
}

static void test_faults_of_watches(void **state)
{
    (void)state;
    sweep(&watching, false);
    sweep(&watching, true);
}

/* The sentences about a value that is none. */
static void test_faults_of_refusals(void **state)
{
    static const struct {
        const char *sql, *error;
    } errors[] = {
        {"INSERT INTO t(t) VALUES('CREATE INDEX i ON t(net) USING multi')",
         "statedb: t.net: row 1: '::' is not a JSON array or object"},
        {"INSERT INTO m VALUES('x')", "statedb: m.tags: row 1: 'x' is not a JSON array or object"},
        {"SELECT * FROM t WHERE statedb_has(net, 1)",
         "statedb_has: '::' is not a JSON array or object"},
        {"INSERT INTO t VALUES('x', 1)",
         "statedb: t.net: 'x' is not an address or prefix (index by_net is of addresses and prefixes)"},
        {"INSERT INTO t(t) VALUES('CREATE INDEX i ON t(via) USING lpm')",
         "statedb: t.via: 2 is not an address or prefix (index i is of addresses and prefixes)"},
        {"SELECT * FROM t WHERE statedb_lpm(net, 'x')", "statedb_lpm: 'x' is not an address or prefix"},
        {"SELECT * FROM t WHERE statedb_lpm(via, '::')", "statedb_lpm: 2 is not an address or prefix"},
        {"SELECT statedb_covers('::', 'x')", "statedb_covers: 'x' is not an address or prefix"},
        {"SELECT * FROM t WHERE statedb_lpm(net, '::') AND statedb_lpm(via, '::')",
         "statedb: t: one statedb_lpm at a time: for a second one join the table with itself"},
    };
    char *err = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        bool took_fault = true;
        for (int64_t n = 1; took_fault; n++) {
            sqlite3 *db;
            output out = {0};
            int rc;
            assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
            assert_int_equal(sqlite3_statedb_static_init(db, &err, NULL), SQLITE_OK);
            run_ok(db, "CREATE VIRTUAL TABLE t USING statedb(net, via, INDEX by_net(net) USING lpm);"
                       "INSERT INTO t VALUES('::', NULL), ('::', 2);"
                       "CREATE VIRTUAL TABLE m USING statedb(tags, INDEX by_tag(tags) USING multi)");
            sdb_mem_inject(n, false);
            rc = run(db, errors[i].sql, &out);
            took_fault = sdb_mem_inject(0, false) > 0;
            if (!is_nomem(rc))
                assert_string_equal(sqlite3_errmsg(db), errors[i].error);
            run_ok(db, "INSERT INTO t(t) VALUES('integrity-check')");
            assert_int_equal(sqlite3_close(db), SQLITE_OK);
            free(out.text);
            assert_int_equal(sqlite3_memory_used(), 0);
        }
    }
}

static void test_faults_in_feeds(void **state)
{
    (void)state;
    sweep(&feed, false);
    sweep(&feed, true);
}

static void test_faults_in_shared_stores(void **state)
{
    (void)state;
    sweep(&shared, false);
    sweep(&shared, true);
}

/* statedb_attach joins all tables or none; and a transaction that reads them sees one version. */
static void attach_sweep(bool is_persistent)
{
    sqlite3 *keeper, *db;
    bool took_fault = true;
    char *err = NULL;
    output out = {0};

    assert_int_equal(sqlite3_open(":memory:", &keeper), SQLITE_OK);
    assert_int_equal(sqlite3_statedb_static_init(keeper, &err, NULL), SQLITE_OK);
    run_ok(keeper, "CREATE VIRTUAL TABLE t USING statedb(a, INDEX i1(a), store=s);"
                   "CREATE VIRTUAL TABLE u USING statedb(a UNIQUE, store=s); INSERT INTO t VALUES(1)");
    for (int64_t n = 1; took_fault; n++) {
        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        assert_int_equal(sqlite3_statedb_static_init(db, &err, NULL), SQLITE_OK);
        sdb_mem_inject(n, is_persistent);
        int rc = run(db, "SELECT statedb_attach('s'); BEGIN; SELECT a FROM t", &out);
        took_fault = sdb_mem_inject(0, false) > 0;
        assert_true(rc == SQLITE_OK || (took_fault && is_nomem(rc)));
        if (rc == SQLITE_OK)
            assert_string_equal(out.text, "2|1||");
        if (!sqlite3_get_autocommit(db))
            run_ok(db, "ROLLBACK");
        run(db, "SELECT count(*) FROM temp.sqlite_schema WHERE sql LIKE '%store=%'", &out);
        assert_true(strcmp(out.text, "2||") == 0 || strcmp(out.text, "0||") == 0);
        run_ok(db, "SELECT statedb_attach('s')");
        run_ok(db, "BEGIN; SELECT * FROM t");
        run_ok(keeper, "UPDATE t SET a = a + 1");
        run(db, "SELECT a FROM t; COMMIT; SELECT a FROM t", &out);
        assert_string_equal(out.text, "1|2||");
        run_ok(keeper, "UPDATE t SET a = 1");
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(keeper), SQLITE_OK);
    free(out.text);
    assert_int_equal(sdb_mem_blocks(), 0);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void test_attach(void **state)
{
    (void)state;
    attach_sweep(false);
    attach_sweep(true);
}

/* Opening and loading: a connection that could not load can be closed, or load again. */
static void open_sweep(bool is_persistent)
{
    bool took_fault = true;

    for (int64_t n = 1; took_fault; n++) {
        pair p;
        char *err = NULL;
        int rc;

        assert_int_equal(sqlite3_open(":memory:", &p.ours), SQLITE_OK);
        assert_int_equal(sqlite3_open(":memory:", &p.native), SQLITE_OK);
        sdb_mem_inject(n, is_persistent);
        rc = sqlite3_statedb_static_init(p.ours, &err, NULL);
        took_fault = sdb_mem_inject(0, false) > 0;
        assert_true(rc == SQLITE_OK || (took_fault && is_nomem(rc)));
        assert_null(err);
        if (rc && n % 2)
            assert_int_equal(sqlite3_statedb_static_init(p.ours, &err, NULL), SQLITE_OK);
        if (!rc || n % 2) {
            pair_step(&p, &steps_all[0]);
            pair_step(&p, &steps_all[2]);
            pair_compare(&p, "open", n);
        }
        pair_close(&p, -1);
    }
}

static void test_open(void **state)
{
    (void)state;
    open_sweep(false);
    open_sweep(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_single_faults),
        cmocka_unit_test(test_persistent_faults),
        cmocka_unit_test(test_faults_of_a_young_manager),
        cmocka_unit_test(test_faults_of_prefixes),
        cmocka_unit_test(test_faults_in_shared_stores),
        cmocka_unit_test(test_attach),
        cmocka_unit_test(test_faults_in_feeds),
        cmocka_unit_test(test_faults_of_multi),
        cmocka_unit_test(test_faults_of_watches),
        cmocka_unit_test(test_faults_of_refusals),
    };
    return cmocka_run_group_tests_name("sql_oom", tests, memory_setup, NULL);
}
