/* lock.c - the write locks of tables: waiting in turn, deadlocks, time-outs (see statedb.h).
**
** A table's lock is its `owner`, and those that wait for it stand in a queue. Whoever gives it up
** hands it to the first of them, so a table that is written all the time is written in turn. A
** transaction waits for one table at a time, and a table has one owner: so who waits for whom is a
** chain, and a circle is found by following it, before the one that would close it begins to wait.
** All of it is guarded by the store's mutex. */
#include "txn.h"

#include "mem.h"
#include "wait.h"

#include <assert.h>
#include <stdlib.h>

static sdb_txn *owner_of(const sdb_table *table)
{
    return atomic_load_explicit(&table->owner, memory_order_relaxed);
}

static void owner_set(sdb_table *table, sdb_txn *txn)
{
    atomic_store_explicit(&table->owner, txn, memory_order_relaxed);
}

void sdb_table_hand_over(sdb_table *table)
{
    sdb_txn *next = table->waiting;
    owner_set(table, next);
    if (!next)
        return;
    table->waiting = next->next_waiting;
    next->waits_for = NULL;
    next->has_turn = true;
    pthread_cond_signal(&next->turn);
}

static bool would_deadlock(const sdb_txn *txn, const sdb_table *table)
{
    for (const sdb_txn *o = owner_of(table); o; o = o->waits_for ? owner_of(o->waits_for) : NULL)
        if (o == txn)
            return true;
    return false;
}

/* Meanwhile it may get its turn. */
static bool is_stopped(sdb_txn *txn)
{
    pthread_mutex_unlock(&txn->db->mutex);
    bool is = txn->stop.is_due(txn->stop.ctx);
    pthread_mutex_lock(&txn->db->mutex);
    return is;
}

/* Under the mutex: stand in the queue until it is this transaction's turn. */
static int lock_queue(sdb_txn *txn, sdb_table *table)
{
    sdb_txn **last = &table->waiting;
    while (*last)
        last = &(*last)->next_waiting;
    *last = txn;
    txn->next_waiting = NULL;
    txn->waits_for = table;
    txn->has_turn = false;
    int64_t deadline = sdb_deadline(txn->timeout_ms);
    bool in_time = true;
    while (!txn->has_turn && !txn->is_interrupted && in_time) {
        int64_t until = txn->stop.is_due ? sdb_deadline(txn->stop_ms) : deadline;
        if (sdb_cond_wait(&txn->turn, &txn->db->mutex, until < deadline ? until : deadline))
            continue;
        in_time = until < deadline;
        if (in_time && is_stopped(txn) && !txn->has_turn)
            txn->is_interrupted = true;
    }
    if (txn->has_turn)
        return SDB_OK;
    txn->waits_for = NULL;
    last = &table->waiting;
    while (*last != txn)
        last = &(*last)->next_waiting;
    *last = txn->next_waiting;
    if (!txn->is_interrupted)
        return SDB_BUSY;
    txn->is_interrupted = false;
    return SDB_INTERRUPTED;
}

static void refusal_count(sdb_table *table, int rc)
{
    sdb_counter counter = rc == SDB_BUSY          ? SDB_N_BUSY
                          : rc == SDB_DEADLOCK    ? SDB_N_DEADLOCKS
                          : rc == SDB_INTERRUPTED ? SDB_N_INTERRUPTED
                          : rc == SDB_STALE       ? SDB_N_STALE
                                                  : SDB_N_COUNTERS;
    if (counter < SDB_N_COUNTERS)
        sdb_count(&table->count[counter], 1);
}

static int lock_wait(sdb_txn *txn, sdb_table *table)
{
    int rc = would_deadlock(txn, table) ? SDB_DEADLOCK : SDB_BUSY;
    if (rc == SDB_BUSY && txn->timeout_ms != 0) {
        txn->waits_since = sdb_now();
        rc = lock_queue(txn, table);
        sdb_count(&table->count[SDB_N_LOCK_WAITS], 1);
        sdb_count(&table->count[SDB_N_LOCK_WAIT_NS], (uint64_t)(sdb_now() - txn->waits_since));
    }
    refusal_count(table, rc);
    return rc;
}

