/* txn.h - a write transaction from the inside: its tables, its states, what may see them.
**
** A transaction has a base, the snapshot it began from, and one sdb_work for each table it has
** locked. Its own STATE is the working version of each work; a new state begins, with a new stamp,
** whenever somebody may go on seeing the present one:
**
**   floor = the newest of   start        of the work: what was in the table when it was locked
**                           a savepoint's stamp
**                           a hold's stamp (a cursor open on a working version)
**
** Objects stamped above the floor are seen by the working version alone: edited in place, freed at
** once. When a hold goes or a savepoint is released the floor sinks again, and what had to be kept
** for them meanwhile is swept out of the retired list. So the work of a million statements in one
** transaction holds no garbage, though each of them may have opened a cursor or a savepoint. */
#ifndef SDB_TXN_H
#define SDB_TXN_H

#include "db.h"

/* One table that this transaction has locked. */
typedef struct sdb_work {
    sdb_table *table;
    uint64_t start;
    sdb_version *base; /* NULL: created by this transaction */
    sdb_version *now;
    int room; /* of `now`: the most indexes it ever had, and a rollback may bring back */
    sdb_edit edit;
    sdb_dead *dead;     /* takes edit.retired at the end */
    sdb_version *spare; /* to keep rolled back states in, as many as there are savepoints and one */
    uint32_t n_spare;
    bool is_dropped;
    bool must_sweep;   /* retired[sweep_from..) may hold what the floor now allows to free */
    size_t sweep_from;
} sdb_work;

/* What a savepoint remembers of one work. */
typedef struct sdb_saved {
    uint64_t revision;
    int64_t sequence;
    const char *name;
    size_t n_retired;
    bool is_dropped;
    sdb_history history; /* counted, like the set */
    sdb_indexes *set;
    sdb_link root[];
} sdb_saved;

typedef struct sdb_savepoint {
    uint64_t stamp;
    uint32_t n_work;
    sdb_saved *saved[];  /* n_work */
} sdb_savepoint;

struct sdb_txn {
    sdb_db *db;
    sdb_snapshot base;
    uint64_t id; /* from the clock, when it began */
    uint64_t stamp;
    uint64_t floor;    /* without the works' starts */
    bool is_floor_old; /* holds or savepoints have come or gone */
    bool must_sweep;   /* one of the works must */
    sdb_hold holds;

    uint32_t n_table, table_room;
    sdb_version **table; /* what the transaction sees, by slot */
    uint32_t n_work, work_room;
    sdb_work *work;
    int n_savepoint;
    uint32_t savepoint_room;
    sdb_savepoint **savepoint;
    sdb_version *discarded; /* of tables created and rolled back */

    int64_t timeout_ms, stop_ms;
    sdb_stop stop; /* asked every stop_ms of waiting, and while all rows are gone over */
    bool has_looked; /* has read through its base: it may not be taken anew */
    int n_calls;     /* functions of the caller that are running within it: it may not end */
    /* under the store's mutex: */
    bool is_interrupted;
    bool has_turn;         /* the lock it waits for has been handed to it */
    sdb_table *waits_for;  /* or NULL */
    sdb_txn *next_waiting; /* for the same table, behind this one */
    int64_t waits_since;   /* of the clock of wait.h */
    pthread_cond_t turn;

    sdb_dead *idle_dead;   /* to be used by the next work, like idle_links */
    sdb_links idle_links;

    sdb_root *root; /* made by prepare */
    sdb_txn *next;  /* in the store's list of prepared, or of idle ones */
    sdb_pins pins;

    sdb_table *staged_table; /* NULL: nothing staged */
    sdb_link staged;
    uint64_t staged_clear; /* bit i: index i was found free of clashes, but for staged_except */
    const sdb_row *staged_except;
    sdb_keys keys, old_keys;
    sdb_places places; /* of the staged row's keys */
    const sdb_row *found; /* the row that was looked up last, and is there still, */
    const sdb_table *found_in; /* in this table */
};

/* Room for one more work, the next one; its list for the dead made. NULL: no memory. drop gives that
** list back. */
sdb_work *sdb_work_new(sdb_txn *txn, sdb_table *table);
void sdb_work_drop(sdb_txn *txn, sdb_work *w);

