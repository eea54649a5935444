/* snapshot_sql.c - snapshots with names: the table statedb_snapshots, and a cursor's way to one.
**
** A store keeps them, for all its connections. They are not part of transactions: one that is made is
** there at once, and stays when the statement's transaction is rolled back. */
#include "cursor.h"
#include "listing.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- cursors */

int past_set(cursor *cur, const char *name)
{
    vtable *t = cursor_vtable(cur);
    int rc = SDB_OK;

    if (cur->past) {
        sdb_snapshot_drop(cur->past_held);
        sqlite3_free(cur->past);
        cur->past = NULL;
    }
    if (!name)
        return SQLITE_OK;
    if (!cur->past_held)
        rc = sdb_snapshot_new(t->store->db, &cur->past_held);
    if (rc == SDB_OK)
        rc = sdb_snapshot_load(cur->past_held, name);
    if (rc == SDB_DONE)
        return error_set(t, SQLITE_ERROR, "there is no snapshot '%s' (statedb_snapshots lists them)", name);
    if (rc == SDB_OK && !(cur->past = sqlite3_mprintf("%s", name)))
        rc = SDB_NOMEM;
    return error_core(t, rc);
}

/* ---------------------------------------------------------------- statedb_snapshots */

/* Columns. */
enum { STORE, NAME, COLUMNS = 6 };

typedef struct snapshots {
    listing *l;
    store *store;
} snapshots;

static void snapshot_add(void *ctx, const sdb_snapshot_info *info)
{
    const snapshots *to = ctx;

    listing_text(to->l, to->store->name);
    listing_text(to->l, info->name);
    listing_integer(to->l, (int64_t)info->commit);
    listing_integer(to->l, info->age_ms);
    listing_integer(to->l, (int64_t)info->bytes);
    if (info->txn)
        listing_integer(to->l, (int64_t)info->txn);
    else
        listing_null(to->l);
}

static int snapshots_fill(conn *c, listing *l, char **err)
{
    int rc = SDB_OK;

    (void)err;
    for (store *s = c->stores; s && !rc; s = s->next) {
        view_let_go(s);
        rc = sdb_snapshot_each(s->db, snapshot_add, &(snapshots){l, s});
    }
    return error_code(rc);
}

/* What a transaction has read it goes on reading: that is the moment which gets the name. */
static int snapshot_make(store *s, const char *name, char **err)
{
    const sdb_snapshot *of = !s->txn && sdb_snapshot_held(s->snapshot) ? s->snapshot : NULL;
    int rc;

    if (s->txn)
        *err = sqlite3_mprintf("statedb: statedb_snapshots: a snapshot is of what is committed; this "
                               "transaction has written: commit first");
    if (s->txn)
        return SQLITE_ERROR;
    rc = sdb_snapshot_save(s->db, name, of);
    if (rc != SDB_EXISTS)
        return error_code(rc);
    *err = sqlite3_mprintf("statedb: statedb_snapshots: there is a snapshot '%s' already: delete it first", name);
    return SQLITE_CONSTRAINT_UNIQUE;
}

static int snapshots_insert(conn *c, sqlite3_value **values, char **err)
{
    const char *store_name = (const char *)sqlite3_value_text(values[STORE]);
    const char *name = (const char *)sqlite3_value_text(values[NAME]);
    store *s = store_find(c, store_name);

    for (int i = 0; i < COLUMNS; i++)
        if (i > NAME && sqlite3_value_type(values[i]) != SQLITE_NULL)
            *err = sqlite3_mprintf("statedb: statedb_snapshots: only name and store are given");
    if (!*err && !name)
        *err = sqlite3_mprintf("statedb: statedb_snapshots: a snapshot needs a name");
    if (!*err && !s)
        *err = sqlite3_mprintf("statedb: statedb_snapshots: this connection has no store '%s': "
                               "statedb_attach('%s') joins it", store_name, store_name);
    return *err ? SQLITE_ERROR : snapshot_make(s, name, err);
}

/* What has no name goes with the statement or the transaction that holds it. */
static int snapshots_remove(conn *c, const listing *l, int row, char **err)
{
    sdb_value name = listing_value(l, row, NAME);
    sdb_value store_name = listing_value(l, row, STORE);
    const store *s = store_find(c, store_name.type == SDB_NULL ? NULL : store_name.u.p);
    int rc = name.type == SDB_NULL ? SDB_OK : sdb_snapshot_forget(s->db, name.u.p);

    (void)err;
    return rc == SDB_DONE ? SQLITE_OK : error_code(rc);
}

static const listing_module snapshots_module = {
    .name = "statedb_snapshots",
    .columns = "store TEXT, name TEXT, at_commit INTEGER, age_ms INTEGER, bytes INTEGER, txn INTEGER",
    .n_columns = COLUMNS,
    .fill = snapshots_fill,
    .insert = snapshots_insert,
    .remove = snapshots_remove,
};

int snapshots_register(conn *c)
{
    return listing_register(c, &snapshots_module);
}
