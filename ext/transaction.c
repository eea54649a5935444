/* transaction.c - SQLite's transactions and savepoints, mapped to one sdb_txn for each store.
**
** A virtual table of its own in the TEMP schema, statedb_txn, the manager. It is without rows (but for
** check.c, which lends it one). SQLite
** calls the transaction methods of a virtual table only from its first write on, and forgets one
** that is dropped, undone or reconnected in the middle. Whatever happens to the statedb tables, the
** manager stays. The first write, create, drop or rename of a transaction enrols it by a nested
** statement that writes to it; from then on it hears of every savepoint, commit and rollback:
**
**     first write        txn_enroll -> xBegin        sdb_txn_begin
**     xSavepoint(n)                                  sdb_txn_savepoint
**     xRelease(n), xRollbackTo(n)                    sdb_txn_release, sdb_txn_rollback_to
**     xSync                                          sdb_txn_prepare    all that can fail
**     xCommit                                        sdb_txn_commit     publishes, cannot fail
**     xRollback                                      sdb_txn_abort
**
** The nested statement never runs inside an xBegin: there it would make SQLite write beyond its
** list of tables (sqlite3VtabBegin reserves one entry before it calls xBegin and fills it after).
**
** OUTSIDE OF BEGIN the first table that a statement writes does for the manager, whose nested statement would be
** a fifth of it: the table hears the same, and of what it would not be told nothing can happen before the statement
** ends. Should that begin a transaction, or create, drop or rename a table, by a function that runs SQL, then the
** manager is enrolled after all, before anything more is written, and goes on in the table's place (its heir).
**
** LEVELS. SQLite numbers its savepoints, those of statements included, from 0; a table that joins
** in the middle hears of the innermost only. The same for each store: nothing was written there before its txn began: all levels
** that were there by then mean one state, the beginning: to return to it is to abort the txn; the
** next write begins another. The levels after it are the txn's own savepoints, from 0.
**
** A YOUNG MANAGER is one that was created in the transaction it takes part in: the extension was
** loaded after BEGIN, or the manager had gone with a rollback or with PRAGMA temp_store. Rolling
** back to where it did not exist yet undoes it, and gives no callback; then all that was written
** through it is undone as well. So a young manager is looked for in the schema before each use. One
** that has gone may go on calling until the transaction's end: only c->manager is listened to. */
#include "view.h"

#include <assert.h>
#include <limits.h>

SQLITE_EXTENSION_INIT3

/* conn.state, in the order in which SQLite goes through them. COMMIT may fail after xSync: then the
** transaction stays open, and may go on. */
enum { TXN_NONE = 0, TXN_OPEN, TXN_SYNCED };

enum { NO_LEVEL = INT_MAX };

typedef struct manager {
    sqlite3_vtab base; /* must be first */
    conn *conn;
} manager;

/* Of the manager, or of a table that does for it. */
static conn *conn_of(sqlite3_vtab *vtab)
{
    return vtab->pModule == statedb_module ? ((vtable *)vtab)->conn : ((manager *)vtab)->conn;
}

bool txn_is_led(const conn *c)
{
    return c->manager && c->manager->pModule == statedb_module;
}

/* ---------------------------------------------------------------- plans */

/* Have SQLite prepare every statement again before it next runs, as after a change of its schema.
** It has no function for that, but does it when a setting is changed. */
static void plans_expire(conn *c)
{
    int is_on = 0;

    sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRIGGER_EQP, -1, &is_on);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRIGGER_EQP, !is_on, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRIGGER_EQP, is_on, NULL);
    c->has_old_plans = false;
}

static int count_running(conn *c)
{
    sqlite3_stmt *stmt = NULL;
    int n = 0;

    while ((stmt = sqlite3_next_stmt(c->db, stmt)) != NULL)
        n += sqlite3_stmt_busy(stmt) != 0;
    return n;
}

int txn_count_writing(conn *c)
{
    sqlite3_stmt *stmt = NULL;
    int n = 0;

    while ((stmt = sqlite3_next_stmt(c->db, stmt)) != NULL)
        n += sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt);
    return n;
}

bool txn_is_alone(conn *c)
{
    return count_running(c) <= 1;
}

/* Of several that run, one that writes is the last, because it runs to its end. */
bool txn_can_restart(conn *c)
{
    sqlite3_stmt *stmt = NULL;

    while ((stmt = sqlite3_next_stmt(c->db, stmt)) != NULL)
        if (sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt) && sqlite3_column_count(stmt) == 0)
            return true;
    return false;
}

