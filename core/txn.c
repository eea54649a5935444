/* txn.c - write transactions: begin, works, commit, abort (see txn.h). */
#include "txn.h"

#include "mem.h"
#include "wait.h"
#include "watch.h"

#include <assert.h>

/* ---------------------------------------------------------------- begin */

/* Room to see all tables of a root. SDB_NOMEM: nothing has changed. */
static int tables_reserve(sdb_txn *txn, uint32_t n)
{
    if (n <= txn->table_room)
        return SDB_OK;
    sdb_version **table = sdb_realloc(txn->table, (n + 4u) * sizeof *table);
    if (!table)
        return SDB_NOMEM;
    txn->table = table;
    txn->table_room = n + 4;
    return SDB_OK;
}

void sdb_txn_see(sdb_txn *txn)
{
    const sdb_root *root = txn->base.root;
    uint32_t n = root->n > txn->n_table ? root->n : txn->n_table;
    for (uint32_t i = 0; i < n; i++)
        txn->table[i] = i < root->n ? root->table[i] : NULL;
    for (uint32_t i = 0; i < txn->n_work; i++)
        txn->table[txn->work[i].table->slot] = txn->work[i].is_dropped ? NULL : txn->work[i].now;
    txn->n_table = n;
}

int sdb_txn_rebase(sdb_txn *txn)
{
    const sdb_root *now = atomic_load(&txn->db->root), *base = txn->base.root;
    for (uint32_t i = 0; i < base->n; i++) {
        const sdb_version *v = base->table[i];
        if (v && now->table[i] != v && !sdb_root_version(now, v->table))
            return SDB_STALE; /* dropped: our base may be all that keeps it */
    }
    int rc = tables_reserve(txn, now->n);
    if (rc != SDB_OK)
        return rc;
    sdb_snapshot_renew(&txn->base);
    sdb_txn_see(txn);
    txn->found = NULL;
    return SDB_OK;
}

static int txn_begin(sdb_db *db, const sdb_snapshot *at, sdb_txn **out)
{
    pthread_mutex_lock(&db->mutex);
    sdb_txn *txn = db->idle_txns;
    if (txn) {
        db->idle_txns = txn->next;
    } else if ((txn = sdb_zalloc(sizeof *txn))) {
        txn->db = db;
        hold_init(&txn->holds);
        if (sdb_cond_init(&txn->turn) != 0) {
            sdb_free(txn);
            txn = NULL;
        }
    }
    if (txn) {
        txn->id = sdb_tick(db);
        db->n_txns++;
        sdb_snapshot_link(db, &txn->base, SNAPSHOT_OF_TXN);
        if (at)
            sdb_snapshot_copy(&txn->base, at);
    }
    pthread_mutex_unlock(&db->mutex);
    if (!txn)
        return SDB_NOMEM;
    txn->timeout_ms = 0;
    txn->stop.is_due = NULL;
    txn->has_looked = at != NULL;
    txn->is_interrupted = false;
    if (!at)
        sdb_snapshot_take(&txn->base);
    if (tables_reserve(txn, txn->base.root->n) != SDB_OK) {
        sdb_txn_abort(txn);
        return SDB_NOMEM;
    }
    sdb_txn_see(txn);
    txn->stamp = sdb_tick(db);
    txn->floor = 0;
    assert(txn->stamp < SDB_STAMP_MAX);
    *out = txn;
    return SDB_OK;
}

int sdb_txn_begin(sdb_db *db, sdb_txn **out)
{
    return txn_begin(db, NULL, out);
}

int sdb_txn_begin_at(sdb_db *db, const sdb_snapshot *at, sdb_txn **out)
{
    return at->db == db && at->root ? txn_begin(db, at, out) : SDB_MISUSE;
}

int sdb_txn_snapshot(const sdb_txn *txn, sdb_snapshot *snap)
{
    if (snap->db != txn->db)
        return SDB_MISUSE;
    sdb_snapshot_drop(snap);
    pthread_mutex_lock(&txn->db->mutex);
    sdb_snapshot_copy(snap, &txn->base);
    pthread_mutex_unlock(&txn->db->mutex);
    return SDB_OK;
}

