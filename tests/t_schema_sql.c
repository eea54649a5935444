/* t_schema_sql.c - the parser of table definitions, compared with SQLite's own CREATE TABLE. */
#include "schema.h"

/* ---------------------------------------------------------------- memory that runs out */

static sqlite3_mem_methods system_memory;
static int memory_live;      /* blocks */
static int memory_left = -1; /* allocations until one fails; negative: none does */

static bool memory_fails(void)
{
    return memory_left >= 0 && memory_left-- == 0;
}

static void *memory_malloc(int n)
{
    void *p = memory_fails() ? NULL : system_memory.xMalloc(n);

    memory_live += p != NULL;
    return p;
}

static void memory_free(void *p)
{
    memory_live -= p != NULL;
    system_memory.xFree(p);
}

static void *memory_realloc(void *p, int n)
{
    return memory_fails() ? NULL : system_memory.xRealloc(p, n);
}

/* ---------------------------------------------------------------- helpers */

static sqlite3 *db;

static void exec(const char *sql)
{
    char *err = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &err) != SQLITE_OK)
        fail_msg("%s: %s", sql, err);
}

/* The first column of the first row as text; "" for NULL and when there is no row. To be freed. */
static char *query(const char *format, ...)
{
    va_list ap;
    sqlite3_stmt *stmt;
    char *sql;
    char *text;

    va_start(ap, format);
    sql = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    text = sqlite3_mprintf("%s",
                           sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_text(stmt, 0) : NULL);
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    return text;
}

/* A definition in one line, for comparing. */
static char *describe(const table_sql *table)
{
    static const char *const affinities[] = {"", "TEXT", "NUM", "INT", "REAL"};
    static const char *const collations[] = {"BINARY", "NOCASE", "RTRIM"};
    sqlite3_str *s = sqlite3_str_new(NULL);

    for (int i = 0; i < table->n_columns; i++) {
        const column_sql *c = &table->columns[i];
        sqlite3_str_appendf(s, "%s(%s) %s%s%s; ", c->name, affinities[c->affinity - AFFINITY_BLOB],
                            collations[c->collation], c->not_null ? " NOT NULL" : "",
                            i == table->rowid_column ? " ROWID" : "");
    }
    for (int i = 0; i < table->n_indexes; i++) {
        const index_sql *index = &table->indexes[i];
        sqlite3_str_appendf(s, "%s %s:", index->name,
                            index->is_primary ? "pk"
                            : index->unique   ? "u"
                                              : "c");
        for (int j = 0; j < index->n_parts; j++)
            sqlite3_str_appendf(s, " %s %s%s", table->columns[index->parts[j].column].name,
                                collations[index->parts[j].collation],
                                index->parts[j].desc ? " DESC" : "");
        sqlite3_str_appendf(s, "%s; ", (const char *[]){"", " LPM", " MULTI"}[index->kind]);
    }
    return sqlite3_str_finish(s);
}

/* The same from the native table t. A native table's type says its affinity when it is copied. An
** index on nothing but the rowid is left out. */
static char *describe_native(void)
{
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_stmt *stmt;
    char *rowid_column =
        query("SELECT name FROM pragma_table_xinfo('t') WHERE pk = 1 AND NOT EXISTS "
              "(SELECT 1 FROM pragma_index_list('t') WHERE origin = 'pk')");

    exec("CREATE TABLE copy AS SELECT * FROM t");
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(db,
                                        "SELECT t.name, copy.type FROM pragma_table_info('t') t "
                                        "JOIN pragma_table_info('copy') copy USING (cid)",
                                        -1, &stmt, NULL));
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *collation;
        int not_null;
        if (sqlite3_table_column_metadata(db, "main", "t", name, NULL, &collation, &not_null, NULL,
                                          NULL) != SQLITE_OK)
            fail_msg("%s", sqlite3_errmsg(db));
        sqlite3_str_appendf(s, "%s(%s) ", name, sqlite3_column_text(stmt, 1));
        for (const char *c = collation; *c; c++)
            sqlite3_str_appendchar(s, 1, *c >= 'a' ? (char)(*c - 32) : *c);
        sqlite3_str_appendf(s, "%s%s; ", not_null ? " NOT NULL" : "",
                            strcmp(name, rowid_column) == 0 ? " ROWID" : "");
    }
    sqlite3_finalize(stmt);
    exec("DROP TABLE copy");
    assert_int_equal(
        SQLITE_OK,
        sqlite3_prepare_v2(db,
                           "SELECT l.name, l.origin, group_concat(' ' || x.name || ' ' || "
                           "upper(x.coll) || iif(x.\"desc\", ' DESC', ''), '') FROM "
                           "pragma_index_list('t') l, pragma_index_xinfo(l.name) x WHERE x.key "
                           "GROUP BY l.seq HAVING count(*) > 1 OR max(x.name) <> ?1 "
                           "ORDER BY l.seq DESC",
                           -1, &stmt, NULL));
    sqlite3_bind_text(stmt, 1, rowid_column, -1, SQLITE_STATIC);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        sqlite3_str_appendf(s, "%s %s:%s; ", sqlite3_column_text(stmt, 0),
                            sqlite3_column_text(stmt, 1), sqlite3_column_text(stmt, 2));
    sqlite3_finalize(stmt);
    sqlite3_free(rowid_column);
    return sqlite3_str_finish(s);
}

