/* txn.c - write transactions: locks, states, savepoints, tables (see txn.h). */
#include "txn.h"

#include "mem.h"
#include "wait.h"
#include "watch.h"

#include <assert.h>

/* Room for one more in an array of pointers or structs; false: no memory. */
static bool grow(void *array, uint32_t *room, uint32_t n, size_t size)
{
    void **at = array;
    if (n < *room)
        return true;
    uint32_t want = n < 4 ? 8 : n * 2;
    void *p = sdb_realloc(*at, want * size);
    if (!p)
        return false;
    *at = p;
    *room = want;
    return true;
}

/* ---------------------------------------------------------------- begin */

int sdb_txn_rebase(sdb_txn *txn)
{
    if (txn->base.root)
        sdb_snapshot_drop(&txn->base);
    sdb_snapshot_take(&txn->base);
    const sdb_root *root = txn->base.root;
    uint32_t n = root->n > txn->n_table ? root->n : txn->n_table; /* with those made here */
    txn->n_table = 0;
    if (n > txn->table_room) {
        sdb_version **table = sdb_realloc(txn->table, (n + 4u) * sizeof *table);
        if (!table)
            return SDB_NOMEM;
        txn->table = table;
        txn->table_room = n + 4;
    }
    for (uint32_t i = 0; i < n; i++)
        txn->table[i] = i < root->n ? root->table[i] : NULL;
    for (uint32_t i = 0; i < txn->n_work; i++)
        txn->table[txn->work[i].table->slot] = txn->work[i].is_dropped ? NULL : txn->work[i].now;
    txn->n_table = n;
    return SDB_OK;
}

int sdb_txn_begin(sdb_db *db, sdb_txn **out)
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
    if (txn)
        sdb_snapshot_link(db, &txn->base);
    pthread_mutex_unlock(&db->mutex);
    if (!txn)
        return SDB_NOMEM;
    txn->timeout_ms = 0;
    txn->has_looked = txn->is_interrupted = false;
    if (sdb_txn_rebase(txn) != SDB_OK) {
        sdb_txn_abort(txn);
        return SDB_NOMEM;
    }
    txn->start = txn->stamp = sdb_tick(db);
    txn->floor = 0;
    assert(txn->stamp < SDB_STAMP_MAX);
    *out = txn;
    return SDB_OK;
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

/* ---------------------------------------------------------------- states */

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
    for (uint32_t i = 0; is_held && i < txn->n_work; i++) {
        sdb_work *w = &txn->work[i];
        if (!w->must_sweep)
            w->sweep_from = w->edit.retired.n;
        w->must_sweep = true;
    }
}

static void object_free(sdb_table *t, sdb_link link)
{
    if (link & SDB_LEAF)
        sdb_row_free(t, link);
    else
        sdb_arena_free(&t->arena, link, sdb_node_size[sdb_node_kind(sdb_at(t->arena.base, link))]);
}

static uint64_t object_stamp(const sdb_table *t, sdb_link link)
{
    return link & SDB_LEAF ? sdb_row_at(t, link)->stamp : sdb_node_stamp(sdb_at(t->arena.base, link));
}

/* Free what was retired only because of holds or savepoints that have gone. Nothing is swept while
** a hold is there; what an older savepoint has counted stays in its place. */
static void txn_sweep(sdb_txn *txn)
{
    txn->is_floor_old = true;
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->is_own)
            return;
    const sdb_savepoint *top = txn->n_savepoint ? txn->savepoint[txn->n_savepoint - 1] : NULL;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        sdb_work *w = &txn->work[i];
        uint64_t floor = top && top->stamp > w->start ? top->stamp : w->start;
        sdb_links *retired = &w->edit.retired;
        if (!w->must_sweep)
            continue;
        size_t from = w->sweep_from, saved = top && i < top->n_work ? top->saved[i]->n_retired : 0;
        w->must_sweep = from < saved;
        size_t kept = from > saved ? from : saved;
        for (size_t k = kept; k < retired->n; k++) {
            if (object_stamp(w->table, retired->at[k]) > floor)
                object_free(w->table, retired->at[k]);
            else
                retired->at[kept++] = retired->at[k];
        }
        retired->n = kept;
    }
}

