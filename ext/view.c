/* view.c - which version of a store a connection reads.
**
** With a txn open, the txn as it is when xFilter comes; else the snapshot, which is taken when the
** connection's first cursor starts and dropped when its last one closes: one statement, one version. */
#include "view.h"

SQLITE_EXTENSION_INIT3

/* Without a txn: a snapshot older than this connection's last commit would hide its own writes. It
** is taken anew, or, while other cursors stand on it, a txn is begun to read the present state. */
int view_begin(store *s, view *out)
{
    *out = (view){.txn = s->txn};
    if (s->txn)
        return SDB_OK;
    if (!sdb_snapshot_held(s->snapshot) ||
        (s->snapshot_writes != s->n_writes && s->n_standing == 0)) {
        sdb_snapshot_drop(s->snapshot);
        sdb_snapshot_take(s->snapshot);
        s->snapshot_writes = s->n_writes;
    }
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
    sdb_snapshot_drop(s->snapshot);
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
