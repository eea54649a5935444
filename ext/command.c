/* command.c - what is written to a table's command column: integrity-check, CREATE INDEX, DROP
** INDEX.
**
** The two on indexes are SQLite's own statements, which it refuses for virtual tables, with its own
** errors. They are part of the transaction like any other change. Statements that are running go on,
** each in its version; but for DROP INDEX none may be running, as in SQLite: one that comes back to
** the table would not find its index. */
#include "ext.h"
#include "index_sql.h"

#include <stdlib.h>

SQLITE_EXTENSION_INIT3

int store_check(store *s, char **out)
{
    sdb_txn *txn = s->txn;
    int rc = txn ? SDB_OK : sdb_txn_begin(s->db, &txn);

    *out = NULL;
    if (rc != SDB_OK)
        return error_code(rc);
    sdb_txn_set_stop(txn, 0, conn_stop(s->conn));
    *out = sdb_txn_check(txn);
    sdb_txn_set_stop(txn, 0, (sdb_stop){0});
    if (txn != s->txn)
        sdb_txn_abort(txn);
    if (*out && conn_is_interrupted(s->conn)) {
        free(*out);
        *out = NULL;
        return SQLITE_INTERRUPT;
    }
    return SQLITE_OK;
}

static int integrity_check(vtable *t)
{
    char *text;
    int rc = store_check(t->store, &text);

    if (text)
        rc = error_set(t, SQLITE_CORRUPT_VTAB, "%s", text);
    free(text);
    return rc;
}

/* ---------------------------------------------------------------- names */

typedef enum { NAME_FREE, NAME_OF_INDEX, NAME_OF_TABLE } name_use;

/* Whether a statedb table of the schema has an index of that name. One that is being created is not
** there yet; what is left of another under its name makes way. */
static int table_has_index(vtable *t, const char *table_name, const char *name, bool *out)
{
    char *key = table_name ? vtable_key(t, table_name) : NULL;
    sdb_table *table;

    *out = false;
    if (!key)
        return SQLITE_NOMEM;
    table = sdb_txn_table(t->store->txn, key);
    sqlite3_free(key);
    if (table && (t->table || sqlite3_stricmp(table_name, t->name) != 0))
        *out = sdb_txn_find_index(t->store->txn, table, name) > 0;
    return SQLITE_OK;
}

static int name_look_up(vtable *t, const char *name, name_use *out)
{
    char *sql = sqlite3_mprintf("SELECT name = %Q COLLATE NOCASE, type = 'index', name "
                                "FROM \"%w\".sqlite_schema WHERE type <> 'trigger' AND "
                                "(name = %Q COLLATE NOCASE OR (type = 'table' AND rootpage = 0))",
                                name, t->schema, name);
    sqlite3_stmt *stmt;
    bool has_index;
    int rc, rc_end;

    *out = NAME_FREE;
    if (!sql)
        return SQLITE_NOMEM;
    rc = sqlite3_prepare_v2(t->conn->db, sql, -1, &stmt, NULL);
    sqlite3_free(sql);
    if (rc)
        return rc;
    while (!rc && *out != NAME_OF_TABLE && sqlite3_step(stmt) == SQLITE_ROW) {
        bool is_same = sqlite3_column_int(stmt, 0), is_index = sqlite3_column_int(stmt, 1);
        rc = table_has_index(t, (const char *)sqlite3_column_text(stmt, 2), name, &has_index);
        if (is_same && !is_index)
            *out = NAME_OF_TABLE;
        else if (is_same || has_index)
            *out = NAME_OF_INDEX;
    }
    rc_end = sqlite3_finalize(stmt);
    return rc ? rc : rc_end;
}

static int name_refuse(vtable *t, name_use use, const char *name)
{
    if (use == NAME_OF_TABLE)
        return error_set(t, SQLITE_ERROR, "there is already a table named %s", name);
    return use == NAME_FREE ? SQLITE_OK
                            : error_set(t, SQLITE_ERROR, "index %s already exists", name);
}

int command_check_name(vtable *t, const char *name)
{
    name_use use;
    int rc = name_look_up(t, name, &use);

    return rc ? rc : name_refuse(t, use, name);
}

/* ---------------------------------------------------------------- indexes */

