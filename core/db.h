/* db.h - a store: its clock, its root, its pins, and what its files share.
**
** The ROOT is an immutable array of table versions, one slot for each table. A commit copies the
** array, replaces the entries of the tables it wrote and swaps db->root under the store's mutex;
** that is all that writers of different tables have in common.
**
** PINNING. A reader publishes the root's version number in its snapshot object, then looks at
** db->root again: if it is still that root, the pin was there before any commit that could make
** its versions die, and whoever commits later will see it. Store and load are sequentially
** consistent on both sides,
**
**     sdb_snapshot_take:  pin = v;       then  root == r ?
**     commit:             root = new;    then  read all pins
**
** so at least one of the two sees the other: a reader that a commit overlooked finds another root
** and tries again. The reader reads r->version before it has pinned anything, so root objects are
** never given back to the system while the store lives: a root that has died meanwhile is still a
** root, and if it has been used again its version differs. This is the hazard pointer of Michael
** (2004) with the version in the pointer's place.
**
** CLOCK. sdb_tick gives numbers that nobody else has: to states of transactions (the stamps of what
** they make) and to commits. A commit takes its number under the mutex, just before it publishes. */
#ifndef SDB_DB_H
#define SDB_DB_H

#include "table.h"

#include <pthread.h>

typedef struct sdb_root {
    _Atomic uint64_t version; /* the commit that published it; the only field a reader without a
                              ** pin looks at */
    uint64_t died;            /* the commit that replaced it */
    struct sdb_root *next;    /* in the list of retired or of idle roots */
    uint32_t n, room;
    sdb_version **table; /* by slot; NULL: no table there in this root */
} sdb_root;

/* One place that keeps a moment: a cursor on a transaction, as long as it is open. In its
** transaction's list, and after that has ended in the store's. */
typedef struct sdb_hold {
    struct sdb_hold *prev, *next; /* a ring */
    sdb_txn *txn;                 /* NULL when that has ended */
    sdb_table *table;
    int64_t since; /* of the rough clock: when its transaction ended */
    bool is_own; /* on a working version; otherwise on what the transaction began from */
    uint64_t stamp;
    uint64_t sees; /* nothing younger in the transaction's working version: a rollback lowers it */
} sdb_hold;

struct sdb_db {
    _Atomic int n_ref;
    _Atomic(sdb_root *) root;
    _Atomic uint64_t clock;
    sdb_budget budget;
    _Atomic uint32_t n_waiting; /* tables in which something waits for a pin to go, and the store
                                ** itself where versions do */

    pthread_mutex_t watch_mutex; /* see watch.h */
    pthread_mutex_t mutex; /* guards all below, and the setting of root and of tables' owners */
    sdb_snapshot *snapshots;
    struct sdb_named *named;
    sdb_hold holds;       /* of transactions that have ended */
    uint32_t n_cursors;   /* each may become a hold */
    uint32_t n_snapshots;
    uint32_t n_txns;      /* open */
    bool is_closed;       /* nobody refers to it but the transactions that are open: the last frees it */
    sdb_root *retired;    /* roots that pins may still see */
    sdb_root *idle_roots; /* to be used again */
    sdb_version *old;     /* versions replaced, that pins may still see */
    bool is_waiting;      /* old is not empty, and counted in n_waiting */
    uint32_t n_slots;     /* of every root made from now on */
    sdb_table **slot;     /* the table of each slot, committed or not, till its last version goes */
    uint64_t n_tables;    /* ever made: the last one's id */
    uint64_t count[SDB_N_COUNTERS]; /* by the store's transactions and by tables that are gone */
    sdb_txn *prepared;    /* transactions whose root is ready */
    sdb_txn *idle_txns;   /* to be used again */
};

typedef enum { SNAPSHOT_PLAIN, SNAPSHOT_NAMED, SNAPSHOT_OF_TXN } sdb_snapshot_kind;

struct sdb_snapshot {
    _Atomic uint64_t pin; /* 0: nothing held */
    sdb_root *root;
    sdb_db *db;
    sdb_snapshot *prev, *next;
    sdb_snapshot_kind kind;
    _Atomic int64_t since; /* of the rough clock of wait.h: when it was taken */
    _Atomic uint64_t count; /* how often it was taken */
};

/* A snapshot of the store's own (named.c). */
typedef struct sdb_named {
    sdb_snapshot snap; /* in the store's list like any other; first, so that it is found from there */
    struct sdb_named *next;
    char name[];
} sdb_named;

static inline uint64_t sdb_tick(sdb_db *db)
{
    return atomic_fetch_add_explicit(&db->clock, 1, memory_order_relaxed) + 1;
}

/* Under the mutex: put a snapshot object into, or take it out of, the store's list. */
void sdb_snapshot_link(sdb_db *db, sdb_snapshot *snap, sdb_snapshot_kind kind);
void sdb_snapshot_unlink(sdb_snapshot *snap);

/* Under the mutex: hold the newest root in place of the one it holds. */
void sdb_snapshot_renew(sdb_snapshot *snap);

/* Under the mutex, holding nothing: hold what another one holds. */
void sdb_snapshot_copy(sdb_snapshot *snap, const sdb_snapshot *of);

/* At the end of the store. */
void sdb_named_free(sdb_db *db);
void sdb_db_free(sdb_db *db);

/* The version of a table in a root, or NULL. */
static inline sdb_version *sdb_root_version(const sdb_root *root, const sdb_table *table)
{
    sdb_version *v = table->slot < root->n ? root->table[table->slot] : NULL;
    return v && v->table == table ? v : NULL;
}

/* The same of what a snapshot holds. */
static inline sdb_version *sdb_snapshot_version(const sdb_snapshot *snap, const sdb_table *table)
{
    return snap->root ? sdb_root_version(snap->root, table) : NULL;
}

/* A root with room for all slots, under the mutex; NULL: no memory. */
sdb_root *sdb_root_new(sdb_db *db);
void sdb_root_idle(sdb_db *db, sdb_root *root);

/* All pins there are, under the mutex, into pins->at (made large enough if there is memory). */
void sdb_pins_collect(sdb_db *db, sdb_pins *pins);

/* Under the mutex: room for all pins there may be at this time. SDB_NOMEM. */
SDB_MUST int sdb_pins_reserve(sdb_db *db, sdb_pins *pins);

/* Under the mutex: free the roots and versions that no pin sees any more. */
void sdb_old_run(sdb_db *db, const sdb_pins *pins);

/* Under the mutex: note in n_waiting that something begins or ceases to wait. */
void sdb_waits(sdb_db *db, bool *is_waiting, bool waits);

/* Free what waits for pins, in all tables that nobody is writing. */
void sdb_reclaim_all(sdb_db *db);

/* The hold has been closed by its cursor. */
void sdb_txn_release_hold(sdb_hold *hold);

/* Free a transaction object from db->idle_txns. */
void sdb_txn_free(sdb_txn *txn);

static inline void hold_init(sdb_hold *ring)
{
    ring->prev = ring->next = ring;
}

static inline void hold_link(sdb_hold *ring, sdb_hold *hold)
{
    hold->prev = ring;
    hold->next = ring->next;
    ring->next->prev = hold;
    ring->next = hold;
}

static inline void hold_unlink(sdb_hold *hold)
{
    hold->prev->next = hold->next;
    hold->next->prev = hold->prev;
    hold->prev = hold->next = hold;
}

#endif
