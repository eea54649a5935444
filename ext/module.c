/* module.c - the life of a statedb table: create, connect, disconnect, destroy, rename; and the
** connection they belong to.
**
** A table object (vtable) only leads to a table of the store, by the name "schema.table". SQLite
** makes and frees such objects as it likes: a new one may come before the old one goes, in the
** middle of a transaction too. What a table is and holds is in the store, created, dropped and
** renamed there by the same transaction as SQLite's own schema. */
#include "ext.h"
#include "index_sql.h"

#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- connections */

conn *conn_new(sqlite3 *db, int *rc)
{
    conn *c = sqlite3_malloc(sizeof *c);

    if (!c) {
        *rc = SQLITE_NOMEM;
        return NULL;
    }
    *c = (conn){.db = db, .n_ref = 1};
    *rc = error_code(sdb_open(&c->store));
    if (!*rc)
        *rc = error_code(sdb_snapshot_new(c->store, &c->snapshot));
    if (*rc) {
        conn_unref(c);
        return NULL;
    }
    return c;
}

conn *conn_ref(conn *c)
{
    c->n_ref++;
    return c;
}

void conn_unref(void *p)
{
    conn *c = p;

    if (--c->n_ref)
        return;
    txn_close(c);
    cursor_pool_free(c);
    sdb_snapshot_free(c->snapshot);
    sdb_unref(c->store);
    sqlite3_free(c);
}

/* ---------------------------------------------------------------- tables of the store */

/* The store a table belongs to: as yet always the connection's own. */
static sdb_db *vtable_store(vtable *t)
{
    return t->conn->store;
}

static bool is_in_file(vtable *t)
{
    const char *file = sqlite3_db_filename(t->conn->db, t->schema);

    return file && *file;
}

static int table_create(vtable *t, sdb_txn *txn, sdb_table **out)
{
    const table_sql *sql = t->def;
    sdb_index_def *indexes =
        sqlite3_malloc64((sqlite3_uint64)(sql->n_indexes + 1) * sizeof *indexes);
    sdb_table_def def = {.name = t->key,
                         .sql = sql->sql,
                         .n_columns = (uint16_t)sql->n_columns,
                         .rowid_column = sql->rowid_column,
                         .n_indexes = (uint16_t)sql->n_indexes,
                         .indexes = indexes};
    int rc;

    if (!indexes)
        return SDB_NOMEM;
    for (int i = 0; i < sql->n_indexes; i++)
        indexes[i] = index_core_def(&sql->indexes[i]);
    rc = sdb_txn_create_table(txn, &def, out);
    sqlite3_free(indexes);
    return rc;
}

/* Create the table in place of `old`, which may be NULL: both or nothing. */
static int table_replace(vtable *t, sdb_txn *txn, sdb_table *old, sdb_table **out)
{
    int savepoint;
    int rc;

    if (!old)
        return table_create(t, txn, out);
    rc = sdb_txn_savepoint(txn, &savepoint);
    if (rc)
        return rc;
    rc = sdb_txn_drop_table(txn, old);
    if (!rc)
        rc = table_create(t, txn, out);
    if (rc)
        sdb_txn_rollback_to(txn, savepoint);
    sdb_txn_release(txn, savepoint);
    return rc;
}

static void vtable_take(vtable *t, sdb_table *table)
{
    sdb_table_ref(table);
    sdb_table_unref(t->table);
    t->table = table;
}

/* The table as it was defined, or what stands in its place: *old. */
static sdb_table *table_lookup(vtable *t, sdb_txn *txn, sdb_table **old)
{
    sdb_table *table = sdb_txn_table(txn, t->key);

    *old = table;
    return table && strcmp(sdb_table_sql(table), t->def->sql) == 0 ? table : NULL;
}

/* A table that SQLite knows and the store does not is made outside of SQLite's transaction, as its
** schema has it already; but an open txn of ours would not see it then, and makes it itself. */
int vtable_find(vtable *t)
{
    sdb_txn *txn = t->conn->txn;
    sdb_table *table = NULL;
    sdb_table *old;
    int rc = SDB_OK;

    if (!txn)
        rc = sdb_txn_begin(vtable_store(t), &txn);
    if (rc)
        return error_core(t, rc);
    table = table_lookup(t, txn, &old);
    if (!table)
        rc = table_replace(t, txn, old, &table);
    if (!rc)
        vtable_take(t, table);
    if (txn != t->conn->txn) {
        if (!rc)
            rc = sdb_txn_commit(txn);
        if (rc)
            sdb_txn_abort(txn);
        t->conn->n_writes++; /* a snapshot held does not have it */
    }
    return error_core(t, rc);
}

/* ---------------------------------------------------------------- table objects */

static void vtable_free(vtable *t)
{
    conn *c = t->conn;

    if (--c->n_vtables == 0)
        txn_forget_statement(c);
    write_defaults_free(t);
    check_free(t);
    sdb_table_unref(t->table);
    table_sql_free(t->def);
    sqlite3_free(t->base.zErrMsg);
    sqlite3_free(t->schema);
    sqlite3_free(t->name);
    sqlite3_free(t->key);
    sqlite3_free(t->row);
    sqlite3_free(t);
    conn_unref(c);
}