void txn_expire_plans(conn *c, int n_running)
{
    if (c->has_old_plans && count_running(c) <= n_running)
        plans_expire(c);
}

/* A running statement that is expired fails as soon as it opens one more cursor on an ordinary table:
** for the mere sake of a better plan that is left for later. */
void txn_indexes_changed(store *s, bool at_once)
{
    s->conn->has_old_plans = true;
    s->index_level = s->n_levels;
    if (at_once)
        plans_expire(s->conn);
}

/* ---------------------------------------------------------------- the txn */

static int txn_begin(store *s)
{
    s->level_base = NO_LEVEL;
    s->n_levels = 0;
    s->index_level = -1;
    return error_code(view_begin_txn(s));
}

static void txn_abort(store *s)
{
    if (!s->txn)
        return;
    view_abort_txn(s);
    if (s->index_level >= 0)
        plans_expire(s->conn);
}

bool txn_restart(store *s)
{
    sdb_txn_abort(s->txn);
    s->txn = NULL;
    return txn_begin(s) == SQLITE_OK;
}

static void txn_abort_all(conn *c)
{
    for (store *s = c->stores; s; s = s->next)
        txn_abort(s);
    txn_expire_plans(c, 1);
    c->manager = c->heir = NULL;
    c->manager_is_young = false;
    c->state = TXN_NONE;
}

/* The SQLite transaction has ended. */
static void txn_end(conn *c)
{
    c->manager = NULL; /* what the txns began from need not be kept */
    txn_abort_all(c);
    view_end_all(c);
}

static void txn_forget_statement(conn *c)
{
    sqlite3_finalize(c->enroll);
    c->enroll = NULL;
}

void txn_object_come(conn *c)
{
    c->n_writable++;
}

void txn_object_gone(conn *c)
{
    if (--c->n_writable > 0)
        return;
    txn_forget_statement(c);
    witness_forget_statement(c);
}

int txn_verify(conn *c)
{
    sqlite3_stmt *stmt;
    bool is_there;
    int rc;

    if (!c->manager_is_young)
        return SQLITE_OK;
    rc = sqlite3_prepare_v2(c->db, "SELECT 1 FROM temp.sqlite_schema WHERE name = 'statedb_txn'",
                            -1, &stmt, NULL);
    if (rc)
        return rc;
    is_there = sqlite3_step(stmt) == SQLITE_ROW;
    rc = sqlite3_finalize(stmt);
    if (rc || is_there)
        return rc;
    txn_abort_all(c);
    return view_keep(c);
}

static int manager_create(conn *c, char **err)
{
    char *text = NULL;
    int rc = sqlite3_exec(c->db, "CREATE VIRTUAL TABLE temp.statedb_txn USING statedb_txn", NULL,
                          NULL, &text);

    if (rc && rc != SQLITE_NOMEM && !*err)
        *err = sqlite3_mprintf("statedb: cannot create temp.statedb_txn, by which transactions are "
                               "followed: %s",
                               text ? text : sqlite3_errstr(rc));
    sqlite3_free(text);
    return rc;
}

/* The column's name keeps the statement from a table of somebody else's. */
static int manager_enroll(conn *c, char **err)
{
    int rc = SQLITE_OK;

    if (!c->enroll)
        rc = sqlite3_prepare_v3(c->db, "DELETE FROM temp.statedb_txn WHERE statedb", -1,
                                SQLITE_PREPARE_PERSISTENT, &c->enroll, NULL);
    if (!rc) {
        sqlite3_step(c->enroll);
        rc = sqlite3_reset(c->enroll);
    }
    if (rc == SQLITE_ERROR && !c->manager) { /* no such table */
        txn_forget_statement(c);
        rc = manager_create(c, err);
    } else if (rc && rc != SQLITE_NOMEM && !*err) {
        *err = sqlite3_mprintf("statedb: cannot write to temp.statedb_txn, by which transactions "
                               "are followed: %s",
                               sqlite3_errmsg(c->db));
    }
    if (!rc && c->heir) {
        c->manager = c->heir;
        c->heir = NULL;
    }
    assert(rc || (c->manager && !txn_is_led(c)));
    return rc;
}

int txn_join(conn *c, char **err)
{
    int rc = txn_verify(c);

    return rc || (c->manager && !txn_is_led(c)) ? rc : manager_enroll(c, err);
}

static int store_enroll(store *s, int rc, char **err)
{
    if (s->conn->n_evaluating) {
        sqlite3_free(*err);
        *err = sqlite3_mprintf("statedb: a function in a DEFAULT or CHECK cannot write to a statedb "
                               "table");
        return SQLITE_LOCKED;
    }
    return rc || s->txn ? rc : txn_begin(s);
}