static int index_create(vtable *t, const index_command *command)
{
    const index_sql *sql = &command->index;
    const char *schema = command->schema;
    sdb_index_def def = index_core_def(sql);
    name_use use;
    int rc;

    if (schema && !sqlite3_db_filename(t->conn->db, schema))
        return error_set(t, SQLITE_ERROR, "unknown database %s", schema);
    if (schema && sqlite3_stricmp(schema, "temp") == 0 && sqlite3_stricmp(t->schema, "temp") != 0)
        return error_set(t, SQLITE_ERROR, "cannot create a TEMP index on non-TEMP table \"%s\"",
                         t->name);
    if (schema && sqlite3_stricmp(schema, t->schema) != 0)
        return error_set(t, SQLITE_ERROR, "no such table: %s.%s", schema, t->name);
    rc = name_look_up(t, sql->name, &use);
    if (!rc && use == NAME_OF_INDEX && command->has_if)
        return SQLITE_OK;
    if (!rc)
        rc = name_refuse(t, use, sql->name);
    if (rc)
        return rc;
    if (sdb_txn_indexes(t->store->txn, t->table) == SDB_MAX_INDEXES - 1)
        return error_set(t, SQLITE_ERROR,
                         "too many indexes: at most %d, those of UNIQUE and PRIMARY KEY included",
                         SDB_MAX_INDEXES - 1);
    sdb_txn_set_stop(t->store->txn, 0, conn_stop(t->conn));
    rc = sdb_txn_create_index(t->store->txn, t->table, &def);
    sdb_txn_set_stop(t->store->txn, 0, (sdb_stop){0});
    if (rc == SDB_DUPLICATE)
        return error_unique_parts(t, SQLITE_CONSTRAINT_UNIQUE, def.parts, def.n_parts);
    if (rc == SDB_NOTPREFIX || rc == SDB_NOTSET)
        return refused_table(t, &def, rc);
    if (!rc)
        txn_indexes_changed(t->store, false);
    return error_core(t, rc);
}

static int index_drop(vtable *t, const index_command *command)
{
    const char *schema = command->schema, *name = command->index.name;
    bool is_here = !schema || sqlite3_stricmp(schema, t->schema) == 0;
    int index = is_here ? sdb_txn_find_index(t->store->txn, t->table, name) : 0;
    int rc;

    if (!index && command->has_if)
        return SQLITE_OK;
    if (!index)
        return error_set(t, SQLITE_ERROR, "no such index: %s%s%s", schema ? schema : "",
                         schema ? "." : "", name);
    if (sqlite3_strnicmp(name, "sqlite_", 7) == 0)
        return error_set(t, SQLITE_ERROR,
                         "index associated with UNIQUE or PRIMARY KEY constraint "
                         "cannot be dropped");
    if (!txn_is_alone(t->conn))
        return error_set(t, SQLITE_LOCKED,
                         "index %s cannot be dropped while another statement of "
                         "this connection is running: reset it first",
                         name);
    rc = sdb_txn_drop_index(t->store->txn, t->table, index);
    if (!rc)
        txn_indexes_changed(t->store, true);
    return error_core(t, rc);
}

static int index_run(vtable *t, const char *text)
{
    index_command command;
    char *err = NULL;
    int rc = index_command_parse(t->def, text, &command, &err);

    if (rc) {
        sqlite3_free(t->base.zErrMsg);
        t->base.zErrMsg = err;
        return rc;
    }
    rc = write_begin(t);
    if (!rc)
        rc = command.is_drop ? index_drop(t, &command) : index_create(t, &command);
    index_command_fini(&command);
    return rc;
}

/* ---------------------------------------------------------------- the command column */

int command_run(vtable *t, sqlite3_value *command)
{
    const char *text = (const char *)sqlite3_value_text(command);
    sql_token first = {.text = text};

    if (!text)
        return SQLITE_NOMEM;
    if (sqlite3_stricmp(text, "integrity-check") == 0)
        return integrity_check(t);
    sql_token_next(&first);
    if (sql_token_is(&first, "CREATE") || sql_token_is(&first, "DROP"))
        return index_run(t, text);
    return error_set(t, SQLITE_ERROR,
                     "unknown command: %s (there are CREATE INDEX, DROP INDEX, integrity-check)",
                     text);
}
