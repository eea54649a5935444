/* t_schema_refused.c - definitions that are refused: in SQLite's words, in our own, and beyond the limits. */
#include "schema.h"

static sqlite3 *db;

/* ---------------------------------------------------------------- refused */

static void check_error(const char *body, const char *sentence)
{
    table_sql *table;
    char *err;
    char *want = sqlite3_mprintf("statedb: t: %s", sentence);

    if (schema_parse("t", body, &table, &err) != SQLITE_ERROR)
        fail_msg("%s: accepted", body);
    assert_null(table);
    assert_string_equal(want, err);
    sqlite3_free(want);
    sqlite3_free(err);
}

/* What SQLite refuses is refused in its own words, to which others may be added. */
static void t_native_errors(void **state)
{
    static const char *const bodies[] = {
        "a,",
        ",a",
        "a,,b",
        "a,A",
        "\"a\", [A]",
        "a in",
        "a 1",
        "1",
        "check int",
        "select",
        "primary key(a)",
        "a left",
        "a indexed",
        "a(10)",
        "a int(",
        "a int(b)",
        "a int(1,2,3)",
        "a int(1) foo",
        "a int #1",
        "a int ?",
        "a;b",
        "a b.c",
        "a primary",
        "a primary key primary key",
        "a primary key, primary key(a)",
        "a, primary key(a), primary key(a)",
        "a integer primary key, primary key(a)",
        "a unique(a)",
        "a unique on",
        "a unique on conflict",
        "a unique on conflict foo",
        "a unique on conflict abort, unique(a) on conflict replace",
        "a, unique(a desc) on conflict replace, unique(a), primary key(a) on conflict abort",
        "a not",
        "a not 1",
        "a default",
        "a default left",
        "a default -true",
        "a default - foo",
        "a default select",
        "a check",
        "a check a",
        "a check ()",
        "a check (a) on conflict ignore",
        "a, check (a > (select 1))",
        "a, check (a in (values (1)))",
        "a, check (a not in b)",
        "a, check (a in \"b\"(1))",
        "a, check (a = ?1)",
        "a, check (a) on conflict",
        "a autoincrement",
        "a primary key autoincrement",
        "a int primary key autoincrement",
        "a integer primary key desc autoincrement",
        "a integer primary key autoincrement on conflict abort",
        "a integer unique autoincrement",
        "a integer, b, primary key(a, b autoincrement)",
        "a integer, b, primary key(b autoincrement)",
        "a integer, primary key(a autoincrement autoincrement)",
        "a integer, primary key(a) autoincrement",
        "a integer, unique(a autoincrement)",
        "a not null default (?)",
        "a not null default (1 in a)",
        "a not null default ($x)",
        "a not null default ((select 1))",
        "a not null default (1 in (values (1)))",
        "a not null default (1))",
        "a collate",
        "a collate foo",
        "a collate check",
        "a constraint",
        "a, primary key(x)",
        "a, primary key()",
        "a, primary key",
        "a, primary (a)",
        "a, unique",
        "a, unique()",
        "a, unique(a,)",
        "a, unique(,a)",
        "a, unique(a b)",
        "a, unique(a asc desc)",
        "a, unique(x)",
        "a, unique('x')",
        "a, unique(rowid)",
        "a, unique(a+1)",
        "a, unique(abs(a))",
        "a, unique(1)",
        "a, unique(a collate foo)",
        "a, unique(a nulls FIRST)",
        "a, unique(a desc nulls LAST)",
        "a, unique(a), b",
        "a, unique(a) b",
        "a, constraint x, b",
        "a, constraint",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char *sql = sqlite3_mprintf("CREATE TABLE t(%s)", bodies[i]);
        table_sql *table;
        char *err;
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
            fail_msg("%s: SQLite accepts it", bodies[i]);
        if (schema_parse("t", bodies[i], &table, &err) != SQLITE_ERROR)
            fail_msg("%s: accepted", bodies[i]);
        if (strncmp(err, "statedb: t: ", 12) != 0 || !strstr(err, sqlite3_errmsg(db)))
            fail_msg("%s\n  ours:   %s\n  native: %s", bodies[i], err, sqlite3_errmsg(db));
        sqlite3_free(err);
        sqlite3_free(sql);
    }
}

#define OTHER_CLAUSE                                                                               \
    "cannot be done in a virtual table: what SQLite then does and counts is up to the statement; " \
    "write INSERT OR "

