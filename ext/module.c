/* module.c - the life of a statedb table: create, connect, disconnect, destroy, rename.
**
** A table object (vtable) only leads to a table of the store: by the name "schema.table" in the
** connection's own, by its name in a shared one. SQLite
** makes and frees such objects as it likes: a new one may come before the old one goes, in the
** middle of a transaction too. What a table is and holds is in the store, created, dropped and
** renamed there by the same transaction as SQLite's own schema. */
#include "index_sql.h"
#include "view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- tables of the store */

static bool is_in_file(vtable *t)
{
    const char *file = sqlite3_db_filename(t->conn->db, t->schema);

    return file && *file;
}

static int table_create(vtable *t, sdb_txn *txn, const char *name, sdb_table **out)
{
    const table_sql *sql = t->def;
    sdb_index_def *indexes =
        sqlite3_malloc64((sqlite3_uint64)(sql->n_indexes + 1) * sizeof *indexes);
    sdb_table_def def = {.name = name,
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
        return table_create(t, txn, t->key, out);
    rc = sdb_txn_savepoint(txn, &savepoint);
    if (rc)
        return rc;
    rc = sdb_txn_drop_table(txn, old);
    if (!rc)
        rc = table_create(t, txn, t->key, out);
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
    return table && table_sql_is_same(sdb_table_sql(table), t->def->sql) ? table : NULL;
}

/* A table of the connection's own that SQLite knows and the store does not is made outside of
** SQLite's transaction, as its schema has it already; but an open txn of ours would not see it then,
** and makes it itself. */
static int own_find(vtable *t)
{
    store *s = t->store;
    sdb_txn *txn = s->txn;
    sdb_table *table = NULL;
    sdb_table *old;
    int rc = SDB_OK;

    if (!txn)
        rc = sdb_txn_begin(s->db, &txn);
    if (rc)
        return error_core(t, rc);
    table = table_lookup(t, txn, &old);
    if (!table)
        rc = table_replace(t, txn, old, &table);
    if (!rc)
        vtable_take(t, table);
    if (txn != s->txn) {
        if (!rc)
            rc = sdb_txn_commit(txn);
        if (rc)
            sdb_txn_abort(txn);
        s->n_writes++; /* a snapshot held does not have it */
    }
    return error_core(t, rc);
}

static int shared_find(vtable *t)
{
    const char *name = t->store->name;
    sdb_table *table;
    view v;
    int rc = view_begin(t->store, &v);

    if (rc)
        return error_core(t, rc);
    table = view_table(v, t->key);
    if (!table)
        rc = error_set(t, SQLITE_ERROR, "the table has been dropped from store '%s', or renamed there",
                       name);
    else if (!table_sql_is_same(sdb_table_sql(table), t->def->sql))
        rc = error_set(t, SQLITE_ERROR,
                       "the table has been dropped from store '%s' and made anew, otherwise; connect "
                       "anew to join that one",
                       name);
    else
        vtable_take(t, table);
    view_end(t->store, v);
    return rc;
}

int vtable_find(vtable *t)
{
    return t->store->name ? shared_find(t) : own_find(t);
}

/* ---------------------------------------------------------------- table objects */

/* Without memory SQLite is not to be called again. */
static int schema_has(conn *c, const char *schema, const char *name, bool *out)
{
    int rc = sqlite3_table_column_metadata(c->db, schema, name, NULL, NULL, NULL, NULL, NULL, NULL);

    *out = rc == SQLITE_OK;
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

/* To prepare a query connects the table. */
int vtable_named(conn *c, const char *schema, const char *name, vtable **out)
{
    sqlite3_stmt *stmt = NULL;
    bool is_temp = false, is_main = false;
    char *sql;
    int rc = SQLITE_OK;

    *out = NULL;
    if (!schema)
        rc = schema_has(c, "temp", name, &is_temp);
    if (!schema && !rc && !is_temp)
        rc = schema_has(c, "main", name, &is_main);
    if (rc)
        return rc;
    if (!schema)
        schema = is_temp ? "temp" : is_main ? "main" : NULL;
    sql = schema ? sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\"", schema, name)
                 : sqlite3_mprintf("SELECT 1 FROM \"%w\"", name);
    rc = sql ? sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    sqlite3_finalize(stmt);
    *out = rc ? NULL : c->vtables;
    while (*out && (sqlite3_stricmp((*out)->name, name) != 0 ||
                    (schema && sqlite3_stricmp((*out)->schema, schema) != 0)))
        *out = (*out)->next;
    return rc;
}

static void vtable_free(vtable *t)
{
    conn *c = t->conn;

    if (t->next)
        t->next->prev = t->prev;
    if (t->prev)
        t->prev->next = t->next;
    else
        c->vtables = t->next;
    txn_object_gone(c);
    lock_unwant(&t->base);
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

char *vtable_key(const vtable *t, const char *name)
{
    return t->store->name ? sqlite3_mprintf("%s", name)
                          : sqlite3_mprintf("%s.%s", t->schema, name);
}

/* The definition that the table of this name has in the store, in place of an empty one. What has been
** dropped from there has no columns any more; but DROP TABLE must find a table. */
static int definition_join(store *s, const char *const *argv, bool is_new, table_sql **def, char **err)
{
    const char *with[] = {argv[0], argv[1], argv[2], "dropped"};
    const sdb_table *table;
    table_sql *joined;
    view v;
    int rc = error_code(view_begin(s, &v));

    if (rc)
        return rc;
    table = view_table(v, argv[2]);
    if (table)
        with[3] = sdb_table_sql(table);
    if (table || !is_new) {
        rc = table_sql_parse(4, with, &joined, err);
    } else {
        *err = sqlite3_mprintf("statedb: %s: there is no such table in store '%s'; to make it there, "
                               "write its columns",
                               argv[2], s->name);
        rc = SQLITE_ERROR;
    }
    view_end(s, v);
    if (rc)
        return rc;
    if (!table)
        *joined->sql = 0;
    table_sql_free(*def);
    *def = joined;
    return SQLITE_OK;
}

/* argv: the module's name, the schema's, the table's, and what is written in the parentheses. */
static int vtable_new(conn *c, int argc, const char *const *argv, bool is_new, vtable **out,
                      char **err)
{
    table_sql *def;
    store *s;
    vtable *t;
    int rc = like_parse(c, argc, argv, is_new, &def, err);

    if (rc)
        return rc;
    rc = store_open(c, def->store, &s);
    if (!rc && !*def->sql)
        rc = definition_join(s, argv, is_new, &def, err);
    t = rc ? NULL : sqlite3_malloc(sizeof *t);
    if (!t) {
        table_sql_free(def);
        return rc ? rc : SQLITE_NOMEM;
    }
    *t = (vtable){.conn = conn_ref(c), .store = s, .def = def, .next = c->vtables};
    if (t->next)
        t->next->prev = t;
    c->vtables = t;
    txn_object_come(c);
    t->schema = sqlite3_mprintf("%s", argv[1]);
    t->name = sqlite3_mprintf("%s", argv[2]);
    t->key = vtable_key(t, argv[2]);
    t->row = sqlite3_malloc64((sqlite3_uint64)def->n_columns * sizeof *t->row);
    if (!t->schema || !t->name || !t->key || !t->row) {
        vtable_free(t);
        return SQLITE_NOMEM;
    }
    t->is_in_file = is_in_file(t) && !def->storage_memory && !def->store;
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

static int index_names_check(vtable *t)
{
    int rc = SQLITE_OK;

    for (int i = 0; !rc && i < t->def->n_indexes; i++)
        if (sqlite3_strnicmp(t->def->indexes[i].name, "sqlite_", 7) != 0)
            rc = command_check_name(t, t->def->indexes[i].name);
    return rc;
}

static int definition_check(vtable *t)
{
    int rc = check_prepare(t);

    return rc ? rc : index_names_check(t);
}

/* A table left over under the name, as after DETACH, is gone for SQLite, and makes way. */
static int own_create(vtable *t)
{
    sdb_table *table;
    sdb_table *old;
    int rc = definition_check(t);

    if (rc)
        return rc;
    table_lookup(t, t->store->txn, &old);
    rc = table_replace(t, t->store->txn, old, &table);
    if (!rc)
        vtable_take(t, table);
    return error_core(t, rc);
}

/* Join the table, or make it. While somebody else is making it we wait, as for a lock. */
static int shared_create(vtable *t)
{
    store *s = t->store;
    sdb_table *table;
    sdb_table *old;
    int waited_ms = 0;
    int rc;

    do {
        rc = SDB_OK;
        table = table_lookup(t, s->txn, &old);
        if (old && !table)
            return error_set(t, SQLITE_ERROR,
                             "store '%s' has this table with another definition: (%s), and not (%s)",
                             s->name, sdb_table_sql(old), t->def->sql);
        if (!table) {
            int rc_definition = definition_check(t);
            if (rc_definition)
                return rc_definition;
            rc = table_create(t, s->txn, t->key, &table);
        }
    } while (rc && lock_makes_way(t, rc, &waited_ms));
    s->is_blank = false;
    if (rc == SDB_BUSY)
        return error_set(t, SQLITE_BUSY, "another connection is just creating the table in store '%s'",
                         s->name);
    if (!rc)
        vtable_take(t, table);
    return error_core(t, rc);
}

static int vtable_create(vtable *t)
{
    int rc;

    if (t->is_in_file)
        return vtable_refuse_file(t);
    rc = txn_enroll(t->store, &t->base.zErrMsg);
    if (!rc)
        rc = t->store->name ? shared_create(t) : own_create(t);
    return rc;
}

/* Have a table that no version of the store has: for one that was dropped there, until it is found
** again. */
static int vtable_take_none(vtable *t)
{
    sdb_txn *txn;
    sdb_table *table;
    int rc = sdb_txn_begin(store_own(t->conn)->db, &txn);

    if (rc)
        return error_code(rc);
    rc = table_create(t, txn, "", &table); /* the connection's own have names with a point in them */
    if (!rc)
        vtable_take(t, table);
    sdb_txn_abort(txn);
    return error_code(rc);
}

/* A file may have outlived the store; nothing else in SQLite does. */
static int vtable_connect(vtable *t)
{
    view v;
    sdb_table *table;
    int rc;

    if (!t->store->name || (is_in_file(t) && *t->def->sql))
        return own_find(t);
    rc = view_begin(t->store, &v);
    if (rc)
        return error_core(t, rc);
    table = view_table(v, t->key);
    if (table && table_sql_is_same(sdb_table_sql(table), t->def->sql))
        vtable_take(t, table);
    else
        rc = vtable_take_none(t);
    view_end(t->store, v);
    return rc;
}

static int vtable_open(conn *c, int argc, const char *const *argv, bool is_new, sqlite3_vtab **out,
                       char **err)
{
    vtable *t;
    int rc = txn_verify(c);

    if (!rc)
        rc = vtable_new(c, argc, argv, is_new, &t, err);
    if (rc)
        return rc;
    rc = vtable_declare(t);
    if (!rc)
        rc = is_new ? vtable_create(t) : vtable_connect(t);
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
    return vtable_open(aux, argc, argv, true, out, err);
}

static int module_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **err)
{
    (void)db;
    return vtable_open(aux, argc, argv, false, out, err);
}

static int module_begin(sqlite3_vtab *vtab)
{
    ((vtable *)vtab)->is_begun = true;
    return lock_want(vtab);
}

/* SQLite takes any text that is there now for the statement's, though it has no use for what xDestroy says. */
static int module_sync(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = NULL;
    return txn_sync(vtab);
}

static int module_commit(sqlite3_vtab *vtab)
{
    ((vtable *)vtab)->is_begun = false;
    lock_unwant(vtab);
    return txn_commit(vtab);
}

static int module_rollback(sqlite3_vtab *vtab)
{
    ((vtable *)vtab)->is_begun = false;
    lock_unwant(vtab);
    return txn_rollback(vtab);
}

static int module_disconnect(sqlite3_vtab *vtab)
{
    assert(((vtable *)vtab)->conn->manager != vtab);
    vtable_free((vtable *)vtab);
    return SQLITE_OK;
}

/* The table that is to be dropped or renamed, locked: NULL when somebody else has dropped it. */
static int vtable_lock(vtable *t, sdb_table **out)
{
    sdb_table *old;
    int rc = txn_enroll(t->store, &t->base.zErrMsg);

    *out = t->table;
    if (rc || !t->store->name)
        return rc;
    *out = table_lookup(t, t->store->txn, &old);
    if (!*out)
        return SQLITE_OK;
    vtable_take(t, *out);
    rc = lock_take(t);
    *out = t->table; /* it may be another one now */
    if (rc == SQLITE_ERROR) /* or gone */
        *out = table_lookup(t, t->store->txn, &old);
    return *out ? rc : SQLITE_OK;
}

/* SQLite drops the object at once and the table with its transaction; so does this. */
/* While another statement that has written still returns rows, SQLite drops no table of its own either; of ours it
** would, and stumble over it later. */
static int module_destroy(sqlite3_vtab *vtab)
{
    vtable *t = (vtable *)vtab;
    sdb_table *table;
    int rc = txn_count_writing(t->conn) > 1 ? SQLITE_LOCKED : vtable_lock(t, &table);

    if (rc)
        return rc;
    rc = table ? sdb_txn_drop_table(t->store->txn, table) : SDB_OK;
    if (rc && rc != SDB_MISUSE) /* which says that it is not there */
        return error_core(t, rc);
    t->store->is_blank = false;
    vtable_free(t);
    return SQLITE_OK;
}

/* SQLite connects the table anew under the new name, or, after a rollback, the old one. */
static int module_rename(sqlite3_vtab *vtab, const char *name)
{
    vtable *t = (vtable *)vtab;
    sdb_txn *txn;
    sdb_table *table;
    sdb_table *old;
    char *key;
    int rc = vtable_lock(t, &table);

    if (rc)
        return rc;
    if (!table)
        return vtable_find(t); /* says so */
    txn = t->store->txn;
    t->store->is_blank = false;
    key = vtable_key(t, name);
    if (!key)
        return SQLITE_NOMEM;
    old = sdb_txn_table(txn, key);
    if (old == table)
        old = NULL;
    if (old && t->store->name)
        rc = error_set(t, SQLITE_ERROR, "store '%s' has a table named %s already", t->store->name,
                       name);
    else
        rc = error_core(t, old ? sdb_txn_drop_table(txn, old) : SDB_OK);
    if (!rc)
        rc = error_core(t, sdb_txn_rename_table(txn, table, key));
    sqlite3_free(key);
    return rc;
}

static int module_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags,
                            char **err)
{
    vtable *t = (vtable *)vtab;
    char *text;
    int rc = store_check(t->store, &text);

    (void)flags;
    if (text && !(*err = sqlite3_mprintf("statedb: %s.%s: %s", schema, name, text)))
        rc = SQLITE_NOMEM;
    free(text);
    return rc;
}

/* The module as SQLite 3.44 and newer know it, whatever the header we are compiled with. Older ones look
** at no method beyond those of their own version. */
typedef struct module_4 {
    sqlite3_module older;
#if SQLITE_VERSION_NUMBER < 3044000
    int (*xIntegrity)(sqlite3_vtab *, const char *, const char *, int, char **);
#endif
} module_4;

/* The transaction methods serve lock.c, and a table that does for the manager (transaction.c). */
static const module_4 module = {
#if SQLITE_VERSION_NUMBER >= 3044000
    .older.xIntegrity = module_integrity,
#else
    .xIntegrity = module_integrity,
#endif
    .older.iVersion = 4,
    .older.xCreate = module_create,
    .older.xConnect = module_connect,
    .older.xBestIndex = plan_best_index,
    .older.xDisconnect = module_disconnect,
    .older.xDestroy = module_destroy,
    .older.xOpen = cursor_open,
    .older.xClose = cursor_close,
    .older.xFilter = cursor_filter,
    .older.xNext = cursor_next,
    .older.xEof = cursor_eof,
    .older.xColumn = cursor_column,
    .older.xRowid = cursor_rowid,
    .older.xUpdate = write_update,
    .older.xFindFunction = plan_find_function,
    .older.xBegin = module_begin,
    .older.xSync = module_sync,
    .older.xCommit = module_commit,
    .older.xRollback = module_rollback,
    .older.xRename = module_rename,
    .older.xSavepoint = txn_savepoint,
    .older.xRelease = txn_release,
    .older.xRollbackTo = txn_rollback_to,
};

const sqlite3_module *const statedb_module = &module.older;
