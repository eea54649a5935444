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

static int function_check(vtable *t, sqlite3_stmt *stmt, const sql_token *name)
{
    char *text = sql_dequote(name->text, name->length);
    bool is_unsafe = false;
    int rc = SQLITE_NOMEM;

    if (text)
        rc = sqlite3_bind_text(stmt, 1, text, -1, sqlite3_free);
    if (!rc) {
        is_unsafe = sqlite3_step(stmt) == SQLITE_ROW;
        rc = sqlite3_reset(stmt);
    }
    if (rc || !is_unsafe)
        return rc;
    sqlite3_free(t->base.zErrMsg);
    t->base.zErrMsg = sqlite3_mprintf("unsafe use of %.*s()", name->length, name->text);
    return SQLITE_ERROR;
}

int expression_check_functions(vtable *t, const char *expression)
{
    static const char unsafe[] = /* SQLITE_DIRECTONLY, SQLITE_INNOCUOUS */
        "SELECT 1 FROM pragma_function_list WHERE name = ?1 COLLATE NOCASE AND (flags & 0x80000 OR "
        "NOT (flags & 0x200000 OR (SELECT trusted_schema FROM pragma_trusted_schema)))";
    sql_token token = {.text = expression};
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_OK;

    if (sqlite3_stricmp(t->schema, "temp") == 0)
        return SQLITE_OK;
    for (sql_token_next(&token); !rc && token.kind != TOKEN_END;) {
        sql_token name = token;
        sql_token_next(&token);
        if (token.kind != '(' || (name.kind != TOKEN_WORD && name.kind != TOKEN_NAME))
            continue;
        if (!stmt)
            rc = sqlite3_prepare_v2(t->conn->db, unsafe, -1, &stmt, NULL);
        if (!rc)
            rc = function_check(t, stmt, &name);
    }
    sqlite3_finalize(stmt);
    return rc;
}
