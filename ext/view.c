/* view.c - which version of a store a connection reads.
**
** With a txn open, the txn as it is when xFilter comes; else the snapshot. That is taken when the
** store's first cursor starts, and kept
**
**     until the connection's last cursor closes: one statement, one version;
**     of the connection's own store, until it writes: nobody else does, so it is the newest one;
**     in a transaction, of a shared store, until its end, which the witness or the manager tells;
**     so too beneath a statement that writes (to whatever): its triggers may have no cursor open from
**     one row to the next, and it may hold on to text that it was given by a cursor that is closed.
**
** The connection's own store is written by nobody else, and needs neither of the last two. */
#include "view.h"

SQLITE_EXTENSION_INIT3

/* Whether the end of the transaction will be told, so that snapshots may stay till then. */
static bool is_kept(const store *s)
{
    return s->name && (s->conn->is_witnessed || s->conn->manager);
}

/* Of a shared store: see to it that the snapshot is kept as long as it must be. */
static int view_prepare(store *s, char **err)
{
    conn *c = s->conn;

    s->is_blank = false;
    s->is_bound = true;
    if (c->manager || witness_is_there(c) ||
        (sqlite3_get_autocommit(c->db) && sqlite3_txn_state(c->db, NULL) != SQLITE_TXN_WRITE))
        return SQLITE_OK;
    return witness_call(c, err);
}

static void view_take(store *s)
{
    sdb_snapshot_take(s->snapshot);
    s->snapshot_writes = s->n_writes;
}

int view_ready(store *s, char **err)
{
    int rc = s->name ? view_prepare(s, err) : SQLITE_OK;

    if (rc == SQLITE_OK && !s->txn && !sdb_snapshot_held(s->snapshot))
        view_take(s);
    return rc;
}

/* Without a txn: a snapshot older than this connection's last commit would hide its own writes. It
** is taken anew, or, while other cursors stand on it, a txn is begun to read the present state. */
int view_begin(store *s, view *out)
{
    *out = (view){.txn = s->txn};
    if (s->txn)
        return SDB_OK;
    if (!sdb_snapshot_held(s->snapshot) ||
        (s->snapshot_writes != s->n_writes && s->n_standing == 0))
        view_take(s);
    if (s->snapshot_writes != s->n_writes)
        return sdb_txn_begin(s->db, &out->txn);
    out->snapshot = s->snapshot;
    return SDB_OK;
}

void view_end(store *s, view v)
{
    if (v.txn != s->txn)
        sdb_txn_abort(v.txn);
    if (s->conn->n_open == 0)
        view_close(s);
}

void view_close(store *s)
{
    if (is_kept(s))
        return;
    s->is_bound = false;
    if (s->name || s->txn || s->snapshot_writes != s->n_writes)
        sdb_snapshot_drop(s->snapshot);
}

/* BEGIN may have come since the first of them was opened: then the transaction goes on with what they have read. */
void view_leave(store *s)
{
    char *err = NULL;

    if (s->is_bound && !is_kept(s) && !sqlite3_get_autocommit(s->conn->db)) {
        (void)witness_call(s->conn, &err);
        sqlite3_free(err);
    }
    view_close(s);
}

void view_let_go(store *s)
{
    if (!s->name && s->conn->n_open == 0)
        sdb_snapshot_drop(s->snapshot);
}

void view_end_all(conn *c)
{
    txn_expire_plans(c, 1);
    for (store *s = c->stores; s && c->n_open == 0; s = s->next)
        view_close(s);
}

/* The witness has to go on where the manager has gone from the transaction. */
int view_keep(conn *c)
{
    char *err = NULL;
    int rc = SQLITE_OK;

    for (store *s = c->stores; s && !rc; s = s->next)
        if (s->name && sdb_snapshot_held(s->snapshot))
            rc = witness_call(c, &err);
    sqlite3_free(err);
    view_end_all(c);
    return rc;
}

int view_begin_txn(store *s)
{
    bool is_first = !is_kept(s) || !sdb_snapshot_held(s->snapshot) || !s->is_bound ||
                    s->snapshot_writes != s->n_writes; /* own commits do not make it stale */

    view_let_go(s);
    s->is_blank = is_first;
    s->txn_writes = s->n_writes;
    return is_first ? sdb_txn_begin(s->db, &s->txn) : sdb_txn_begin_at(s->db, s->snapshot, &s->txn);
}

void view_abort_txn(store *s)
{
    bool is_same = s->snapshot_writes == s->txn_writes;

    if (is_kept(s) && !sdb_snapshot_held(s->snapshot))
        s->is_bound = is_same = sdb_txn_snapshot(s->txn, s->snapshot) == SDB_OK;
    sdb_txn_abort(s->txn);
    s->txn = NULL;
    s->n_writes++;
    if (is_same)
        s->snapshot_writes = s->n_writes;
}

bool view_lacks_shared(view v, const vtable *t)
{
    const char *name = view_name(v, t->table);

    return !name || sqlite3_stricmp(name, t->key) != 0;
}

int view_count_key(view v, vtable *t, int index, const sdb_value *key, uint64_t *out)
{
    sdb_range range = {.eq = key, .n_eq = 1};
    sdb_cursor *cur;
    int rc = sdb_cursor_new(t->store->db, &cur);

    if (rc != SDB_OK)
        return rc;
    rc = v.txn        ? sdb_cursor_open_txn(cur, v.txn, t->table, index)
         : v.snapshot ? sdb_cursor_open(cur, v.snapshot, t->table, index)
                      : SDB_MISUSE;
    if (rc == SDB_OK)
        rc = sdb_cursor_count(cur, &range, out);
    sdb_cursor_free(cur);
    return rc;
}
