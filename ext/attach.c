/* attach.c - statedb_attach(store): join all tables that a shared store has, as virtual tables in
** TEMP. */
#include "view.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

typedef struct attacher {
    store *store;
    sqlite3_str *sql; /* the statements that join */
    int n_new;
    char *err; /* a sentence */
} attacher;

/* Whether the table of this schema is a table of the store. */
static int is_joined(const attacher *a, const char *schema, const char *name, bool *out)
{
    vtable *t;
    int rc = vtable_named(a->store->conn, schema, name, &t);

    *out = t && t->store == a->store;
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

/* Whether the name is there already, for this table of the store; in any schema, because a table in
** TEMP would hide the other. */
static int name_look_up(attacher *a, const char *name, bool *out)
{
    sqlite3_stmt *stmt;
    const char *schema;
    int rc_end;
    int rc = sqlite3_prepare_v2(a->store->conn->db,
                                "SELECT schema FROM pragma_table_list WHERE name = ? COLLATE NOCASE",
                                -1, &stmt, NULL);

    *out = false;
    if (rc)
        return rc;
    rc = sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    while (!rc && sqlite3_step(stmt) == SQLITE_ROW) {
        schema = (const char *)sqlite3_column_text(stmt, 0);
        rc = schema ? is_joined(a, schema, name, out) : SQLITE_NOMEM;
        if (!rc && !*out) {
            a->err = sqlite3_mprintf("statedb: there is already a table named %s in schema %s, so that "
                                     "of store '%s' cannot be joined: rename one of them",
                                     name, schema, a->store->name);
            rc = a->err ? SQLITE_ERROR : SQLITE_NOMEM;
        }
    }
    rc_end = sqlite3_finalize(stmt);
    return rc ? rc : rc_end;
}

static int tables_find(attacher *a, view v)
{
    int rc = SQLITE_OK;

    for (const sdb_table *t = view_next_table(v, NULL); t && !rc; t = view_next_table(v, t)) {
        const char *name = view_name(v, t);
        bool is_there;
        rc = name_look_up(a, name, &is_there);
        if (rc || is_there)
            continue;
        sqlite3_str_appendf(a->sql, "CREATE VIRTUAL TABLE temp.\"%w\" USING statedb(%s, store=%Q);", name,
                            sdb_table_sql(t), a->store->name);
        a->n_new++;
    }
    return rc ? rc : sqlite3_str_errcode(a->sql);
}

/* List what is to be joined, of what the connection sees now. */
static int tables_list(attacher *a)
{
    view v;
    int rc = error_code(view_begin(a->store, &v));

    if (rc)
        return rc;
    sqlite3_str_reset(a->sql);
    a->n_new = 0;
    a->store->conn->n_open++; /* as a cursor, to keep what is read */
    rc = tables_find(a, v);
    a->store->conn->n_open--;
    view_end(a->store, v);
    return rc;
}

/* All or none. They are listed again in the txn that joins them: one that has been dropped since would be
** made anew. */
static int tables_join(attacher *a)
{
    sqlite3 *db = a->store->conn->db;
    int rc = sqlite3_exec(db, "SAVEPOINT statedb_attach", NULL, NULL, &a->err);

    if (rc)
        return rc;
    rc = txn_enroll(a->store, &a->err);
    if (!rc)
        rc = tables_list(a);
    if (!rc)
        rc = sqlite3_exec(db, sqlite3_str_value(a->sql), NULL, NULL, &a->err);
    if (!rc)
        return sqlite3_exec(db, "RELEASE statedb_attach", NULL, NULL, &a->err);
    sqlite3_exec(db, "ROLLBACK TO statedb_attach; RELEASE statedb_attach", NULL, NULL, NULL);
    return rc;
}

static int store_join(attacher *a)
{
    int rc = tables_list(a);

    return rc || !a->n_new ? rc : tables_join(a);
}

static void attach_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    conn *c = sqlite3_user_data(ctx);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    attacher a = {0};
    int rc;

    (void)argc;
    if (!name || !*name) {
        sqlite3_result_error(ctx, "statedb_attach: the argument is the name of a store", -1);
        return;
    }
    a.sql = sqlite3_str_new(c->db);
    rc = store_open(c, name, &a.store);
    if (!rc)
        rc = store_join(&a);
    sqlite3_free(sqlite3_str_finish(a.sql));
    if (rc && a.err)
        sqlite3_result_error(ctx, a.err, -1);
    if (rc)
        sqlite3_result_error_code(ctx, rc);
    else
        sqlite3_result_int(ctx, a.n_new);
    sqlite3_free(a.err);
}

int attach_register(conn *c)
{
    return sqlite3_create_function_v2(c->db, "statedb_attach", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                      conn_ref(c), attach_function, NULL, NULL, conn_unref);
}