/* ---------------------------------------------------------------- holds */

/* Whether a cursor sees something in the working version that was made after `since`. */
static bool is_table_held(const sdb_txn *txn, const sdb_table *table, uint64_t since)
{
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->table == table && h->sees > since)
            return true;
    return false;
}

/* A rollback under an open cursor keeps the state it leaves in a spare version, since it cannot ask
** for memory then. After it no hold sees more than what that savepoint has saved, so the next such
** rollback is to an older one, unless there is a new hold: one for each savepoint, and one for the
** abort, are enough if they are filled up with each new hold. */
static int spares_fill(sdb_txn *txn, sdb_work *w)
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

static void spares_free(sdb_work *w)
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
    txn->has_looked = true;
    hold->stamp = atomic_load_explicit(&txn->base.root->version, memory_order_relaxed);
    hold->is_own = atomic_load_explicit(&table->owner, memory_order_relaxed) == txn;
    if (hold->is_own) {
        int rc = spares_fill(txn, &txn->work[table->work]);
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

/* Whether a cursor of this transaction sees a moment; those of earlier ones are not known here. */
static bool is_moment_held(const void *ctx, uint64_t from, uint64_t to)
{
    const moment *m = ctx;
    if (from <= m->work->start)
        return true;
    for (const sdb_hold *h = m->txn->holds.next; h != &m->txn->holds; h = h->next)
        if (h->is_own && h->stamp >= from && h->stamp < to)
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
    if (table->work < txn->n_work && txn->work[table->work].table == table) {
        moment m = {txn, &txn->work[table->work]};
        sdb_reclaim_left(table, is_moment_held, &m);
    }
    txn_sweep(txn);
}

/* ---------------------------------------------------------------- works */

sdb_work *sdb_work_new(sdb_txn *txn, sdb_table *table)
{
    if (!grow(&txn->work, &txn->work_room, txn->n_work, sizeof *txn->work))
        return NULL;
    sdb_work *w = &txn->work[txn->n_work];
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

/* ---------------------------------------------------------------- tables */

sdb_table *sdb_txn_table(sdb_txn *txn, const char *name)
{
    for (uint32_t i = 0; i < txn->n_table; i++)
        if (txn->table[i] && strcmp(txn->table[i]->name, name) == 0)
            return txn->table[i]->table;
    return NULL;
}

uint64_t sdb_txn_count(sdb_txn *txn, const sdb_table *table)
{
    txn->has_looked = true;
    const sdb_version *v = sdb_txn_version(txn, table);
    return v ? sdb_version_count(v) : 0;
}

/* Under the mutex: whether a name is free, in this transaction's eyes and in everybody's. */
static int name_check(const sdb_txn *txn, const char *name)
{
    const sdb_db *db = txn->db;
    const sdb_root *root = atomic_load(&db->root);
    for (uint32_t i = 0; i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        if (!t)
            continue;
        const sdb_version *mine = sdb_txn_version(txn, t), *newest = sdb_root_version(root, t);
        const sdb_txn *owner = atomic_load_explicit(&t->owner, memory_order_relaxed);
        if (mine && strcmp(mine->name, name) == 0)
            return SDB_EXISTS;
        if (owner != txn && owner && strcmp(t->names->text, name) == 0)
            return SDB_BUSY; /* somebody is just making it */
        if (owner != txn && newest && newest != mine && strcmp(newest->name, name) == 0)
            return SDB_STALE;
    }
    return SDB_OK;
}

/* Under the mutex: a slot for a new table, in every root that may still be published. */
static int slot_take(sdb_db *db, sdb_table *table)
{
    uint32_t i = 0;
    while (i < db->n_slots && db->slot[i])
        i++;
    if (i == db->n_slots) {
        sdb_table **slot = sdb_realloc(db->slot, (i + 1u) * sizeof *slot);
        if (!slot)
            return SDB_NOMEM;
        db->slot = slot;
        for (sdb_txn *t = db->prepared; t; t = t->next) {
            if (t->root->room > i)
                continue;
            sdb_version **at = sdb_realloc(t->root->table, (i + 4u) * sizeof *at);
            if (!at)
                return SDB_NOMEM;
            t->root->table = at;
            t->root->room = i + 4;
        }
        db->n_slots++;
    }
    db->slot[i] = table;
    table->slot = i;
    table->id = ++db->n_tables;
    return SDB_OK;
}

int sdb_txn_create_table(sdb_txn *txn, const sdb_table_def *def, sdb_table **out)
{
    sdb_db *db = txn->db;
    sdb_table *table;
    sdb_version *v;
    int rc = sdb_table_new(db, &db->budget, def, &table, &v);
    if (rc != SDB_OK)
        return rc;
    sdb_work *w = sdb_work_new(txn, table);
    rc = w ? SDB_OK : SDB_NOMEM;
    pthread_mutex_lock(&db->mutex);
    if (rc == SDB_OK)
        rc = name_check(txn, def->name);
    if (rc == SDB_OK && db->n_slots >= txn->table_room) {
        sdb_version **at = sdb_realloc(txn->table, (db->n_slots + 8u) * sizeof *at);
        rc = at ? SDB_OK : SDB_NOMEM;
        if (at) {
            txn->table = at;
            txn->table_room = db->n_slots + 8;
        }
    }
    if (rc == SDB_OK)
        rc = slot_take(db, table);
    if (rc == SDB_OK)
        atomic_store_explicit(&table->owner, txn, memory_order_relaxed);
    pthread_mutex_unlock(&db->mutex);
    if (rc != SDB_OK) {
        if (w)
            sdb_work_drop(txn, w);
        sdb_version_free(v);
        sdb_table_unref(table);
        return rc;
    }
    w->room = v->set->n;
    while (txn->n_table <= table->slot)
        txn->table[txn->n_table++] = NULL;
    sdb_work_begin(txn, w, v);
    *out = table;
    return SDB_OK;
}

int sdb_txn_drop_table(sdb_txn *txn, sdb_table *table)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    if (txn->staged_table == table)
        sdb_stage_drop(txn);
    w->is_dropped = true;
    txn->found = NULL;
    txn->table[table->slot] = NULL;
    for (int i = 0; i < w->now->set->n; i++)
        sdb_watch_touch_index(table, w->now->set->at[i]);
    return SDB_OK;
}

int sdb_txn_rename_table(sdb_txn *txn, sdb_table *table, const char *name)
{
    sdb_work *w;
    if (strlen(name) > SDB_MAX_NAME)
        return SDB_TOOBIG;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    if (strcmp(w->now->name, name) == 0)
        return SDB_OK;
    pthread_mutex_lock(&txn->db->mutex);
    rc = name_check(txn, name);
    const char *copy = rc == SDB_OK ? sdb_table_add_name(table, name) : NULL;
    pthread_mutex_unlock(&txn->db->mutex);
    if (rc == SDB_OK && !copy)
        rc = SDB_NOMEM;
    if (rc == SDB_OK)
        w->now->name = copy;
    return rc;
}

/* ---------------------------------------------------------------- indexes */

/* Room for one index more: in a larger working version, and in larger spares where there are any. */
static int work_widen(sdb_txn *txn, sdb_work *w)
{
    sdb_work wide = {.table = w->table, .room = w->room + 1};
    wide.now = sdb_version_new(w->table, w->now->set, wide.room);
    int rc = !wide.now ? SDB_NOMEM : w->n_spare ? spares_fill(txn, &wide) : SDB_OK;
    if (rc != SDB_OK) {
        spares_free(&wide);
        sdb_version_free(wide.now);
        return rc;
    }
    sdb_version_copy(wide.now, w->now);
    spares_free(w);
    sdb_version_free(w->now);
    w->now = wide.now;
    w->room = wide.room;
    w->spare = wide.spare;
    w->n_spare = wide.n_spare;
    txn->table[w->table->slot] = w->now;
    return SDB_OK;
}

int sdb_txn_create_index(sdb_txn *txn, sdb_table *table, const sdb_index_def *def)
{
    sdb_work *w;
    int rc = sdb_index_def_check(def, table->n_columns);
    if (rc == SDB_OK)
        rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    int n = w->now->set->n;
    if (sdb_indexes_find(w->now->set, def->name))
        return SDB_EXISTS;
    if (n == SDB_MAX_INDEXES)
        return SDB_TOOBIG;
    if (txn->staged_table == table)
        sdb_stage_drop(txn); /* its keys lack the new index's */
    if (n == w->room)
        rc = work_widen(txn, w);
    sdb_indexes *set = rc == SDB_OK ? sdb_indexes_new(n + 1) : NULL;
    for (int i = 0; set && i < n; i++)
        set->at[set->n++] = sdb_index_ref(w->now->set->at[i]);
    if (set && (set->at[n] = sdb_index_new(def, table->n_columns, table->rowid_column)))
        set->n++;
    sdb_link root;
    if (rc == SDB_OK)
        rc = set && set->n > n ? sdb_version_build(w->now, &w->edit, set->at[n], &root) : SDB_NOMEM;
    if (rc != SDB_OK) {
        sdb_indexes_unref(set);
        return rc;
    }
    set->id = sdb_tick(txn->db);
    sdb_indexes_unref(w->now->set);
    w->now->set = set;
    w->now->root[n] = root;
    return SDB_OK;
}

int sdb_txn_drop_index(sdb_txn *txn, sdb_table *table, int index)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    sdb_version *v = w->now;
    int n = v->set->n;
    if (index < 1 || index >= n)
        return SDB_MISUSE;
    if (txn->staged_table == table)
        sdb_stage_drop(txn);
    sdb_indexes *set = sdb_indexes_new(n - 1);
    if (!set)
        return SDB_NOMEM;
    rc = sdb_radix_retire(&w->edit, v->root[index]);
    if (rc != SDB_OK) {
        sdb_indexes_unref(set);
        return rc;
    }
    sdb_watch_touch_index(table, v->set->at[index]);
    for (int i = 0; i < n; i++)
        if (i != index)
            set->at[set->n++] = sdb_index_ref(v->set->at[i]);
    memmove(v->root + index, v->root + index + 1, (size_t)(n - 1 - index) * sizeof *v->root);
    set->id = sdb_tick(txn->db);
    sdb_indexes_unref(v->set);
    v->set = set;
    return SDB_OK;
}