int txn_enroll(store *s, char **err)
{
    return store_enroll(s, txn_join(s->conn, err), err);
}

int txn_enroll_table(vtable *t)
{
    conn *c = t->conn;
    int rc = SQLITE_OK;

    if (!sqlite3_get_autocommit(c->db) || (c->manager ? !txn_is_led(c) : !t->is_begun)) {
        rc = txn_join(c, &t->base.zErrMsg);
    } else if (!c->manager) {
        c->manager = &t->base;
        c->state = TXN_OPEN;
    }
    return store_enroll(t->store, rc, &t->base.zErrMsg);
}

void txn_close(conn *c)
{
    c->has_old_plans = false;
    for (store *s = c->stores; s; s = s->next)
        s->index_level = -1;
    txn_end(c);
    txn_forget_statement(c);
}

/* ---------------------------------------------------------------- SQLite's callbacks */

/* A second object in one transaction, after SQLite has reconnected the table, is not needed. */
static int manager_begin(sqlite3_vtab *vtab)
{
    conn *c = conn_of(vtab);

    if (c->manager) {
        c->heir = txn_is_led(c) ? vtab : NULL;
        return SQLITE_OK;
    }
    assert(c->state == TXN_NONE);
    c->manager = vtab;
    c->state = TXN_OPEN;
    return SQLITE_OK;
}

int txn_sync(sqlite3_vtab *vtab)
{
    conn *c = conn_of(vtab);
    int rc;

    if (vtab != c->manager)
        return SQLITE_OK;
    assert(c->state == TXN_OPEN || c->state == TXN_SYNCED);
    rc = txn_verify(c);
    for (store *s = c->stores; s && !rc; s = s->next)
        if (s->txn)
            rc = error_code(sdb_txn_prepare(s->txn));
    if (!rc && c->manager)
        c->state = TXN_SYNCED;
    return rc;
}

int txn_commit(sqlite3_vtab *vtab)
{
    conn *c = conn_of(vtab);

    if (vtab != c->manager)
        return SQLITE_OK;
    assert(c->state == TXN_SYNCED);
    for (store *s = c->stores; s; s = s->next) {
        int rc = s->txn ? sdb_txn_commit(s->txn) : SDB_OK;
        assert(rc == SDB_OK); /* prepared, and nothing written since */
        if (rc == SDB_OK) {
            s->n_writes += s->txn != NULL; /* what is read next may have others' commits in it */
            s->txn = NULL;
        }
    }
    txn_end(c);
    return SQLITE_OK;
}

int txn_rollback(sqlite3_vtab *vtab)
{
    conn *c = conn_of(vtab);

    if (vtab == c->manager)
        txn_end(c);
    return SQLITE_OK;
}

static bool has_levels(conn *c, sqlite3_vtab *vtab)
{
    if (vtab != c->manager)
        return false;
    assert(c->state == TXN_OPEN || c->state == TXN_SYNCED);
    return true;
}

static void level_release(store *s, int level)
{
    if (level < s->level_base) {
        if (s->n_levels)
            sdb_txn_release(s->txn, 0);
        s->level_base = level;
        s->n_levels = 0;
    } else if (level - s->level_base < s->n_levels) {
        s->n_levels = level - s->level_base;
        sdb_txn_release(s->txn, s->n_levels);
    }
    if (s->index_level > s->n_levels)
        s->index_level = s->n_levels;
}

/* SQLite opens a statement's level once for each schema the statement writes, and may skip levels
** when statements overlap: the skipped ones mean the present state too, as in its own pager. */
static int level_begin(store *s, int level)
{
    int savepoint;
    int rc = SDB_OK;

    level_release(s, level);
    while (!rc && s->level_base + s->n_levels <= level) {
        rc = sdb_txn_savepoint(s->txn, &savepoint);
        if (!rc) {
            assert(savepoint == s->n_levels);
            s->n_levels++;
        }
    }
    return error_code(rc);
}

static void level_rollback(store *s, int level)
{
    if (level < s->level_base) {
        txn_abort(s);
    } else if (level - s->level_base < s->n_levels) {
        sdb_txn_rollback_to(s->txn, level - s->level_base);
        s->n_levels = level - s->level_base + 1;
        s->n_writes++;
        if (s->index_level >= s->n_levels) {
            s->index_level = s->n_levels - 1;
            plans_expire(s->conn);
        }
    }
}