/* argv: the module's name, the schema's, the table's, and what is written in the parentheses. */
static int vtable_new(conn *c, int argc, const char *const *argv, vtable **out, char **err)
{
    table_sql *def;
    vtable *t;
    int rc = table_sql_parse(argc, argv, &def, err);

    if (rc)
        return rc;
    t = sqlite3_malloc(sizeof *t);
    if (!t) {
        table_sql_free(def);
        return SQLITE_NOMEM;
    }
    *t = (vtable){.conn = conn_ref(c), .def = def};
    c->n_vtables++;
    t->schema = sqlite3_mprintf("%s", argv[1]);
    t->name = sqlite3_mprintf("%s", argv[2]);
    t->key = sqlite3_mprintf("%s.%s", argv[1], argv[2]);
    t->row = sqlite3_malloc64((sqlite3_uint64)def->n_columns * sizeof *t->row);
    if (!t->schema || !t->name || !t->key || !t->row) {
        vtable_free(t);
        return SQLITE_NOMEM;
    }
    t->is_in_file = is_in_file(t) && !def->storage_memory;
    *out = t;
    return SQLITE_OK;
}

/* At CREATE; at the first write where VACUUM INTO or a backup has brought the table into a file. */
int vtable_refuse_file(vtable *t)
{
    return error_set(t, SQLITE_ERROR,
                     "schema %s is a database file, but the rows would live in memory and be lost with "
                     "this connection; write storage=memory to accept that, or create the table in "
                     "temp",
                     t->schema);
}

static int vtable_declare(vtable *t)
{
    sqlite3 *db = t->conn->db;
    int rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);

    if (!rc)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    if (!rc)
        rc = sqlite3_declare_vtab(db, t->def->declare);
    if (rc == SQLITE_ERROR)
        rc = error_set(t, rc, "%s", sqlite3_errmsg(db));
    return rc;
}

/* A table left over under the name, as after DETACH, is gone for SQLite, and makes way. */
static int vtable_create(vtable *t)
{
    sdb_table *table;
    sdb_table *old;
    int rc;

    if (t->is_in_file)
        return vtable_refuse_file(t);
    rc = txn_enroll(t->conn, &t->base.zErrMsg);
    if (!rc)
        rc = check_prepare(t);
    for (int i = 0; !rc && i < t->def->n_indexes; i++)
        if (sqlite3_strnicmp(t->def->indexes[i].name, "sqlite_", 7) != 0)
            rc = command_check_name(t, t->def->indexes[i].name);
    if (rc)
        return rc;
    table_lookup(t, t->conn->txn, &old);
    rc = table_replace(t, t->conn->txn, old, &table);
    if (rc)
        return error_core(t, rc);
    vtable_take(t, table);
    return SQLITE_OK;
}

static int vtable_open(conn *c, int argc, const char *const *argv, int (*find)(vtable *),
                       sqlite3_vtab **out, char **err)
{
    vtable *t;
    int rc = vtable_new(c, argc, argv, &t, err);

    if (rc)
        return rc;
    rc = vtable_declare(t);
    if (!rc)
        rc = find(t);
    if (rc) {
        *err = t->base.zErrMsg;
        t->base.zErrMsg = NULL;
        vtable_free(t);
        return rc;
    }
    *out = &t->base;
    return SQLITE_OK;
}

static int module_create(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **err)
{
    (void)db;
    return vtable_open(aux, argc, argv, vtable_create, out, err);
}

static int module_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **err)
{
    conn *c = aux;
    int rc = txn_verify(c);

    (void)db;
    return rc ? rc : vtable_open(c, argc, argv, vtable_find, out, err);
}

static int module_disconnect(sqlite3_vtab *vtab)
{
    vtable_free((vtable *)vtab);
    return SQLITE_OK;
}

/* SQLite drops the object at once and the table with its transaction; so does this. */
static int module_destroy(sqlite3_vtab *vtab)
{
    vtable *t = (vtable *)vtab;
    int rc = txn_enroll(t->conn, &vtab->zErrMsg);

    if (rc)
        return rc;
    rc = sdb_txn_drop_table(t->conn->txn, t->table);
    if (rc && rc != SDB_MISUSE) /* which says that it is not there */
        return error_core(t, rc);
    vtable_free(t);
    return SQLITE_OK;
}

/* SQLite connects the table anew under the new name, or, after a rollback, the old one. */
static int module_rename(sqlite3_vtab *vtab, const char *name)
{
    vtable *t = (vtable *)vtab;
    sdb_txn *txn;
    sdb_table *old;
    char *key;
    int rc = txn_enroll(t->conn, &vtab->zErrMsg);

    if (rc)
        return rc;
    txn = t->conn->txn;
    key = sqlite3_mprintf("%s.%s", t->schema, name);
    if (!key)
        return SQLITE_NOMEM;
    old = sdb_txn_table(txn, key);
    rc = old ? sdb_txn_drop_table(txn, old) : SDB_OK;
    if (!rc)
        rc = sdb_txn_rename_table(txn, t->table, key);
    sqlite3_free(key);
    return error_core(t, rc);
}

#if SQLITE_VERSION_NUMBER >= 3044000
static int module_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags,
                            char **err)
{
    vtable *t = (vtable *)vtab;
    char *text = t->conn->txn ? sdb_txn_check(t->conn->txn) : sdb_check(vtable_store(t));

    (void)flags;
    if (text)
        *err = sqlite3_mprintf("statedb: %s.%s: %s", schema, name, text);
    free(text);
    return text && !*err ? SQLITE_NOMEM : SQLITE_OK;
}
#endif

/* No transaction methods: transaction.c. */
const sqlite3_module statedb_module = {
#if SQLITE_VERSION_NUMBER >= 3044000
    .iVersion = 4,
    .xIntegrity = module_integrity,
#else
    .iVersion = 2,
#endif
    .xCreate = module_create,
    .xConnect = module_connect,
    .xBestIndex = plan_best_index,
    .xDisconnect = module_disconnect,
    .xDestroy = module_destroy,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
    .xUpdate = write_update,
    .xFindFunction = plan_find_function,
    .xRename = module_rename,
};