/* Under the mutex: take the base anew, so that tables which are not locked become the newest there are.
** SDB_STALE: one of them is gone, and the caller may hold it still. SDB_NOMEM. Then nothing changes. */
SDB_MUST int sdb_txn_rebase(sdb_txn *txn);

/* The work made last begins now. */
void sdb_work_begin(sdb_txn *txn, sdb_work *w, sdb_version *now);

/* state.c. Whether a cursor sees something in the working version that was made after `since`. */
bool sdb_table_is_held(const sdb_txn *txn, const sdb_table *table, uint64_t since);

/* A rollback under an open cursor keeps the state it leaves in a spare version, since it cannot ask
** for memory then. After it no hold sees more than what that savepoint has saved, so the next such
** rollback is to an older one, unless there is a new hold: one for each savepoint, and one for the
** abort, are enough if they are filled up with each new hold. SDB_NOMEM. */
SDB_MUST int sdb_spares_fill(sdb_txn *txn, sdb_work *w);
void sdb_spares_free(sdb_work *w);

void sdb_savepoint_pop(sdb_txn *txn);

/* Leave the working version of a table for an older one: free what was made after `floor`, or keep
** it as long as cursors see it; forget what was retired after `n_retired`. */
void sdb_work_leave(sdb_txn *txn, sdb_work *w, uint64_t floor, size_t n_retired);

/* A table created by this transaction is no more. Its cursors, if any, keep it until the end. */
void sdb_work_discard(sdb_txn *txn, uint32_t i);

/* Before every change: find the floor again if somebody has come or gone, and begin a new state if
** the present one is seen. */
void sdb_txn_settle(sdb_txn *txn);

/* Begin a change of a table: lock it and settle what may be edited in place. */
static inline int sdb_txn_open_work(sdb_txn *txn, sdb_table *table, sdb_work **out)
{
    if (atomic_load_explicit(&table->owner, memory_order_relaxed) != txn ||
        !txn->table[table->slot]) { /* dropped */
        int rc = sdb_txn_lock(txn, table);
        if (rc != SDB_OK)
            return rc;
    }
    if (txn->is_floor_old)
        sdb_txn_settle(txn);
    sdb_work *w = *out = &txn->work[table->work];
    w->edit.stamp = txn->stamp;
    w->edit.floor = txn->floor > w->start ? txn->floor : w->start;
    return SDB_OK;
}

/* Ended transactions see no table, and have no savepoint. */
static inline bool sdb_txn_is_open(const sdb_txn *txn)
{
    return txn->base.root != NULL;
}

/* The version of a table that the transaction sees, or NULL. */
static inline sdb_version *sdb_txn_version(const sdb_txn *txn, const sdb_table *table)
{
    sdb_version *v = table->slot < txn->n_table ? txn->table[table->slot] : NULL;
    return v && v->table == table ? v : NULL;
}

/* A cursor has found a row. If nothing has changed since the cursor was opened, which would have begun
** another state, the row is there. */
static inline void sdb_hold_found(const sdb_hold *hold, const sdb_row *row)
{
    sdb_txn *txn = hold->txn;
    if (txn && hold->is_own && hold->stamp == txn->stamp) {
        txn->found = row;
        txn->found_in = hold->table;
    }
}

/* Note that a table is being read: while it is not locked, that is the base. */
static inline void sdb_txn_look(sdb_txn *txn, const sdb_table *table)
{
    if (atomic_load_explicit(&table->owner, memory_order_relaxed) != txn)
        txn->has_looked = true;
}

/* See the tables of the base, and those locked or created here as they are here. */
void sdb_txn_see(sdb_txn *txn);

/* check.c: with SDB_CHECK=1 in the environment, check what is about to be published, and abort() with
** a sentence on stderr where something is wrong. */
void sdb_commit_check(const sdb_txn *txn);

/* lock.c, under the store's mutex: give the lock of a table to whoever waits for it, or to nobody. */
void sdb_table_hand_over(sdb_table *table);

/* For a cursor being opened: hold the version of a table that the transaction sees. SDB_NOMEM. */
SDB_MUST int sdb_txn_hold(sdb_txn *txn, sdb_table *table, sdb_hold *hold);

#endif
