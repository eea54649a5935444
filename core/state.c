/* state.c - the states of a transaction: the floor, holds, savepoints, rolling back (see txn.h). */
#include "txn.h"

#include "mem.h"

#include <assert.h>

/* ---------------------------------------------------------------- states */

/* What is retired behind the first `from` may have to be kept only for a while. */
static void sweep_from(sdb_txn *txn, sdb_work *w, size_t from)
{
    if (!w->must_sweep || w->sweep_from > from)
        w->sweep_from = from;
    w->must_sweep = txn->must_sweep = true;
}

void sdb_txn_settle(sdb_txn *txn)
{
    txn->is_floor_old = false;
    txn->floor = txn->n_savepoint ? txn->savepoint[txn->n_savepoint - 1]->stamp : 0;
    bool is_held = false;
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next) {
        is_held |= h->is_own;
        if (h->is_own && h->stamp > txn->floor)
            txn->floor = h->stamp;
    }
    if (txn->stamp == txn->floor)
        txn->stamp = sdb_tick(txn->db);
    for (uint32_t i = 0; is_held && i < txn->n_work; i++)
        sweep_from(txn, &txn->work[i], txn->work[i].edit.retired.n);
}

/* Free what was retired only because of holds or savepoints that have gone. Nothing is swept while
** a hold is there; what an older savepoint has counted stays in its place. */
static void txn_sweep(sdb_txn *txn)
{
    txn->is_floor_old = true;
    if (!txn->must_sweep)
        return;
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->is_own)
            return;
    txn->must_sweep = false;
    const sdb_savepoint *top = txn->n_savepoint ? txn->savepoint[txn->n_savepoint - 1] : NULL;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        sdb_work *w = &txn->work[i];
        uint64_t floor = top && top->stamp > w->start ? top->stamp : w->start;
        sdb_links *retired = &w->edit.retired;
        if (!w->must_sweep)
            continue;
        size_t from = w->sweep_from, saved = top && i < top->n_work ? top->saved[i]->n_retired : 0;
        w->must_sweep = from < saved;
        txn->must_sweep |= w->must_sweep;
        size_t kept = from > saved ? from : saved;
        for (size_t k = kept; k < retired->n; k++) {
            if (sdb_object_stamp(w->table, retired->at[k]) > floor)
                sdb_object_free(w->table, retired->at[k]);
            else
                retired->at[kept++] = retired->at[k];
        }
        retired->n = kept;
    }
}

/* ---------------------------------------------------------------- holds */

bool sdb_table_is_held(const sdb_txn *txn, const sdb_table *table, uint64_t since)
{
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->table == table && h->sees > since)
            return true;
    return false;
}

int sdb_spares_fill(sdb_txn *txn, sdb_work *w)
{
    for (; w->n_spare < (uint32_t)txn->n_savepoint + 1; w->n_spare++) {
        sdb_version *v = sdb_version_new(w->table, w->now->set, w->room);
        if (!v)
            return SDB_NOMEM;
        v->next = w->spare;
        w->spare = v;
    }
    return SDB_OK;
}

void sdb_spares_free(sdb_work *w)
{
    while (w->spare) {
        sdb_version *v = w->spare;
        w->spare = v->next;
        sdb_version_free(v);
    }
    w->n_spare = 0;
}

int sdb_txn_hold(sdb_txn *txn, sdb_table *table, sdb_hold *hold)
{
    sdb_txn_look(txn, table);
    hold->stamp = atomic_load_explicit(&txn->base.root->version, memory_order_relaxed);
    hold->is_own = atomic_load_explicit(&table->owner, memory_order_relaxed) == txn;
    if (hold->is_own) {
        sdb_work *w = &txn->work[table->work];
        int rc = w->n_spare > (uint32_t)txn->n_savepoint ? SDB_OK : sdb_spares_fill(txn, w);
        if (rc != SDB_OK)
            return rc;
        hold->stamp = txn->stamp;
        txn->is_floor_old = true;
    }
    hold->txn = txn;
    hold->table = table;
    hold->sees = hold->stamp;
    hold_link(&txn->holds, hold);
    return SDB_OK;
}

typedef struct moment {
    const sdb_txn *txn;
    const sdb_work *work;
} moment;