static const sdb_indexes *txn_set(const sdb_txn *txn, const sdb_table *table)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    return v ? v->set : NULL;
}

int sdb_txn_indexes(const sdb_txn *txn, const sdb_table *table)
{
    const sdb_indexes *set = txn_set(txn, table);
    return set ? set->n - 1 : 0;
}

const sdb_index_def *sdb_txn_index(const sdb_txn *txn, const sdb_table *table, int index)
{
    return &txn_set(txn, table)->at[index]->def;
}

uint64_t sdb_txn_indexes_id(const sdb_txn *txn, const sdb_table *table)
{
    const sdb_indexes *set = txn_set(txn, table);
    return set ? set->id : 0;
}

int sdb_txn_find_index(const sdb_txn *txn, const sdb_table *table, const char *name)
{
    const sdb_indexes *set = txn_set(txn, table);
    return set ? sdb_indexes_find(set, name) : 0;
}

/* A table created by this transaction is no more. Its cursors, if any, keep it until the end. */
static void work_discard(sdb_txn *txn, uint32_t i)
{
    sdb_work *w = &txn->work[i];
    spares_free(w);
    w->now->born = w->start;
    w->now->next = txn->discarded;
    txn->discarded = w->now;
    sdb_work_drop(txn, w);
    memmove(w, w + 1, (--txn->n_work - i) * sizeof *w);
    for (; i < txn->n_work; i++)
        txn->work[i].table->work = i;
}