uint64_t sdb_txn_id(const sdb_txn *txn)
{
    return txn->id;
}

void sdb_txn_free(sdb_txn *txn)
{
    while (txn) {
        sdb_txn *next = txn->next;
        sdb_buf_fini(&txn->keys.buf);
        sdb_buf_fini(&txn->old_keys.buf);
        sdb_free(txn->table);
        sdb_free(txn->work);
        sdb_free(txn->savepoint);
        sdb_free(txn->pins.at);
        sdb_dead_free(txn->idle_dead);
        sdb_links_fini(&txn->idle_links);
        pthread_cond_destroy(&txn->turn);
        sdb_free(txn);
        txn = next;
    }
}

/* ---------------------------------------------------------------- works */

sdb_work *sdb_work_new(sdb_txn *txn, sdb_table *table)
{
    sdb_work *work = sdb_grow(txn->work, &txn->work_room, txn->n_work, sizeof *work);
    if (!work)
        return NULL;
    txn->work = work;
    sdb_work *w = &work[txn->n_work];
    *w = (sdb_work){.table = table, .edit.arena = &table->arena};
    w->dead = txn->idle_dead ? txn->idle_dead : sdb_zalloc(sizeof *w->dead);
    if (!w->dead)
        return NULL;
    w->edit.retired = txn->idle_links;
    txn->idle_links = (sdb_links){0};
    txn->idle_dead = NULL;
    return w;
}

void sdb_work_drop(sdb_txn *txn, sdb_work *w)
{
    enum { KEEP = 4096 };
    w->edit.retired.n = 0;
    if (txn->idle_links.at || w->edit.retired.room > KEEP)
        sdb_links_fini(&w->edit.retired);
    else
        txn->idle_links = w->edit.retired;
    if (txn->idle_dead)
        sdb_dead_free(w->dead); /* which may be NULL */
    else
        txn->idle_dead = w->dead;
}

void sdb_work_begin(sdb_txn *txn, sdb_work *w, sdb_version *now)
{
    w->now = now;
    w->start = sdb_tick(txn->db);
    txn->stamp = sdb_tick(txn->db);
    w->table->work = txn->n_work++;
    txn->table[w->table->slot] = now;
}

/* ---------------------------------------------------------------- the end */

int sdb_txn_prepare(sdb_txn *txn)
{
    sdb_db *db = txn->db;
    if (!sdb_txn_is_open(txn))
        return SDB_MISUSE;
    if (txn->n_work == 0)
        return SDB_OK;
    pthread_mutex_lock(&db->mutex);
    int rc = sdb_pins_reserve(db, &txn->pins);
    if (rc == SDB_OK && !txn->root) {
        txn->root = sdb_root_new(db);
        rc = txn->root ? SDB_OK : SDB_NOMEM;
        if (txn->root) {
            txn->next = db->prepared;
            db->prepared = txn;
        }
    }
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

static void old_add(sdb_db *db, sdb_version *v, uint64_t died)
{
    v->died = died;
    v->next = db->old;
    db->old = v;
}

/* Under the mutex. The transaction is over as far as anybody but its tables' memory is concerned:
** its pin goes, its holds become the store's, its discarded tables old ones. */
static void txn_close(sdb_txn *txn)
{
    sdb_db *db = txn->db;
    for (sdb_txn **p = &db->prepared; txn->root && *p; p = &(*p)->next) {
        if (*p == txn) {
            *p = txn->next;
            break;
        }
    }
    atomic_store_explicit(&txn->base.pin, 0, memory_order_release);
    txn->base.root = NULL;
    while (txn->holds.next != &txn->holds) {
        sdb_hold *h = txn->holds.next;
        hold_unlink(h);
        h->txn = NULL;
        h->since = sdb_now_roughly();
        hold_link(&db->holds, h);
    }
    while (txn->discarded) {
        sdb_version *v = txn->discarded;
        txn->discarded = v->next;
        atomic_store_explicit(&v->table->owner, NULL, memory_order_relaxed);
        old_add(db, v, sdb_tick(db));
    }
}

/* Under the mutex: put the new root in the old one's place. */
static void txn_publish(sdb_txn *txn)
{
    sdb_db *db = txn->db;
    sdb_root *root = txn->root, *last = atomic_load(&db->root);
    uint64_t version = sdb_tick(db);
    root->n = db->n_slots;
    if (last->n)
        memcpy(root->table, last->table, last->n * sizeof *root->table);
    for (uint32_t i = last->n; i < root->n; i++)
        root->table[i] = NULL;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        sdb_work *w = &txn->work[i];
        root->table[w->table->slot] = w->is_dropped ? NULL : w->now;
        if (w->base)
            old_add(db, w->base, version);
        if (!w->is_dropped) {
            w->now->born = w->base ? version : w->start; /* its cursors may see a new table before */
            w->table->n_versions += w->base != NULL;
        } else if (!w->base) {
            w->now->born = w->start;
            old_add(db, w->now, version);
        } else {
            sdb_version_free(w->now);
        }
    }
    last->died = version;
    last->next = db->retired;
    db->retired = last;
    atomic_store_explicit(&root->version, version, memory_order_release);
    atomic_store(&db->root, root); /* seq_cst: pairs with sdb_snapshot_take */
    txn->root = NULL;
}