/* ---------------------------------------------------------------- a virtual table of no rows */

static int probe_connect(sqlite3 *conn, void *data, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **err)
{
    table_sql *table = NULL;
    int rc = table_sql_parse(argc, argv, &table, err);

    (void)data;
    if (rc == SQLITE_OK)
        rc = sqlite3_declare_vtab(conn, table->declare);
    table_sql_free(table);
    if (rc == SQLITE_OK) {
        *out = sqlite3_malloc(sizeof **out);
        memset(*out, 0, sizeof **out);
    }
    return rc;
}

static int probe_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static const sqlite3_module probe = {.xCreate = probe_connect,
                                     .xConnect = probe_connect,
                                     .xDisconnect = probe_disconnect,
                                     .xDestroy = probe_disconnect};

/* ---------------------------------------------------------------- as a native table */

/* The virtual table v of the same definition as the native t has its columns, then two hidden. */
static void check_declared(const char *body)
{
    static const char columns[] = "SELECT group_concat(name || ' ' || type) "
                                  "FROM pragma_table_xinfo('%s') WHERE hidden = %d";
    char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE v USING probe(%s)", body);
    char *ours, *native, *hidden;

    exec(sql);
    ours = query(columns, "v", 0);
    native = query(columns, "t", 0);
    hidden = query(columns, "v", 1);
    assert_string_equal(native, ours);
    assert_string_equal("v ,_revision INTEGER,_snapshot TEXT", hidden);
    exec("DROP TABLE v");
    sqlite3_free(sql);
    sqlite3_free(ours);
    sqlite3_free(native);
    sqlite3_free(hidden);
}

/* The values of a row into which nothing is inserted. */
static void check_defaults(const table_sql *table)
{
    if (sqlite3_exec(db, "INSERT INTO t(_rowid_) VALUES (1)", NULL, NULL, NULL) != SQLITE_OK)
        return; /* a column is NOT NULL without a DEFAULT */
    for (int i = 0; i < table->n_columns; i++) {
        const column_sql *c = &table->columns[i];
        const char *sql = c->default_sql ? c->default_sql : "NULL";
        char *native, *ours;
        if (i == table->rowid_column)
            continue;
        native = query("SELECT quote(\"%w\") FROM t", c->name);
        sqlite3_free(
            query(*c->type ? "CREATE TABLE one(x \"%w\")" : "CREATE TABLE one(x)", c->type));
        sqlite3_free(query("INSERT INTO one SELECT %s", sql));
        ours = query("SELECT quote(x) FROM one");
        exec("DROP TABLE one");
        assert_string_equal(native, ours);
        sqlite3_free(native);
        sqlite3_free(ours);
    }
}

static void check_native(const char *body)
{
    char *sql = sqlite3_mprintf("CREATE TABLE t(%s)", body);
    table_sql *table = schema_parsed(body);
    table_sql *again;
    char *ours, *native;

    exec(sql);
    ours = describe(table);
    native = describe_native();
    if (strcmp(ours, native) != 0)
        fail_msg("%s\n  ours:   %s\n  native: %s", body, ours, native);
    check_declared(body);
    check_defaults(table);
    assert_string_equal(body, table->sql);
    again = schema_parsed(table->sql);
    assert_string_equal(table->declare, again->declare);
    exec("DROP TABLE t");
    table_sql_free(again);
    table_sql_free(table);
    sqlite3_free(ours);
    sqlite3_free(native);
    sqlite3_free(sql);
}

