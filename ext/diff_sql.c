/* diff_sql.c - statedb_diff(table, before [, after]): the rows of a table that differ between two
** snapshots, or a snapshot and the present, as a table-valued function.
**
** It says which rows, by rowid, and what became of them. What was and is in them the table itself tells,
** WHERE _snapshot = ... AND rowid = .... Parts of the trees that both moments have in common are not
** visited. */
#include "view.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* Columns; the last three are the arguments. */
enum { OP, ID, OLD_REVISION, NEW_REVISION, TABLE, BEFORE, AFTER };

typedef struct diff_table {
    sqlite3_vtab base; /* must be first */
    conn *conn;
} diff_table;

typedef struct diff_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    sqlite3_int64 at;
    bool is_open;     /* counted in conn.n_open, which keeps the present, */
    bool on_snapshot; /* and in store.n_standing */
    bool is_eof;
    store *store; /* that the objects below are of */
    sdb_diff *diff;
    sdb_snapshot *before, *after;
} diff_cursor;

static int diff_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **err)
{
    diff_table *t;
    int rc = sqlite3_declare_vtab(
        db, "CREATE TABLE x(op TEXT, id INTEGER, old_revision INTEGER, new_revision INTEGER, "
            "tbl_name TEXT HIDDEN, before TEXT HIDDEN, after TEXT HIDDEN)");

    (void)argc;
    (void)argv;
    (void)err;
    if (!rc)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    t = rc ? NULL : sqlite3_malloc(sizeof *t);
    if (!t)
        return rc ? rc : SQLITE_NOMEM;
    *t = (diff_table){.conn = conn_ref(aux)};
    *out = &t->base;
    return SQLITE_OK;
}

static int diff_disconnect(sqlite3_vtab *vtab)
{
    conn_unref(((diff_table *)vtab)->conn);
    sqlite3_free(vtab);
    return SQLITE_OK;
}

/* idxNum: bit i says that argument i is given. */
static int diff_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    int given = 0, n_args = 0;

    (void)vtab;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < info->nConstraint; k++) {
            const struct sqlite3_index_constraint *c = &info->aConstraint[k];
            if (c->iColumn != TABLE + i || c->op != SQLITE_INDEX_CONSTRAINT_EQ || given >> i & 1)
                continue;
            if (!c->usable)
                return SQLITE_CONSTRAINT;
            given |= 1 << i;
            info->aConstraintUsage[k].argvIndex = ++n_args;
            info->aConstraintUsage[k].omit = 1;
        }
    }
    info->idxNum = given;
    info->estimatedCost = 1000;
    info->estimatedRows = 100;
    info->orderByConsumed =
        info->nOrderBy == 1 && info->aOrderBy[0].iColumn == ID && !info->aOrderBy[0].desc;
    return SQLITE_OK;
}

static int diff_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    diff_cursor *cur = sqlite3_malloc(sizeof *cur);

    (void)vtab;
    if (!cur)
        return SQLITE_NOMEM;
    *cur = (diff_cursor){.is_eof = true};
    *out = &cur->base;
    return SQLITE_OK;
}

static void diff_clear(diff_cursor *cur)
{
    sdb_diff_free(cur->diff);
    sdb_snapshot_free(cur->before);
    sdb_snapshot_free(cur->after);
    cur->diff = NULL;
    cur->before = cur->after = NULL;
    if (cur->on_snapshot)
        cur->store->n_standing--;
    if (cur->is_open)
        conn_close_cursor(cur->store->conn);
    cur->is_open = cur->on_snapshot = false;
    cur->is_eof = true;
    cur->at = 0;
}