/* Whether a cursor of this transaction sees a moment of the table; those of earlier ones are not known here. Another
** table's does not count: when it goes nobody would look again, and an abort would free what is hung on. */
static bool is_moment_held(const void *ctx, uint64_t from, uint64_t to)
{
    const moment *m = ctx;
    if (from <= m->work->start)
        return true;
    for (const sdb_hold *h = m->txn->holds.next; h != &m->txn->holds; h = h->next)
        if (h->table == m->work->table && h->is_own && h->stamp >= from && h->stamp < to)
            return true;
    return false;
}

void sdb_txn_release_hold(sdb_hold *hold)
{
    sdb_txn *txn = hold->txn;
    sdb_table *table = hold->table;
    if (!txn) { /* it has outlived its transaction */
        sdb_db *db = table->db;
        pthread_mutex_lock(&db->mutex);
        hold_unlink(hold);
        pthread_mutex_unlock(&db->mutex);
        if (atomic_load_explicit(&db->n_waiting, memory_order_relaxed))
            sdb_reclaim_all(db);
        return;
    }
    hold_unlink(hold);
    if (!hold->is_own)
        return;
    /* At once: the floor may sink below what a left state hangs on. A table that was made and rolled
    ** back under the cursor has no work any more; it is freed as a whole. */
    if (table->reclaim.left && table->work < txn->n_work && txn->work[table->work].table == table) {
        moment m = {txn, &txn->work[table->work]};
        sdb_reclaim_left(table, is_moment_held, &m);
    }
    txn_sweep(txn);
}

/* ---------------------------------------------------------------- savepoints */

static size_t saved_size(const sdb_version *v)
{
    return (sizeof(sdb_saved) + (size_t)v->set->n * sizeof(sdb_link) + 7) / 8 * 8;
}

void sdb_savepoint_pop(sdb_txn *txn)
{
    sdb_savepoint *sp = txn->savepoint[--txn->n_savepoint];
    for (uint32_t i = 0; i < sp->n_work; i++) {
        sdb_indexes_unref(sp->saved[i]->set);
        sdb_history_unref(&sp->saved[i]->history);
    }
    sdb_free(sp);
}

int sdb_txn_savepoint(sdb_txn *txn, int *out)
{
    if (!sdb_txn_is_open(txn))
        return SDB_MISUSE;
    size_t size = sizeof(sdb_savepoint) + txn->n_work * sizeof(void *);
    for (uint32_t i = 0; i < txn->n_work; i++)
        size += saved_size(txn->work[i].now);
    sdb_savepoint **stack = sdb_grow(txn->savepoint, &txn->savepoint_room,
                                     (uint32_t)txn->n_savepoint, sizeof *stack);
    if (!stack)
        return SDB_NOMEM;
    txn->savepoint = stack;
    sdb_savepoint *sp = sdb_malloc(size);
    if (!sp)
        return SDB_NOMEM;
    txn->savepoint[txn->n_savepoint++] = sp;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        if (sdb_table_is_held(txn, txn->work[i].table, 0) &&
            sdb_spares_fill(txn, &txn->work[i]) != SDB_OK) {
            sdb_free(sp);
            txn->n_savepoint--;
            return SDB_NOMEM;
        }
    }
    sp->stamp = txn->stamp;
    sp->n_work = txn->n_work;
    char *at = (char *)(sp->saved + sp->n_work);
    for (uint32_t i = 0; i < sp->n_work; i++) {
        const sdb_work *w = &txn->work[i];
        sdb_saved *saved = sp->saved[i] = (sdb_saved *)(void *)at;
        saved->revision = w->now->revision;
        saved->sequence = w->now->sequence;
        saved->name = w->now->name;
        saved->n_retired = w->edit.retired.n;
        saved->is_dropped = w->is_dropped;
        saved->history = sdb_history_ref(&w->now->history);
        saved->set = sdb_indexes_ref(w->now->set);
        memcpy(saved->root, w->now->root, (size_t)saved->set->n * sizeof(sdb_link));
        at += saved_size(w->now);
    }
    txn->is_floor_old = true;
    *out = txn->n_savepoint - 1;
    return SDB_OK;
}