/* The dead of a table to their place, word to its watchers; then others may write it. */
static void work_finish(sdb_txn *txn, sdb_work *w, uint64_t death, bool is_commit)
{
    sdb_spares_free(w);
    if (!w->is_dropped) { /* else its memory goes with its last version, perhaps it has already */
        sdb_reclaim_run(w->table, &txn->pins, &w->edit.retired, death, &w->dead);
        sdb_watch_settle(w->table, is_commit);
    }
    sdb_work_drop(txn, w);
}

/* Under the mutex. */
static void table_unlock(sdb_table *t)
{
    t->is_settling = false;
    sdb_waits(t->db, &t->is_waiting, sdb_reclaim_waits(&t->reclaim));
    sdb_table_hand_over(t);
}

/* Under the mutex: unlock a table that has been dropped. */
static void table_forget(sdb_table *t)
{
    sdb_watch_settle(t, true);
    sdb_waits(t->db, &t->is_waiting, false);
    sdb_table_hand_over(t);
}

static void txn_idle(sdb_txn *txn)
{
    sdb_db *db = txn->db;
    enum { KEEP = 1 << 16 }; /* a huge key's buffer need not stay for ever */
    if (txn->keys.buf.room > KEEP)
        sdb_buf_fini(&txn->keys.buf);
    if (txn->old_keys.buf.room > KEEP)
        sdb_buf_fini(&txn->old_keys.buf);
    txn->n_table = txn->n_work = 0;
    txn->is_floor_old = txn->must_sweep = false;
    txn->found = NULL;
    txn->next = db->idle_txns;
    db->idle_txns = txn;
}

/* Under the mutex. */
static void txn_count(sdb_txn *txn, bool is_commit)
{
    sdb_counter end = is_commit ? SDB_N_COMMITS : SDB_N_ABORTS;
    txn->db->count[end] += txn->n_work > 0;
    for (uint32_t i = 0; i < txn->n_work; i++)
        sdb_count(&txn->work[i].table->count[end], 1);
}

/* Under the mutex: what an aborted transaction worked on is for the next one. */
static void works_idle(sdb_txn *txn)
{
    for (uint32_t i = 0; i < txn->n_work; i++) {
        sdb_work *w = &txn->work[i];
        if (w->table->idle)
            sdb_version_free(w->now);
        else
            w->table->idle = w->now;
    }
}