static void lock_give(sdb_table *table)
{
    pthread_mutex_lock(&table->db->mutex);
    sdb_table_hand_over(table);
    pthread_mutex_unlock(&table->db->mutex);
}

/* Under the mutex, with the table locked: whether the transaction sees its newest version. */
static bool is_newest(const sdb_txn *txn, const sdb_table *table)
{
    return sdb_root_version(atomic_load(&txn->db->root), table) == sdb_txn_version(txn, table);
}

/* With the table locked, which has changed: a transaction can be made to see its newest version while
** it has read no table but those it has locked, for they are the newest anyway. */
static int lock_refresh(sdb_txn *txn)
{
    if (txn->has_looked)
        return SDB_STALE;
    pthread_mutex_lock(&txn->db->mutex);
    int rc = sdb_txn_rebase(txn);
    pthread_mutex_unlock(&txn->db->mutex);
    return rc;
}

int sdb_txn_lock(sdb_txn *txn, sdb_table *table)
{
    if (!sdb_txn_version(txn, table))
        return SDB_MISUSE;
    if (owner_of(table) == txn)
        return SDB_OK;
    sdb_version *now = NULL;
    pthread_mutex_lock(&txn->db->mutex);
    int rc = SDB_OK;
    if (owner_of(table))
        rc = lock_wait(txn, table);
    else
        owner_set(table, txn);
    bool is_fresh = rc == SDB_OK && is_newest(txn, table);
    if (rc == SDB_OK) {
        now = table->idle;
        table->idle = NULL;
    }
    pthread_mutex_unlock(&txn->db->mutex);
    if (rc != SDB_OK)
        return rc;
    if (!is_fresh)
        rc = lock_refresh(txn);
    sdb_version *base = rc == SDB_OK ? sdb_txn_version(txn, table) : NULL;
    if (now && (!base || now->room < base->set->n)) {
        sdb_version_free(now);
        now = NULL;
    }
    if (base && !now)
        now = sdb_version_new(table, base->set, base->set->n);
    sdb_work *w = now ? sdb_work_new(txn, table) : NULL;
    if (!w) {
        sdb_version_free(now);
        refusal_count(table, rc);
        lock_give(table);
        return rc == SDB_OK ? SDB_NOMEM : rc;
    }
    sdb_version_copy(now, base);
    w->base = base;
    w->room = now->room;
    sdb_work_begin(txn, w, now);
    return SDB_OK;
}

bool sdb_table_is_locked(const sdb_table *table)
{
    return owner_of(table) != NULL;
}

bool sdb_txn_is_locked(const sdb_txn *txn, const sdb_table *table)
{
    return owner_of(table) == txn;
}

static int id_compare(const void *a, const void *b)
{
    uint64_t x = (*(sdb_table *const *)a)->id, y = (*(sdb_table *const *)b)->id;
    return (x > y) - (x < y);
}

int sdb_txn_lock_all(sdb_txn *txn, sdb_table *const *tables, int n)
{
    int rc = SDB_OK;
    if (n < 1)
        return n < 0 ? SDB_MISUSE : SDB_OK;
    sdb_table **sorted = sdb_malloc((size_t)n * sizeof *sorted);
    if (!sorted)
        return SDB_NOMEM;
    memcpy(sorted, tables, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, id_compare);
    for (int i = 0; i < n && rc == SDB_OK; i++)
        rc = sdb_txn_lock(txn, sorted[i]);
    sdb_free(sorted);
    return rc;
}

bool sdb_txn_peek_begin(const sdb_txn *txn)
{
    return txn->has_looked;
}

void sdb_txn_peek_end(sdb_txn *txn, bool begin)
{
    txn->has_looked = begin;
}

void sdb_txn_set_timeout(sdb_txn *txn, int64_t ms)
{
    txn->timeout_ms = ms;
}

void sdb_txn_set_stop(sdb_txn *txn, int64_t ms, sdb_stop stop)
{
    txn->stop_ms = ms;
    txn->stop = stop;
}

void sdb_txn_interrupt(sdb_txn *txn)
{
    pthread_mutex_lock(&txn->db->mutex);
    txn->is_interrupted = true;
    pthread_cond_signal(&txn->turn);
    pthread_mutex_unlock(&txn->db->mutex);
}