int txn_release(sqlite3_vtab *vtab, int level)
{
    conn *c = conn_of(vtab);

    for (store *s = has_levels(c, vtab) ? c->stores : NULL; s; s = s->next)
        if (s->txn)
            level_release(s, level);
    return SQLITE_OK;
}

int txn_savepoint(sqlite3_vtab *vtab, int level)
{
    conn *c = conn_of(vtab);
    int rc = SQLITE_OK;

    if (!has_levels(c, vtab))
        return SQLITE_OK;
    for (store *s = c->stores; s && !rc; s = s->next)
        if (s->txn)
            rc = level_begin(s, level);
    if (!rc)
        c->state = TXN_OPEN;
    return rc;
}

int txn_rollback_to(sqlite3_vtab *vtab, int level)
{
    conn *c = conn_of(vtab);

    for (store *s = has_levels(c, vtab) ? c->stores : NULL; s; s = s->next)
        if (s->txn)
            level_rollback(s, level);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- the table */

static int manager_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                           sqlite3_vtab **out, char **err)
{
    manager *m;
    int rc;

    (void)argc;
    (void)argv;
    (void)err;
    rc = check_row_declare(db);
    if (rc)
        return rc;
    m = sqlite3_malloc(sizeof *m);
    if (!m)
        return SQLITE_NOMEM;
    *m = (manager){.conn = conn_ref(aux)};
    *out = &m->base;
    return SQLITE_OK;
}

/* A table that is created is in SQLite's list from then on, without an xBegin. */
static int manager_new(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **err)
{
    conn *c = aux;
    int rc;

    if (argc > 3 || sqlite3_stricmp(argv[1], "temp") != 0 ||
        sqlite3_stricmp(argv[2], "statedb_txn") != 0) {
        *err = sqlite3_mprintf("statedb: the module statedb_txn is for temp.statedb_txn alone");
        return SQLITE_ERROR;
    }
    if (txn_is_led(c)) {
        *err = sqlite3_mprintf("statedb: temp.statedb_txn cannot be created while a statement writes");
        return SQLITE_LOCKED;
    }
    rc = manager_connect(db, aux, argc, argv, out, err);
    if (rc)
        return rc;
    txn_end(c);
    c->manager = *out;
    c->manager_is_young = true;
    c->state = TXN_OPEN;
    return SQLITE_OK;
}

static int manager_disconnect(sqlite3_vtab *vtab)
{
    conn *c = ((manager *)vtab)->conn;

    if (vtab == c->manager) /* created, but not taken in by SQLite */
        txn_end(c);
    sqlite3_free(vtab);
    conn_unref(c);
    return SQLITE_OK;
}

static bool has_txn(const conn *c)
{
    const store *s = c->stores;

    while (s && !s->txn)
        s = s->next;
    return s != NULL;
}

/* Not inside a transaction: what is written there would lose its only tie to SQLite. */
static int manager_drop(sqlite3_vtab *vtab)
{
    conn *c = ((manager *)vtab)->conn;

    if (has_txn(c) || !sqlite3_get_autocommit(c->db)) {
        sqlite3_log(SQLITE_LOCKED, "statedb: temp.statedb_txn cannot be dropped in a transaction");
        return SQLITE_LOCKED;
    }
    return manager_disconnect(vtab);
}

static int manager_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    (void)argc;
    (void)argv;
    (void)rowid;
    vtab->zErrMsg = sqlite3_mprintf("statedb: temp.statedb_txn has no rows");
    return SQLITE_READONLY;
}

static const sqlite3_module manager_module = {
    .iVersion = 2,
    .xCreate = manager_new,
    .xConnect = manager_connect,
    .xBestIndex = check_row_best_index,
    .xDisconnect = manager_disconnect,
    .xDestroy = manager_drop,
    .xOpen = check_row_open,
    .xClose = check_row_close,
    .xFilter = check_row_filter,
    .xNext = check_row_next,
    .xEof = check_row_eof,
    .xColumn = check_row_column,
    .xRowid = check_row_rowid,
    .xUpdate = manager_update,
    .xBegin = manager_begin,
    .xSync = txn_sync,
    .xCommit = txn_commit,
    .xRollback = txn_rollback,
    .xSavepoint = txn_savepoint,
    .xRelease = txn_release,
    .xRollbackTo = txn_rollback_to,
};

int manager_register(conn *c)
{
    return sqlite3_create_module_v2(c->db, "statedb_txn", &manager_module, conn_ref(c), conn_unref);
}

/* What is in the way now (query_only, a full disk) need not last: the first write tries again. */
void manager_create_early(conn *c)
{
    char *ignored = NULL;

    (void)manager_create(c, &ignored);
    sqlite3_free(ignored);
}