static int diff_close(sqlite3_vtab_cursor *base)
{
    diff_clear((diff_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- the two moments */

static int diff_error(diff_cursor *cur, int rc, char *text)
{
    sqlite3_vtab *vtab = cur->base.pVtab;

    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = text ? sqlite3_mprintf("statedb_diff: %z", text) : NULL;
    return vtab->zErrMsg ? rc : SQLITE_NOMEM;
}

static int named_load(diff_cursor *cur, const char *name, sdb_snapshot **out)
{
    int rc = sdb_snapshot_new(cur->store->db, out);

    if (rc == SDB_OK)
        rc = sdb_snapshot_load(*out, name);
    if (rc == SDB_DONE)
        return diff_error(cur, SQLITE_ERROR,
                          sqlite3_mprintf("there is no snapshot '%s' (statedb_snapshots lists them)", name));
    return error_code(rc);
}

/* What a cursor that starts now would read. */
static int present_open(diff_cursor *cur, const sdb_snapshot **out)
{
    store *s = cur->store;
    view now;
    int rc;

    if (s->txn)
        return diff_error(cur, SQLITE_ERROR,
                          sqlite3_mprintf("this transaction has written, and nothing is in a snapshot "
                                          "before it is committed: name a snapshot to compare with"));
    s->conn->n_open++;
    cur->is_open = true;
    rc = view_begin(s, &now);
    if (rc != SDB_OK)
        return error_code(rc);
    if (now.snapshot) {
        s->n_standing++;
        cur->on_snapshot = true;
        *out = now.snapshot;
    } else { /* the connection's own is older than its last commit */
        rc = sdb_snapshot_new(s->db, &cur->after);
        if (rc == SDB_OK)
            sdb_snapshot_take(cur->after);
        *out = cur->after;
    }
    view_end(s, now);
    return error_code(rc);
}

static int moments_open(diff_cursor *cur, const vtable *t, const char *before, const char *after)
{
    const sdb_snapshot *to = NULL;
    int rc = named_load(cur, before, &cur->before);

    if (!rc && after)
        rc = named_load(cur, after, &cur->after);
    else if (!rc)
        rc = present_open(cur, &to);
    if (!rc)
        rc = error_code(sdb_diff_new(cur->store->db, &cur->diff));
    if (!rc)
        rc = error_code(sdb_diff_open(cur->diff, cur->before, to ? to : cur->after, t->table));
    return rc;
}

static int diff_step(diff_cursor *cur)
{
    int rc = sdb_diff_next(cur->diff);

    cur->is_eof = rc != SDB_OK;
    cur->at++;
    return rc == SDB_DONE ? SQLITE_OK : error_code(rc);
}

static int diff_filter(sqlite3_vtab_cursor *base, int given, const char *idx_str, int argc,
                       sqlite3_value **argv)
{
    diff_cursor *cur = (diff_cursor *)base;
    conn *c = ((diff_table *)base->pVtab)->conn;
    const char *arg[3] = {NULL};
    vtable *t;
    int rc;

    (void)idx_str;
    diff_clear(cur);
    for (int i = 0, n = 0; i < 3 && n < argc; i++)
        if (given >> i & 1)
            arg[i] = (const char *)sqlite3_value_text(argv[n++]);
    if (!arg[0] || !arg[1])
        return diff_error(cur, SQLITE_ERROR,
                          sqlite3_mprintf("the arguments are a table, a snapshot and perhaps another one"));
    rc = vtable_named(c, NULL, arg[0], &t);
    if (rc == SQLITE_NOMEM)
        return rc;
    if (!t)
        return diff_error(cur, SQLITE_ERROR, sqlite3_mprintf("there is no statedb table '%s'", arg[0]));
    cur->store = t->store;
    rc = moments_open(cur, t, arg[1], arg[2]);
    return rc ? rc : diff_step(cur);
}

/* ---------------------------------------------------------------- rows */

static int diff_next(sqlite3_vtab_cursor *base)
{
    return diff_step((diff_cursor *)base);
}

static int diff_eof(sqlite3_vtab_cursor *base)
{
    return ((diff_cursor *)base)->is_eof;
}

static int diff_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const diff_cursor *cur = (diff_cursor *)base;
    const sdb_row *old = sdb_diff_before(cur->diff), *new = sdb_diff_after(cur->diff);

    if (column == OP)
        sqlite3_result_text(ctx, !old ? "insert" : new ? "update" : "delete", -1, SQLITE_STATIC);
    else if (column == ID)
        sqlite3_result_int64(ctx, sdb_row_rowid(old ? old : new));
    else if (column == OLD_REVISION && old)
        sqlite3_result_int64(ctx, (sqlite3_int64)sdb_row_revision(old));
    else if (column == NEW_REVISION && new)
        sqlite3_result_int64(ctx, (sqlite3_int64)sdb_row_revision(new));
    return SQLITE_OK;
}

static int diff_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((diff_cursor *)base)->at;
    return SQLITE_OK;
}

/* Without xCreate: it is there by itself. */
static const sqlite3_module diff_module = {
    .iVersion = 2,
    .xConnect = diff_connect,
    .xBestIndex = diff_best_index,
    .xDisconnect = diff_disconnect,
    .xOpen = diff_open,
    .xClose = diff_close,
    .xFilter = diff_filter,
    .xNext = diff_next,
    .xEof = diff_eof,
    .xColumn = diff_column,
    .xRowid = diff_rowid,
};

int diff_register(conn *c)
{
    return sqlite3_create_module_v2(c->db, "statedb_diff", &diff_module, conn_ref(c), conn_unref);
}