/* ---------------------------------------------------------------- savepoints */

static size_t saved_size(const sdb_version *v)
{
    return (sizeof(sdb_saved) + (size_t)v->set->n * sizeof(sdb_link) + 7) / 8 * 8;
}

static void savepoint_pop(sdb_txn *txn)
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
    size_t size = sizeof(sdb_savepoint) + (txn->n_table + txn->n_work) * sizeof(void *);
    for (uint32_t i = 0; i < txn->n_work; i++)
        size += saved_size(txn->work[i].now);
    uint32_t room = (uint32_t)txn->savepoint_room;
    if (!grow(&txn->savepoint, &room, (uint32_t)txn->n_savepoint, sizeof *txn->savepoint))
        return SDB_NOMEM;
    txn->savepoint_room = (int)room;
    sdb_savepoint *sp = sdb_malloc(size);
    if (!sp)
        return SDB_NOMEM;
    txn->savepoint[txn->n_savepoint++] = sp;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        if (is_table_held(txn, txn->work[i].table, 0) &&
            spares_fill(txn, &txn->work[i]) != SDB_OK) {
            sdb_free(sp);
            txn->n_savepoint--;
            return SDB_NOMEM;
        }
    }
    sp->stamp = txn->stamp;
    sp->n_work = txn->n_work;
    sp->n_table = txn->n_table;
    char *at = (char *)(sp->saved + sp->n_work);
    for (uint32_t i = 0; i < sp->n_work; i++) {
        const sdb_work *w = &txn->work[i];
        sdb_saved *saved = sp->saved[i] = (sdb_saved *)(void *)at;
        saved->revision = w->now->revision;
        saved->name = w->now->name;
        saved->n_retired = w->edit.retired.n;
        saved->is_dropped = w->is_dropped;
        saved->history = sdb_history_ref(&w->now->history);
        saved->set = sdb_indexes_ref(w->now->set);
        memcpy(saved->root, w->now->root, (size_t)saved->set->n * sizeof(sdb_link));
        at += saved_size(w->now);
    }
    sp->table = (sdb_version **)(void *)at;
    if (sp->n_table)
        memcpy(sp->table, txn->table, sp->n_table * sizeof *sp->table);
    txn->is_floor_old = true;
    *out = txn->n_savepoint - 1;
    return SDB_OK;
}