static void t_types(void **state)
{
    static const char *const types[] = {
        "",
        "INT",
        "INTEGER",
        "integer",
        "\"INTEGER\"",
        "'INT'",
        "TINYINT",
        "BIGINT",
        "UNSIGNED BIG INT",
        "INT8",
        "CHARACTER(20)",
        "VARCHAR(255)",
        "NATIVE CHARACTER(70)",
        "NVARCHAR(100)",
        "TEXT",
        "text",
        "CLOB",
        "BLOB",
        "blobby",
        "REAL",
        "DOUBLE",
        "DOUBLE PRECISION",
        "FLOAT",
        "NUMERIC",
        "DECIMAL(10,5)",
        "DECIMAL ( 10 , 5 )",
        "BOOLEAN",
        "DATE",
        "DATETIME",
        "ANY",
        "FLOATING POINT",
        "STRING",
        "CHARINT",
        "XBLOBREAL",
        "REALBLOB",
        "BLOBTEXT",
        "TEXTBLOB",
        "REALTEXT",
        "x(-1)",
        "x(+1.5e3,-.5)",
        "x(0x10)",
        "my type",
        "my \"int\"",
        "\"my\"\"int\"",
        "my [int](5)",
        "`a``b`",
        "[a b]",
        "'a''b'",
        "foo /* int */ bar",
        "foo/**/bar",
        "foo -- int\n bar",
        "flo at",
        "flo atint",
        "KEY",
        "desc",
        "action int",
        "\xC3\xA9",
        "\xEF\xBB\xBFint",
        "x$",
        "_",
        "reindex temp view",
    };

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char *body = sqlite3_mprintf("a %s, b", types[i]);
        check_native(body);
        sqlite3_free(body);
        body = sqlite3_mprintf("a %s PRIMARY KEY", types[i]);
        check_native(body);
        sqlite3_free(body);
        body = sqlite3_mprintf("a %s, b, PRIMARY KEY(a DESC)", types[i]);
        check_native(body);
        sqlite3_free(body);
    }
}