void sdb_work_discard(sdb_txn *txn, uint32_t i)
{
    sdb_work *w = &txn->work[i];
    sdb_spares_free(w);
    w->now->born = w->start;
    w->now->next = txn->discarded;
    txn->discarded = w->now;
    sdb_work_drop(txn, w);
    memmove(w, w + 1, (--txn->n_work - i) * sizeof *w);
    for (; i < txn->n_work; i++)
        txn->work[i].table->work = i;
}
void sdb_work_leave(sdb_txn *txn, sdb_work *w, uint64_t floor, size_t n_retired)
{
    sdb_table *t = w->table;
    sdb_links *retired = &w->edit.retired;
    bool is_held = sdb_table_is_held(txn, t, floor);
    uint64_t held = 0; /* what was made up to here some cursor may see, dead or alive */
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->table == t && h->stamp > held)
            held = h->stamp;
    size_t kept = n_retired;
    for (size_t i = n_retired; i < retired->n; i++) {
        uint64_t stamp = sdb_object_stamp(t, retired->at[i]);
        if (stamp <= floor)
            continue; /* it is alive again */
        if (stamp <= held)
            retired->at[kept++] = retired->at[i];
        else
            sdb_object_free(t, retired->at[i]);
    }
    retired->n = kept;
    if (w->must_sweep || kept > n_retired) /* and not begin behind the end */
        sweep_from(txn, w, n_retired);
    if (!is_held) {
        sdb_version_free_after(w->now, floor);
        return;
    }
    for (sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->table == t && h->sees > floor)
            h->sees = floor;
    sdb_version *left = w->spare;
    assert(left);
    w->spare = left->next;
    w->n_spare--;
    sdb_version_copy(left, w->now);
    left->born = floor;
    left->died = txn->stamp + 1;
    left->next = NULL;
    sdb_version **last = &t->reclaim.left;
    while (*last)
        last = &(*last)->next;
    *last = left;
}

static void saved_restore(const sdb_saved *saved, sdb_version *v)
{
    sdb_indexes *set = v->set;
    sdb_history history = v->history;
    v->name = saved->name;
    v->revision = saved->revision;
    v->sequence = saved->sequence;
    v->history = sdb_history_ref(&saved->history);
    v->set = sdb_indexes_ref(saved->set);
    memcpy(v->root, saved->root, (size_t)saved->set->n * sizeof *v->root);
    sdb_indexes_unref(set);
    sdb_history_unref(&history);
}

int sdb_txn_rollback_to(sdb_txn *txn, int savepoint)
{
    if (savepoint < 0 || savepoint >= txn->n_savepoint)
        return SDB_MISUSE;
    sdb_stage_drop(txn);
    txn->found = NULL;
    while (txn->n_savepoint > savepoint + 1)
        sdb_savepoint_pop(txn);
    const sdb_savepoint *sp = txn->savepoint[savepoint];
    for (uint32_t i = txn->n_work; i-- > 0;) {
        sdb_work *w = &txn->work[i];
        const sdb_saved *saved = i < sp->n_work ? sp->saved[i] : NULL;
        if (!saved && !w->base) {
            sdb_work_discard(txn, i);
            continue;
        }
        sdb_work_leave(txn, w, saved ? sp->stamp : w->start, saved ? saved->n_retired : 0);
        w->is_dropped = saved && saved->is_dropped;
        if (saved)
            saved_restore(saved, w->now);
        else
            sdb_version_copy(w->now, w->base);
    }
    sdb_txn_see(txn);
    txn->stamp = sdb_tick(txn->db); /* what was left must not be taken for what comes */
    txn->is_floor_old = true;
    return SDB_OK;
}

int sdb_txn_release(sdb_txn *txn, int savepoint)
{
    if (savepoint < 0 || savepoint >= txn->n_savepoint)
        return SDB_MISUSE;
    const sdb_savepoint *sp = txn->savepoint[savepoint];
    for (uint32_t i = 0; i < txn->n_work; i++) { /* what it kept may go */
        sdb_work *w = &txn->work[i];
        sweep_from(txn, w, i < sp->n_work ? sp->saved[i]->n_retired : 0);
    }
    while (txn->n_savepoint > savepoint)
        sdb_savepoint_pop(txn);
    txn_sweep(txn);
    return SDB_OK;
}