/* Leave the working version of a table for an older one: free what was made after `floor`, or keep
** it as long as cursors see it; forget what was retired after `n_retired`. */
static void work_leave(sdb_txn *txn, sdb_work *w, uint64_t floor, size_t n_retired)
{
    sdb_table *t = w->table;
    sdb_links *retired = &w->edit.retired;
    bool is_held = is_table_held(txn, t, floor);
    uint64_t held = 0; /* what was made up to here some cursor may see, dead or alive */
    for (const sdb_hold *h = txn->holds.next; h != &txn->holds; h = h->next)
        if (h->table == t && h->stamp > held)
            held = h->stamp;
    size_t kept = n_retired;
    for (size_t i = n_retired; i < retired->n; i++) {
        uint64_t stamp = object_stamp(t, retired->at[i]);
        if (stamp <= floor)
            continue; /* it is alive again */
        if (stamp <= held)
            retired->at[kept++] = retired->at[i];
        else
            object_free(t, retired->at[i]);
    }
    retired->n = kept;
    if (kept > n_retired) {
        if (!w->must_sweep || w->sweep_from > n_retired)
            w->sweep_from = n_retired;
        w->must_sweep = true;
    }
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
    v->history = sdb_history_ref(&saved->history);
    v->set = sdb_indexes_ref(saved->set);
    memcpy(v->root, saved->root, (size_t)saved->set->n * sizeof *v->root);
    sdb_indexes_unref(set);
    sdb_history_unref(&history);
}