/* The common end of commit and abort. */
static void txn_finish(sdb_txn *txn, bool is_commit)
{
    sdb_db *db = txn->db;
    pthread_mutex_lock(&db->mutex);
    txn_count(txn, is_commit);
    txn_close(txn);
    if (is_commit && txn->n_work)
        txn_publish(txn);
    else if (txn->root)
        sdb_root_idle(db, txn->root);
    txn->root = NULL;
    if (!is_commit)
        works_idle(txn);
    for (uint32_t i = 0; i < txn->n_work; i++) /* before its last version may take it along */
        if (txn->work[i].is_dropped)
            table_forget(txn->work[i].table);
    uint64_t death = sdb_tick(db);
    sdb_pins_collect(db, &txn->pins);
    sdb_old_run(db, &txn->pins);
    /* Freeing much is not for the mutex; for little it is not worth taking it again. */
    enum { LITTLE = 64 };
    size_t n_dead = 0;
    for (uint32_t i = 0; i < txn->n_work; i++)
        n_dead += txn->work[i].edit.retired.n +
                  (!txn->work[i].is_dropped && sdb_reclaim_waits(&txn->work[i].table->reclaim)
                       ? LITTLE : 0);
    for (uint32_t i = 0; i < txn->n_work; i++)
        if (!txn->work[i].is_dropped)
            txn->work[i].table->is_settling = n_dead > LITTLE;
    if (n_dead > LITTLE)
        pthread_mutex_unlock(&db->mutex);
    for (uint32_t i = 0; i < txn->n_work; i++)
        work_finish(txn, &txn->work[i], death, is_commit);
    if (n_dead > LITTLE)
        pthread_mutex_lock(&db->mutex);
    for (uint32_t i = 0; i < txn->n_work; i++)
        if (!txn->work[i].is_dropped)
            table_unlock(txn->work[i].table);
    sdb_snapshot_unlink(&txn->base);
    txn_idle(txn);
    bool is_last = --db->n_txns == 0 && db->is_closed;
    pthread_mutex_unlock(&db->mutex);
    if (is_last)
        sdb_db_free(db);
}

int sdb_txn_commit(sdb_txn *txn)
{
    int rc = txn->n_calls ? SDB_MISUSE : sdb_txn_prepare(txn);
    if (rc != SDB_OK)
        return rc;
    sdb_stage_drop(txn);
    while (txn->n_savepoint > 0)
        sdb_savepoint_pop(txn);
    for (uint32_t i = 0; i < txn->n_work; i++)
        sdb_arena_freeze(&txn->work[i].table->arena);
    sdb_commit_check(txn);
    txn_finish(txn, true);
    return SDB_OK;
}

void sdb_txn_abort(sdb_txn *txn)
{
    if (!txn || !sdb_txn_is_open(txn) || txn->n_calls)
        return;
    sdb_stage_drop(txn);
    while (txn->n_savepoint > 0)
        sdb_savepoint_pop(txn);
    /* Without room for the pins everything counts as pinned, until the next commit. */
    pthread_mutex_lock(&txn->db->mutex);
    int rc = txn->n_work ? sdb_pins_reserve(txn->db, &txn->pins) : SDB_OK;
    pthread_mutex_unlock(&txn->db->mutex);
    (void)rc;
    for (uint32_t i = txn->n_work; i-- > 0;) {
        sdb_work *w = &txn->work[i];
        if (!w->base) {
            sdb_work_discard(txn, i);
            continue;
        }
        sdb_work_leave(txn, w, w->start, 0);
        w->is_dropped = false;
    }
    txn_finish(txn, false);
}

void sdb_reclaim_all(sdb_db *db)
{
    sdb_pins pins = {0};
    pthread_mutex_lock(&db->mutex);
    const sdb_root *root = atomic_load(&db->root);
    if (sdb_pins_reserve(db, &pins) != SDB_OK) {
        pthread_mutex_unlock(&db->mutex);
        return; /* the next commit does it */
    }
    sdb_pins_collect(db, &pins);
    sdb_old_run(db, &pins);
    for (uint32_t i = 0; i < root->n; i++) {
        sdb_table *t = root->table[i] ? root->table[i]->table : NULL;
        if (t && t->is_waiting && !atomic_load_explicit(&t->owner, memory_order_relaxed)) {
            sdb_reclaim_run(t, &pins, NULL, 0, NULL);
            table_unlock(t);
        }
    }
    pthread_mutex_unlock(&db->mutex);
    sdb_free(pins.at);
}
