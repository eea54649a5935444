/* json_each.h - json_keys (ext/json_keys.h) against SQLite's json_each. */
#ifndef STATEDB_TEST_JSON_EACH_H
#define STATEDB_TEST_JSON_EACH_H

#include "../ext/json_keys.h"

#include <sqlite3.h>
#include <string.h>

typedef struct each {
    sqlite3_stmt *stmt;
    const char *wrong; /* or NULL */
} each;

/* Whether a key is the next that json_each gives. A real may differ in its last bit: SQLite does not
** always read the nearest one. */
static int each_compare(void *ctx, const sdb_value *key)
{
    each *e = ctx;
    int type;

    if (e->wrong)
        return SDB_OK;
    if (sqlite3_step(e->stmt) != SQLITE_ROW) {
        e->wrong = "more keys than json_each gives";
        return SDB_OK;
    }
    type = sqlite3_column_type(e->stmt, 0);
    switch (key->type) {
    case SDB_NULL:
        if (type != SQLITE_NULL)
            e->wrong = "NULL";
        break;
    case SDB_INTEGER:
        if (type != SQLITE_INTEGER || sqlite3_column_int64(e->stmt, 0) != key->u.i)
            e->wrong = "another integer";
        break;
    case SDB_REAL: {
        double r = sqlite3_column_double(e->stmt, 0);
        uint64_t a, b;
        memcpy(&a, &r, sizeof a);
        memcpy(&b, &key->u.r, sizeof b);
        if (type != SQLITE_FLOAT || (r != key->u.r && a - b + 1 > 2))
            e->wrong = "another real";
        break;
    }
    default:
        if (type != SQLITE_TEXT || key->type != SDB_TEXT ||
            (uint32_t)sqlite3_column_bytes(e->stmt, 0) != key->n ||
            memcmp(sqlite3_column_blob(e->stmt, 0) ? sqlite3_column_blob(e->stmt, 0) : "", key->u.p,
                   key->n) != 0)
            e->wrong = "another text";
    }
    return SDB_OK;
}

/* NULL when both find the same keys in a text without a NUL, or that it is not JSON. stmt is
** JSON_EACH_SQL. */
#define JSON_EACH_SQL \
    "SELECT CASE json_type(?1) WHEN 'object' THEN key ELSE value END FROM json_each(?1)"
#define JSON_VALID_SQL "SELECT json_valid(?1)"

static const char *json_compare(sqlite3_stmt *stmt, sqlite3_stmt *valid, const char *text, size_t n)
{
    sdb_value json = {.type = SDB_TEXT, .n = (uint32_t)n, .u.p = text};
    each e = {.stmt = stmt};
    int rc;

    sqlite3_bind_text(stmt, 1, text, (int)n, SQLITE_STATIC);
    sqlite3_bind_text(valid, 1, text, (int)n, SQLITE_STATIC);
    sqlite3_step(valid);
    if (sqlite3_column_int(valid, 0)) {
        rc = json_keys(&json, each_compare, &e);
        if (rc != SDB_OK)
            e.wrong = "refused";
        else if (!e.wrong && sqlite3_step(stmt) != SQLITE_DONE)
            e.wrong = "fewer keys than json_each gives";
    } else {
        each none = {.stmt = stmt, .wrong = "not looked at"};
        if (json_keys(&json, each_compare, &none) != SDB_NOTSET)
            e.wrong = "taken for JSON";
    }
    sqlite3_reset(stmt);
    sqlite3_reset(valid);
    return e.wrong;
}

#endif