static void t_native_tables(void **state)
{
    static const char *const bodies[] = {
        "a",
        "a,b,c",
        "\"a b\" int, [c d] text, `e``f`, 'g''h', \"i\"\"j\"",
        "\"index\" int, \"primary\", \"check\", [select], `from`",
        "key, desc, asc, action, temp, view, like_, \"like\", glob, match, cast, row, rows, if",
        "left, right, full, cross, natural, inner, outer, indexed, generated, always, strict int",
        "current_timestamp, true, false, over, filter, window, without int, replace, rowid, oid",
        "\xC3\xA9t\xC3\xA9 text, x$y int, _z, A1",
        "a int primary key",
        "a integer primary key",
        "a integer primary key asc",
        "a integer primary key desc",
        "a INTEGER PRIMARY KEY NOT NULL",
        "a integer(5) primary key",
        "a \"INTEGER\" primary key",
        "a integer, primary key(a)",
        "a integer primary key autoincrement",
        "a integer primary key asc on conflict abort autoincrement not null",
        "a integer, primary key(a autoincrement)",
        "a integer, b, primary key('a' desc autoincrement) on conflict abort",
        "a integer, primary key(a desc)",
        "a integer, primary key(a collate nocase)",
        "a integer, b integer, primary key(a, b)",
        "a, unique(a collate nocase collate rtrim desc)",
        "a integer, primary key(a, a)",
        "a text, primary key('a')",
        "a int, primary key(\"A\")",
        "id integer primary key unique, b unique",
        "id integer unique primary key, b unique",
        "id integer, b unique, unique(id), primary key(id), unique(b, id)",
        "id integer, b, primary key(id), unique(id collate nocase), unique(b)",
        "id integer primary key, b, unique(id, b)",
        "id integer collate nocase primary key, b",
        "a unique",
        "a unique not null unique primary key unique",
        "a primary key unique",
        "a unique collate nocase, b collate rtrim unique",
        "a collate nocase unique collate rtrim, unique(a)",
        "a collate 'NoCase' unique, unique(a collate binary), unique(a collate nocase)",
        "a collate \"binary\"",
        "a unique, primary key(a)",
        "a unique, primary key(a desc)",
        "a, unique(a desc), unique(a), unique(a, a)",
        "a, b, unique(a,b), unique(b,a), unique(a,b), unique(a,b,a)",
        "a, b, unique(a asc, b desc) primary key(b) unique(b)",
        "a, b, constraint x unique(a) constraint y constraint z primary key(b), constraint w",
        "a constraint x not null constraint y unique constraint z, b constraint \"\xC3\xA9\"",
        "a null, b null not null, c not null null, d null on conflict replace null on conflict fail",
        "a not null on conflict abort unique on conflict abort, b null on conflict abort",
        "a, primary key(a) on conflict abort, unique(a) on conflict abort",
        "a primary key asc on conflict abort, b",
        "a not null on conflict replace default 5, b unique on conflict replace not null",
        "a integer primary key on conflict replace autoincrement, b, unique(b) on conflict replace",
        "a unique on conflict replace, unique(a), primary key(a) on conflict replace",
        "a, unique(a), unique(a) on conflict abort, unique(a)",
        "a default null, b int default null not null, c not null default 1 default 2",
        "a not null default 1, b not null default -1.5e3, c not null default + 2",
        "a not null default 'it''s', b not null default x'00ff', c not null default 0x10",
        "a text not null default foo, b not null default \"bar\"\"s\", c not null default [true]",
        "a not null default TRUE, b not null default false, c not null default \"true\"",
        "a not null default (1 + /* ) */ 2), b not null default ('a' || ')' || \"lower\"('B')), c",
        "a not null default (null is null), b default NULL not null default 7",
        "a not null default -'12', b not null default key, c text not null default 1.0",
        "id integer default 7, b, primary key(id)",
        "id integer primary key default 7, b",
        "/* x */ a /*c,(*/ int -- x , (\n , -- lead\n b /* tail */",
        "a int,b text,c blob,d real,e numeric,primary key(a,b,c,d,e)",
        "a int check (a > 0), b check(b in (1, 2, (3))) unique check (b not in ()), check (a <> b)",
        "a, constraint x check (a is not ')') check (a) unique(a), check (1 -- )\n)",
        "a, check (a > 0) on conflict replace, check (a in ('in', \"in\")) on conflict abort",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        check_native(bodies[i]);
}

/* The names are those in SQLite's `CHECK constraint failed: NAME`. */
static void t_checks(void **state)
{
    static const struct {
        const char *body;
        const char *checks;
    } tables[] = {
        {"a check (a > 0)", "a > 0|a > 0; "},
        {"a check( \n a>0 /* x */ \t)", "a>0 /* x */|a>0 /* x */; "},
        {"a check (\"a\" > 0), check ([a] = 'b'), check ('x' <> a)",
         "a|\"a\" > 0; a|[a] = 'b'; x|'x' <> a; "},
        {"a constraint x check (a), b check (b)", "x|a; b|b; "},
        {"a constraint x unique check (a) constraint \"y z\" check (b) check (c)",
         "x|a; y z|b; y z|c; "},
        {"a constraint x, check (a), check (b)", "x|a; b|b; "},
        {"a, constraint x check (a) check (b), check (c), constraint 'y' unique (a) check (d)",
         "x|a; x|b; c|c; y|d; "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        table_sql *table = schema_parsed(tables[i].body);
        sqlite3_str *s = sqlite3_str_new(NULL);
        for (int j = 0; j < table->n_checks; j++)
            sqlite3_str_appendf(s, "%s|%s; ", table->checks[j].name, table->checks[j].expression);
        char *text = sqlite3_str_finish(s);
        assert_string_equal(tables[i].checks, text);
        sqlite3_free(text);
        table_sql_free(table);
    }
}

/* ---------------------------------------------------------------- indexes and options */

static void t_indexes(void **state)
{
    static const struct {
        const char *body;
        const char *description;
    } tables[] = {
        {"a, index x(a)", "a() BINARY; x c: a BINARY; "},
        {"a, INDEX \"x y\" ('a' COLLATE rtrim DESC) USING radix",
         "a() BINARY; x y c: a RTRIM DESC; "},
        {"a text collate nocase, unique index x(a) using LPM, index y(a collate nocase asc) using lpm",
         "a(TEXT) NOCASE; x u: a BINARY LPM; y c: a BINARY LPM; "},
        {"a text collate nocase, unique index x(a) using Multi", "a(TEXT) NOCASE; x u: a BINARY MULTI; "},
        {"a text collate nocase, unique index x (a, A desc, [a] collate binary asc)",
         "a(TEXT) NOCASE; x u: a NOCASE a NOCASE DESC a BINARY; "},
        {"a, index x(a) unique(a), index key(a) index desc(a) primary key(a), index b(a)",
         "a() BINARY; sqlite_autoindex_t_1 pk: a BINARY; x c: a BINARY; key c: a BINARY; desc c: a "
         "BINARY; b c: a BINARY; "},
        {"id integer primary key unique, b unique, index c(id)",
         "id(INT) BINARY ROWID; b() BINARY; sqlite_autoindex_t_2 u: b BINARY; c c: id BINARY; "},
        {"storage='memory', a, STORAGE = \"Memory\", b, unique(b), [storage]=memory",
         "a() BINARY; b() BINARY; sqlite_autoindex_t_1 u: b BINARY; "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        table_sql *table = schema_parsed(tables[i].body);
        char *text = describe(table);
        assert_string_equal(tables[i].description, text);
        assert_true(table->storage_memory == (strstr(tables[i].body, "memory") != NULL));
        sqlite3_free(text);
        table_sql_free(table);
    }
}

static void check_declare(const char *name, const char *body, const char *declare)
{
    table_sql *table;
    char *err;

    assert_int_equal(SQLITE_OK, schema_parse(name, body, &table, &err));
    assert_string_equal(declare, table->declare);
    assert_string_equal(name, table->name);
    assert_int_equal(3, table->n_hidden);
    table_sql_free(table);
}

static void t_declare(void **state)
{
    (void)state;
    check_declare("host",
                  "id INTEGER PRIMARY KEY COLLATE NOCASE, name text collate NOCASE not null",
                  "CREATE TABLE x(\"id\" \"INTEGER\" PRIMARY KEY NOT NULL, \"name\" \"text\" COLLATE NOCASE "
                  "NOT NULL, \"host\" HIDDEN, \"_revision\" INTEGER HIDDEN, \"_snapshot\" TEXT HIDDEN)");
    check_declare("a\"b", "\"x\"\"y\" 'a\"b'",
                  "CREATE TABLE x(\"x\"\"y\" \"a\"\"b\", \"a\"\"b\" HIDDEN, \"_revision\" INTEGER "
                  "HIDDEN, \"_snapshot\" TEXT HIDDEN)");
    check_declare("host", "HOST",
                  "CREATE TABLE x(\"HOST\", \"_command\" HIDDEN, \"_revision\" "
                  "INTEGER HIDDEN, \"_snapshot\" TEXT HIDDEN)");
    check_declare("_Revision", "a",
                  "CREATE TABLE x(\"a\", \"_command\" HIDDEN, \"_revision\" "
                  "INTEGER HIDDEN, \"_snapshot\" TEXT HIDDEN)");
}

/* SQLite cuts the arguments; joined, they are the definition. */
static void t_arguments(void **state)
{
    const char *argv[] = {"statedb", "temp", "t", "a int", "b text(1,2)", "primary key(a, b)"};
    table_sql *table;
    char *err = NULL;

    (void)state;
    assert_int_equal(SQLITE_OK, table_sql_parse(6, argv, &table, &err));
    assert_string_equal("a int, b text(1,2), primary key(a, b)", table->sql);
    assert_int_equal(2, table->n_columns);
    assert_int_equal(1, table->n_indexes);
    table_sql_free(table);
    assert_int_equal(SQLITE_ERROR, table_sql_parse(3, argv, &table, &err));
    sqlite3_free(err);
    table_sql_free(NULL);
}

/* Options are no part of the definition. */
static void t_store(void **state)
{
    const char *argv[] = {"statedb", "temp", "t", "store = 'fleet'", "a int", " storage=memory ", "b"};
    const char *join[] = {"statedb", "temp", "t", "/* the */ \"store\"=fleet"};
    table_sql *table;
    char *err = NULL;

    (void)state;
    assert_int_equal(SQLITE_OK, table_sql_parse(7, argv, &table, &err));
    assert_string_equal("a int, b", table->sql);
    assert_string_equal("fleet", table->store);
    assert_true(table->storage_memory);
    assert_int_equal(2, table->n_columns);
    table_sql_free(table);
    assert_int_equal(SQLITE_OK, table_sql_parse(4, join, &table, &err));
    assert_string_equal("", table->sql);
    assert_string_equal("fleet", table->store);
    assert_int_equal(0, table->n_columns);
    table_sql_free(table);
}

static void t_same(void **state)
{
    static const struct {
        const char *a, *b;
        bool is_same;
    } cases[] = {
        {"", "", true},
        {"a", "A", true},
        {"a INT, b", "a int ,b -- the other", true},
        {"a", "\"a\"", false},
        {"\"a\"", "\"A\"", false},
        {"a, b", "a", false},
        {"a", "a, b", false},
        {"a DEFAULT 'x'", "a default 'x'", true},
        {"a DEFAULT 'x'", "a DEFAULT 'X'", false},
        {"a DEFAULT x", "a DEFAULT X", false},
        {"a DEFAULT x NOT NULL", "a DEFAULT x not null", true},
        {"a TEXT", "a TEXTS", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (table_sql_is_same(cases[i].a, cases[i].b) != cases[i].is_same)
            fail_msg("%s | %s", cases[i].a, cases[i].b);
}

/* ---------------------------------------------------------------- no memory */

/* Each allocation fails once: SQLITE_NOMEM, and nothing stays. */
static void t_no_memory(void **state)
{
    static const char *const bodies[] = {
        "id INTEGER PRIMARY KEY UNIQUE, name TEXT NOT NULL COLLATE NOCASE UNIQUE COLLATE RTRIM, ip "
        "\"TEXT\" CONSTRAINT x NOT NULL DEFAULT foo, d DEFAULT (1+1) NOT NULL DEFAULT -1, "
        "e UNIQUE CHECK (e > 0), UNIQUE(name, ip) UNIQUE(e), CONSTRAINT c CHECK (e IN (1, d)), INDEX by_ip(ip, d COLLATE RTRIM DESC) USING radix, "
        "storage=memory, UNIQUE INDEX \"by d\"(d)",
        "a, a",
        "a default 1",
        "a, UNIQUE(b)",
        "a, INDEX x(b)",
        "a, INDEX x(a), INDEX x(a)",
        "a collate foo",
        "a, storage=disk",
        "a, unique(a), b",
        "a, check (a in b)",
        "a 'x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int wanted = i ? SQLITE_ERROR : SQLITE_OK;
        int rc = SQLITE_NOMEM;
        for (int n = 0; rc == SQLITE_NOMEM; n++) {
            int live = memory_live;
            table_sql *table;
            char *err;
            memory_left = n;
            rc = schema_parse("t", bodies[i], &table, &err);
            bool has_failed = memory_left < 0;
            memory_left = -1;
            assert_int_equal(rc, has_failed ? SQLITE_NOMEM : wanted);
            assert_true((err != NULL) == (rc == SQLITE_ERROR));
            table_sql_free(table);
            sqlite3_free(err);
            assert_int_equal(live, memory_live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_types),         cmocka_unit_test(t_native_tables),
        cmocka_unit_test(t_checks),        cmocka_unit_test(t_indexes),
        cmocka_unit_test(t_declare),       cmocka_unit_test(t_arguments),
        cmocka_unit_test(t_store),         cmocka_unit_test(t_same),
        cmocka_unit_test(t_no_memory),
    };
    sqlite3_mem_methods failing;
    int failed;

    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory);
    failing = system_memory;
    failing.xMalloc = memory_malloc;
    failing.xFree = memory_free;
    failing.xRealloc = memory_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    sqlite3_open(":memory:", &db);
    sqlite3_create_module(db, "probe", &probe, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    sqlite3_close(db);
    return failed;
}
