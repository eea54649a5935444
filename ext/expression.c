/* expression.c - what DEFAULT and CHECK have in common: expressions that come with the definition, and
** that SQLite evaluates while a row is being written. */
#include "ext.h"
#include "sql_token.h"

SQLITE_EXTENSION_INIT3

/* A row that is half read has pointers into the table and into the statement's own values. */
int expression_step(store *s, sqlite3_stmt *stmt)
{
    int64_t n_writes = s->n_writes;
    int rc;

    s->conn->n_evaluating++;
    rc = sqlite3_step(stmt);
    s->conn->n_evaluating--;
    if (s->n_writes != n_writes && (rc == SQLITE_ROW || (rc & 0xff) == SQLITE_ERROR))
        return SQLITE_ABORT; /* a function has rolled back; out of memory SQLite itself does */
    return rc;
}

/* ---------------------------------------------------------------- functions */

/* Whether an expression calls a function of that name; the name as it stands there. */
static int call_find(const char *expression, const char *function, sql_token *out, bool *is_called)
{
    sql_token token = {.text = expression};

    *is_called = false;
    for (sql_token_next(&token); !*is_called && token.kind != TOKEN_END;) {
        char *name;
        *out = token;
        sql_token_next(&token);
        if (token.kind != '(' || (out->kind != TOKEN_WORD && out->kind != TOKEN_NAME))
            continue;
        name = sql_dequote(out->text, out->length);
        if (!name)
            return SQLITE_NOMEM;
        *is_called = sqlite3_stricmp(name, function) == 0;
        sqlite3_free(name);
    }
    return SQLITE_OK;
}

static int pragma_get(sqlite3 *db, const char *sql, int *out)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    if (rc)
        return rc;
    *out = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0);
    return sqlite3_finalize(stmt);
}

/* By pragmas alone, and not by their tables: those are in main, and lock its file. */
int expression_check_functions(vtable *t, const char *expression)
{
    sqlite3 *db = t->conn->db;
    bool is_called = false;
    sql_token name = {0};
    sqlite3_stmt *stmt;
    int is_trusted, rc_end;
    int rc;

    if (sqlite3_stricmp(t->schema, "temp") == 0)
        return SQLITE_OK;
    rc = pragma_get(db, "PRAGMA trusted_schema", &is_trusted);
    if (!rc)
        rc = sqlite3_prepare_v2(db, "PRAGMA function_list", -1, &stmt, NULL);
    if (rc)
        return rc;
    while (!rc && !is_called && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *function = (const char *)sqlite3_column_text(stmt, 0);
        int flags = sqlite3_column_int(stmt, 5);
        if (!function)
            rc = SQLITE_NOMEM;
        else if ((flags & SQLITE_DIRECTONLY) || !(is_trusted || (flags & SQLITE_INNOCUOUS)))
            rc = call_find(expression, function, &name, &is_called);
    }
    rc_end = sqlite3_finalize(stmt);
    if (rc || rc_end || !is_called)
        return rc ? rc : rc_end;
    sqlite3_free(t->base.zErrMsg);
    t->base.zErrMsg = sqlite3_mprintf("unsafe use of %.*s()", name.length, name.text);
    return SQLITE_ERROR;
}
