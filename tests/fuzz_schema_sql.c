/* fuzz_schema_sql.c - a definition that we accept is one that SQLite accepts, with the same columns;
** one that we call a syntax error is one for SQLite, too. */
#include "fuzz.h"

#include "schema_sql.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sqlite3.h>

static sqlite3 *db;

static void check(bool holds, const char *what, const char *body, const char *detail)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n  %s\n", what, body, detail);
    abort();
}

/* CREATE TABLE x in the database of SQLite's, or why not; to be freed. */
static char *native_create(const char *sql)
{
    char *err = NULL;

    sqlite3_exec(db, "DROP TABLE IF EXISTS x", NULL, NULL, NULL);
    sqlite3_exec(db, sql, NULL, NULL, &err);
    return err;
}

/* All columns of x: names, types and, of the first n, whether they are NOT NULL or the rowid. */
static char *native_columns(int n, int rowid_column)
{
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_stmt *stmt;
    int i;

    sqlite3_prepare_v2(db, "SELECT name, type, \"notnull\" FROM pragma_table_xinfo('x')", -1, &stmt,
                       NULL);
    for (i = 0; sqlite3_step(stmt) == SQLITE_ROW && i < n; i++)
        sqlite3_str_appendf(s, "%s %s %d, ", sqlite3_column_text(stmt, 0),
                            sqlite3_column_text(stmt, 1),
                            i == rowid_column || sqlite3_column_int(stmt, 2));
    sqlite3_finalize(stmt);
    sqlite3_str_appendf(s, "%d", i);
    return sqlite3_str_finish(s);
}

static void check_accepted(const char *body, const char *native, const table_sql *table)
{
    char *err = native_create(table->declare);
    char *ours;
    char *theirs;
    bool is_native = !table->storage_memory && !table->store;

    check(!err, "declared", table->declare, err);
    ours = native_columns(table->n_columns, table->rowid_column);
    for (int i = 0; i < table->n_indexes; i++)
        is_native &= sqlite3_strnicmp(table->indexes[i].name, "sqlite_autoindex_", 17) == 0;
    if (is_native) {
        err = native_create(native);
        if (!err) {
            theirs = native_columns(table->n_columns, table->rowid_column);
            check(strcmp(ours, theirs) == 0, ours, body, theirs);
            sqlite3_free(theirs);
        } else {
            /* an expression is not looked into, and all text is cut by SQLite first */
            check(sqlite3_strlike("%DEFAULT%(%", body, 0) == 0 ||
                      sqlite3_strlike("%CHECK%(%", body, 0) == 0 ||
                      strncmp(err, "unrecognized token", 18) == 0,
                  "accepted", body, err);
            sqlite3_free(err);
        }
    }
    sqlite3_free(ours);
}

/* The definition: as it is, or behind a first byte from 128 on a word of the grammar for each byte. */
static char *body_of(const uint8_t *data, size_t size)
{
    static const char *const words[] = {
        "a",        "b",      "\"c d\"", "rowid",     "INTEGER", "TEXT",   "int(5)",        ",",
        ",",        ",",      "(",       ")",         "PRIMARY", "KEY",    "PRIMARY KEY",   "UNIQUE",
        "NOT NULL", "NULL",   "DEFAULT", "CHECK",     "COLLATE", "nocase", "CONSTRAINT",    "ASC",
        "DESC",     "ON",     "(a)",     "(a, b)",    "REPLACE", "ABORT",  "AUTOINCREMENT", "5",
        "-",        "'x'",    "(a > 0)", "(b IN (1))", "IN",      ".",      "ON CONFLICT",   "INDEX",
        "INDEX i",  "USING",  "lpm",     "storage",   "=",       "memory", "LIKE",          "x",
        "/* , */",  "WITHOUT", "STRICT", "(b desc)",  "(a autoincrement)"};
    sqlite3_str *s = sqlite3_str_new(NULL);
    char *body;

    if (!size || data[0] < 128)
        sqlite3_str_append(s, (const char *)data, (int)size);
    for (size_t i = 1; i < size && data[0] >= 128; i++)
        sqlite3_str_appendf(s, "%s ", words[data[i] % (sizeof words / sizeof *words)]);
    body = sqlite3_str_finish(s);
    return body ? body : sqlite3_mprintf("");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *body = body_of(data, size);
    char *native = sqlite3_mprintf("CREATE TABLE x(%s\n/**/)", body);
    const char *argv[] = {"statedb", "main", "x", body};
    table_sql *table = NULL;
    table_sql *again = NULL;
    char *err = NULL;

    if (!db) {
        sqlite3_open(":memory:", &db);
        sqlite3_exec(db, "PRAGMA journal_mode = OFF", NULL, NULL, NULL);
    }
    if (table_sql_parse(4, argv, &table, &err) == SQLITE_OK) {
        check_accepted(body, native, table);
        argv[3] = table_sql_is_option(body) ? body : table->sql; /* SQLite cuts at commas first */
        check(table_sql_parse(4, argv, &again, &err) == SQLITE_OK, "again", body, err);
        check(strcmp(table->declare, again->declare) == 0, "again", body, again->declare);
    } else {
        check(strncmp(err, "statedb: x: ", 12) == 0, "error", body, err);
        const char *text = err + 12;
        /* a parenthesis too many ends the native definition */
        if (strncmp(text, "near \")\"", 8) != 0 &&
            (strncmp(text, "near ", 5) == 0 || strncmp(text, "unrecognized ", 13) == 0)) {
            char *native_err = native_create(native);
            check(native_err, "refused", body, err);
            sqlite3_free(native_err);
        }
    }
    table_sql_free(table);
    table_sql_free(again);
    sqlite3_free(err);
    sqlite3_free(native);
    sqlite3_free(body);
    return 0;
}