/* What SQLite has and we have not, or what only we have. */
static void t_own_errors(void **state)
{
    static const char foreign_key[] = "foreign keys are not supported: SQLite enforces none on a "
                                      "virtual table; check in the application";
    static const char generated[] = "generated columns are not supported: SQLite forbids them in a "
                                    "virtual table; write a view";
    static const char no_columns[] = "there are no columns; write them as in CREATE TABLE, for "
                                     "example USING statedb(id INTEGER PRIMARY KEY, name TEXT)";
    static const char needs_not_null[] =
        "column a: DEFAULT needs NOT NULL: SQLite does not tell a virtual table whether "
        "NULL was given or nothing; add NOT NULL, or leave DEFAULT out";
    static const char hidden[] = "column a: a type with HIDDEN in it would hide the column from "
                                 "SELECT *";
    static const struct {
        const char *body;
        const char *sentence;
    } errors[] = {
        {"", no_columns},
        {" -- nothing", no_columns},
        {"storage=memory", no_columns},
        {"a 'x", "unrecognized token: \"'x\""}, /* such texts SQLite does not let through */
        {"a [int", "unrecognized token: \"[int\""},
        {"a \"b, c", "unrecognized token: \"\"b, c\""},
        {"a not null default ('1)", "unrecognized token: \"'1)\""},
        {"a not null default (1", "near \")\": syntax error"},
        {"a, unique(a", "near \")\": syntax error"},
        {"a int(1", "near \")\": syntax error"},
        {"a default 1", needs_not_null},
        {"a integer default (1), primary key(a, a)", needs_not_null},
        {"a TEXT HIDDEN", hidden},
        {"a \"hidden\"", hidden},
        {"a \"big\" int", "column a: a type in quotes stands alone and is not empty"},
        {"a \"\"", "column a: a type in quotes stands alone and is not empty"},
        {"a 'big'(5)", "column a: a type in quotes stands alone and is not empty"},
        {"a references b", foreign_key},
        {"a, foreign key(a) references b(a)", foreign_key},
        {"a deferrable", foreign_key},
        {"a int generated always as (1)", generated},
        {"a as (1) stored", generated},
        {"a not null generated always as (1)", generated},
        {"a not null on conflict IGNORE", "ON CONFLICT IGNORE " OTHER_CLAUSE "IGNORE"},
        {"a, primary key(a) on conflict fail", "ON CONFLICT fail " OTHER_CLAUSE "fail"},
        {"a unique on conflict \"rollback\"", "near \"\"rollback\"\": syntax error"},
        {"a integer primary key on conflict rollback",
         "ON CONFLICT rollback " OTHER_CLAUSE "rollback"},
        {"a collate german",
         "no such collation sequence: german (there are BINARY, NOCASE and RTRIM)"},
        {"LIKE host", "LIKE table stands alone at the beginning; a column named like needs quotes"},
        {"a, WITHOUT ROWID", "WITHOUT ROWID is not supported: leave it out, rows are found by their PRIMARY KEY "
                             "all the same; a column of that name needs quotes"},
        {"a, strict", "STRICT is not supported: write CHECK (typeof(x) = 'integer') of a column x; a column of "
                      "that name needs quotes"},
        {"a, store = ''", "store= needs a name"},
        {"a, store = 'a', store = 'a'", "store= is given twice"},
        {"a, storage=disk", "unknown storage: disk (there is storage=memory)"},
        {"a, colour=red", "unknown option: colour (there are store=NAME and storage=memory)"},
        {"a, storage=", "near \")\": syntax error"},
        {"a, storage=(1)", "near \"(\": syntax error"},
        {"a, storage=memory memory", "near \"memory\": syntax error"},
        {"a, storage memory=x", "near \"=\": syntax error"},
        {"\"\" int", "a name must not be empty"},
        {"a, INDEX '' (a)", "a name must not be empty"},
        {"_revision", "column name _revision is reserved for a hidden column"},
        {"[_COMMAND]", "column name _COMMAND is reserved for a hidden column"},
        {"a, _SnapShot TEXT", "column name _SnapShot is reserved for a hidden column"},
        {"a, b, unique(c)", "no such column: c (columns are a, b)"},
        {"index x(a)",
         "near \"index\": syntax error; columns come first, then constraints and indexes"},
        {"a, unique(a), \"b\" int",
         "near \"\"b\"\": syntax error; columns come first, then constraints and indexes"},
        {"id, name, ip, INDEX by_ip(ipp)",
         "index by_ip: no such column: ipp (columns are id, name, ip)"},
        {"a, index x(a + 1)", "index x: expressions in an index are not supported yet"},
        {"a, index x(lower(a))", "index x: expressions in an index are not supported yet"},
        {"a, index x(a) where a > 0", "index x: WHERE (a partial index) is not supported yet"},
        {"a, index x", "index x: near \")\": syntax error"},
        {"a, index (a)", "near \"(\": syntax error"},
        {"a, index x()", "index x: near \")\": syntax error"},
        {"a, b, index x(b, a) using lpm", "index x: USING lpm is for one column"},
        {"a, index x(a) using lpm radix", "near \"radix\": syntax error"},
        {"a, b, index x(b, a) using multi", "index x: USING multi is for one column"},
        {"a, index x(a desc) using multi", "index x: DESC has no meaning with USING multi"},
        {"a, index x(a) using btree",
         "index x: unknown kind of index: btree (there are radix, lpm and multi)"},
        {"a, index x(a) using", "index x: near \")\": syntax error"},
        {"a, index x(a) using radix b", "near \"b\": syntax error"},
        {"a, index x(a) unique on conflict fail", "near \"on\": syntax error"},
        {"a, index x(a), unique index \"X\"(a)", "index X already exists"},
        {"a, index sqlite_x(a)", "object name reserved for internal use: sqlite_x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        check_error(errors[i].body, errors[i].sentence);
}

/* ---------------------------------------------------------------- limits */

/* "a0, a1, ... UNIQUE(a0, a1), ..." with so many of each; 0 constraints: none. */
static char *body_of(int columns, const char *between, const char *format, int n)
{
    sqlite3_str *s = sqlite3_str_new(NULL);

    for (int i = 0; i < columns; i++)
        sqlite3_str_appendf(s, "%sa%d", i ? ", " : "", i);
    for (int i = 0; i < n; i++) {
        sqlite3_str_appendall(s, i ? between : ", ");
        sqlite3_str_appendf(s, format, i, i);
    }
    return sqlite3_str_finish(s);
}

static void check_limit(char *body, const char *sentence)
{
    if (sentence)
        check_error(body, sentence);
    else
        table_sql_free(schema_parsed(body));
    sqlite3_free(body);
}

static void t_limits(void **state)
{
    static const char indexes[] =
        "too many indexes: at most 63, those of UNIQUE and PRIMARY KEY included";
    char *text = malloc(1 << 20);
    table_sql *table;
    char *err;

    (void)state;
    check_limit(body_of(1997, "", "", 0), NULL);
    check_limit(body_of(1998, "", "", 0), "too many columns on t (at most 1997)");
    check_limit(body_of(63, ", ", "UNIQUE(a%d)", 63), NULL);
    check_limit(body_of(64, " ", "UNIQUE(a%d)", 64), indexes);
    check_limit(body_of(64, ", ", "INDEX i%d (a%d)", 64), indexes);
    check_limit(body_of(1, ",", "INDEX i(a0%.0d", 0), NULL);
    text[0] = 0;
    strcat(text, "a, UNIQUE(a");
    for (char *z = text + strlen(text); z < text + 2 * 1999 + 11; z += 2)
        strcpy(z, ",a");
    strcat(text, ")");
    table_sql_free(schema_parsed(text));
    strcpy(text + strlen(text) - 1, ",a)");
    check_error(text, "too many columns in index (at most 2000)");

    memset(text, 'n', 1 << 20); /* long names: of a column, of an index, of the table */
    text[(1 << 20) - 1] = 0;
    table = schema_parsed(text);
    assert_string_equal(text, table->columns[0].name);
    table_sql_free(table);
    strcpy(text, "a, INDEX ");
    text[9] = 'n';
    strcpy(text + 9 + NAME_MAX_BYTES, "(a)");
    table_sql_free(schema_parsed(text));
    text[9 + NAME_MAX_BYTES] = 'n';
    strcpy(text + 10 + NAME_MAX_BYTES, "(a)");
    check_error(text, "the name of a table or index is longer than 4096 bytes");
    memset(text, 'n', NAME_MAX_BYTES + 1);
    text[NAME_MAX_BYTES + 1] = 0;
    assert_int_equal(SQLITE_ERROR, schema_parse(text, "a", &table, &err));
    assert_non_null(strstr(err, ": the name of a table or index is longer than 4096 bytes"));
    sqlite3_free(err);
    text[NAME_MAX_BYTES] = 0;
    assert_int_equal(SQLITE_OK, schema_parse(text, "a", &table, &err));
    table_sql_free(table);
    assert_int_equal(SQLITE_ERROR, schema_parse(text, "a unique", &table, &err));
    sqlite3_free(err);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_native_errors),
        cmocka_unit_test(t_own_errors),
        cmocka_unit_test(t_limits),
    };
    sqlite3_open(":memory:", &db);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sqlite3_close(db);
    return failed;
}
