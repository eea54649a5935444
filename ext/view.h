/* view.h - what a connection reads: one version of a store. */
#ifndef STATEDB_VIEW_H
#define STATEDB_VIEW_H

#include "ext.h"

/* A version of the store to be read: a txn's, or where that is NULL a snapshot's, or with neither
** the tables as they were created. */
typedef struct view {
    sdb_txn *txn;
    sdb_snapshot *snapshot;
} view;

/* What a cursor would read that starts now. An SDB_ code. */
int view_begin(store *s, view *out);
void view_end(store *s, view v);

/* Before a cursor starts: where there is no txn, there is a snapshot then, and it is kept as long as it must
** be. SQLite's code. */
int view_ready(store *s, char **err);

/* The connection's last cursor has closed; or the version is not needed for another reason. */
void view_leave(store *s);
void view_close(store *s);

/* Before somebody is told who holds what: give up the snapshot if it is there for the next statement only. */
void view_let_go(store *s);

/* The manager has gone from the transaction, which goes on. SQLite's code. */
int view_keep(conn *c);

/* Begin s->txn: in a transaction that has read the store already, with what it has read. Abort it: what
** is read from then on is as if it had not been. */
int view_begin_txn(store *s);
void view_abort_txn(store *s);

/* The SQLite transaction has ended, as one of those tells who were to tell it. */
void view_end_all(conn *c);

/* A number for the table's set of indexes; 0: as it was created, or the table is not there. */
static inline uint64_t view_indexes_id(view v, const sdb_table *table)
{
    return v.txn        ? sdb_txn_indexes_id(v.txn, table)
           : v.snapshot ? sdb_snapshot_indexes_id(v.snapshot, table)
                        : 0;
}

static inline int view_indexes(view v, const sdb_table *table)
{
    return v.txn        ? sdb_txn_indexes(v.txn, table)
           : v.snapshot ? sdb_snapshot_indexes(v.snapshot, table)
                        : sdb_table_indexes(table);
}

static inline const sdb_index_def *view_index(view v, const sdb_table *table, int index)
{
    return v.txn        ? sdb_txn_index(v.txn, table, index)
           : v.snapshot ? sdb_snapshot_index(v.snapshot, table, index)
                        : sdb_table_index(table, index);
}

/* The table's name there, or NULL. */
static inline const char *view_name(view v, const sdb_table *table)
{
    return v.txn ? sdb_txn_name(v.txn, table) : sdb_snapshot_name(v.snapshot, table);
}

/* Whether the table of a shared store has been dropped by then, or has got another name. (Where one of
** the connection's own is not in the version, core says SDB_MISUSE.) */
bool view_lacks_shared(view v, const vtable *t);
static inline bool view_lacks(view v, const vtable *t)
{
    return t->store->name && view_lacks_shared(v, t);
}

static inline sdb_table *view_table(view v, const char *name)
{
    return v.txn ? sdb_txn_table(v.txn, name) : sdb_snapshot_table(v.snapshot, name);
}

/* How many feeds the table has; with one, it has SDB_BY_REVISION. */
static inline int view_feeds(view v, const sdb_table *table)
{
    return v.txn        ? sdb_txn_feeds(v.txn, table)
           : v.snapshot ? sdb_snapshot_feeds(v.snapshot, table)
                        : 0;
}

/* All tables: the first after NULL, NULL after the last. */
static inline sdb_table *view_next_table(view v, const sdb_table *after)
{
    return v.txn ? sdb_txn_next_table(v.txn, after) : sdb_snapshot_next_table(v.snapshot, after);
}

/* How many rows have a key in an index. An SDB_ code. */
int view_count_key(view v, vtable *t, int index, const sdb_value *key, uint64_t *out);

static inline uint64_t view_count(view v, const sdb_table *table)
{
    return v.txn        ? sdb_txn_count(v.txn, table)
           : v.snapshot ? sdb_snapshot_count(v.snapshot, table)
                        : 0;
}

#endif