void sdb_txn_rollback_to(sdb_txn *txn, int savepoint)
{
    assert(savepoint >= 0 && savepoint < txn->n_savepoint);
    sdb_stage_drop(txn);
    txn->found = NULL;
    while (txn->n_savepoint > savepoint + 1)
        savepoint_pop(txn);
    const sdb_savepoint *sp = txn->savepoint[savepoint];
    for (uint32_t i = txn->n_work; i-- > 0;) {
        sdb_work *w = &txn->work[i];
        const sdb_saved *saved = i < sp->n_work ? sp->saved[i] : NULL;
        if (!saved && !w->base) {
            work_discard(txn, i);
            continue;
        }
        work_leave(txn, w, saved ? sp->stamp : w->start, saved ? saved->n_retired : 0);
        w->is_dropped = saved && saved->is_dropped;
        if (saved)
            saved_restore(saved, w->now);
        else
            sdb_version_copy(w->now, w->base);
    }
    if (sp->n_table)
        memcpy(txn->table, sp->table, sp->n_table * sizeof *sp->table);
    for (uint32_t i = sp->n_table; i < txn->n_table; i++)
        txn->table[i] = NULL;
    for (uint32_t i = 0; i < txn->n_work; i++)
        if (!txn->work[i].is_dropped)
            txn->table[txn->work[i].table->slot] = txn->work[i].now;
    txn->stamp = sdb_tick(txn->db); /* what was left must not be taken for what comes */
    txn->is_floor_old = true;
}

void sdb_txn_release(sdb_txn *txn, int savepoint)
{
    assert(savepoint >= 0 && savepoint < txn->n_savepoint);
    const sdb_savepoint *sp = txn->savepoint[savepoint];
    for (uint32_t i = 0; i < txn->n_work; i++) { /* what it kept may go */
        sdb_work *w = &txn->work[i];
        size_t from = i < sp->n_work ? sp->saved[i]->n_retired : 0;
        if (!w->must_sweep || w->sweep_from > from)
            w->sweep_from = from;
        w->must_sweep = true;
    }
    while (txn->n_savepoint > savepoint)
        savepoint_pop(txn);
    txn_sweep(txn);
}

/* ---------------------------------------------------------------- the end */

int sdb_txn_prepare(sdb_txn *txn)
{
    sdb_db *db = txn->db;
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
    spares_free(w);
    if (!w->is_dropped) { /* else its memory goes with its last version, perhaps it has already */
        sdb_reclaim_run(w->table, &txn->pins, &w->edit.retired, death, &w->dead);
        sdb_watch_settle(w->table, is_commit);
    }
    sdb_work_drop(txn, w);
}

/* Under the mutex. */
static void table_unlock(sdb_table *t)
{
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
    txn->is_floor_old = false;
    txn->found = NULL;
    txn->next = db->idle_txns;
    db->idle_txns = txn;
}

/* The common end of commit and abort. */
static void txn_finish(sdb_txn *txn, bool is_commit)
{
    sdb_db *db = txn->db;
    pthread_mutex_lock(&db->mutex);
    txn_close(txn);
    if (is_commit && txn->n_work)
        txn_publish(txn);
    else if (txn->root)
        sdb_root_idle(db, txn->root);
    txn->root = NULL;
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
    pthread_mutex_unlock(&db->mutex);
}

int sdb_txn_commit(sdb_txn *txn)
{
    int rc = sdb_txn_prepare(txn);
    if (rc != SDB_OK)
        return rc;
    sdb_stage_drop(txn);
    while (txn->n_savepoint > 0)
        savepoint_pop(txn);
    txn_finish(txn, true);
    return SDB_OK;
}

void sdb_txn_abort(sdb_txn *txn)
{
    if (!txn)
        return;
    sdb_stage_drop(txn);
    while (txn->n_savepoint > 0)
        savepoint_pop(txn);
    /* Without room for the pins everything counts as pinned, until the next commit. */
    pthread_mutex_lock(&txn->db->mutex);
    int rc = txn->n_work ? sdb_pins_reserve(txn->db, &txn->pins) : SDB_OK;
    pthread_mutex_unlock(&txn->db->mutex);
    (void)rc;
    for (uint32_t i = txn->n_work; i-- > 0;) {
        sdb_work *w = &txn->work[i];
        if (!w->base) {
            work_discard(txn, i);
            continue;
        }
        work_leave(txn, w, w->start, 0);
        sdb_version_free(w->now);
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
