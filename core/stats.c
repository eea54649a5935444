/* stats.c - what there is in a store and what was done: counters, tables, locks, what is held (see
** statedb.h). */
#include "txn.h"

#include "mem.h"
#include "wait.h"

#include <assert.h>

static const char *const COUNTER_NAME[] = {
    [SDB_N_COMMITS] = "commits",
    [SDB_N_ABORTS] = "aborts",
    [SDB_N_INSERTED] = "rows_inserted",
    [SDB_N_UPDATED] = "rows_updated",
    [SDB_N_DELETED] = "rows_deleted",
    [SDB_N_LOCK_WAITS] = "lock_waits",
    [SDB_N_LOCK_WAIT_NS] = "lock_wait_ns",
    [SDB_N_BUSY] = "busy",
    [SDB_N_DEADLOCKS] = "deadlocks",
    [SDB_N_INTERRUPTED] = "interrupted",
    [SDB_N_STALE] = "stale",
    [SDB_N_WATCHES_ARMED] = "watches_armed",
    [SDB_N_WATCHES_FIRED] = "watches_fired",
    [SDB_N_SNAPSHOTS] = "snapshots",
};

static_assert(sizeof COUNTER_NAME / sizeof *COUNTER_NAME == SDB_N_COUNTERS, "a name for each");

const char *sdb_counter_name(int counter)
{
    return counter >= 0 && counter < SDB_N_COUNTERS ? COUNTER_NAME[counter] : NULL;
}

/* ---------------------------------------------------------------- tables */

static void memory_add(const sdb_table *t, sdb_memory *out)
{
    out->live += sdb_counted(&t->arena.live);
    out->retired += sdb_counted(&t->reclaim.bytes);
    out->mapped += (sdb_counted(&t->arena.pages) + sdb_counted(&t->arena.idle)) * SDB_PAGE;
    out->reserved += t->arena.reserved;
}

/* Under the mutex: all tables. A dropped one that is still there is kept by older snapshots alone. */
static void memory_sum(const sdb_db *db, sdb_memory *out)
{
    const sdb_root *root = atomic_load(&db->root);
    *out = (sdb_memory){0};
    for (uint32_t i = 0; i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        if (!t)
            continue;
        memory_add(t, out);
        if (!sdb_root_version(root, t) && !atomic_load_explicit(&t->owner, memory_order_relaxed))
            out->retired += sdb_counted(&t->arena.live) - sdb_counted(&t->reclaim.bytes);
    }
}

void sdb_memory_used(sdb_db *db, sdb_memory *out)
{
    pthread_mutex_lock(&db->mutex);
    memory_sum(db, out);
    pthread_mutex_unlock(&db->mutex);
}

static sdb_table *next_table(sdb_version *const *at, uint32_t n, const sdb_table *after)
{
    for (uint32_t i = after ? after->slot + 1 : 0; i < n; i++)
        if (at[i])
            return at[i]->table;
    return NULL;
}

sdb_table *sdb_snapshot_next_table(const sdb_snapshot *snap, const sdb_table *after)
{
    return snap->root ? next_table(snap->root->table, snap->root->n, after) : NULL;
}

sdb_table *sdb_txn_next_table(const sdb_txn *txn, const sdb_table *after)
{
    return next_table(txn->table, txn->n_table, after);
}

static int table_info(const sdb_version *v, sdb_table_info *out)
{
    if (!v)
        return SDB_MISUSE;
    const sdb_table *t = v->table;
    const sdb_history *h = &v->history;
    *out = (sdb_table_info){
        .name = v->name,
        .rows = sdb_version_count(v),
        .revision = v->revision,
        .indexes = v->set->n - 1,
        .feeds = h->feeds ? h->feeds->n : 0,
        .deletions = sdb_radix_count(t->arena.base, h->dead_by_revision),
        .acknowledged = v->revision,
        .watches = atomic_load_explicit(&t->n_watches, memory_order_relaxed),
    };
    for (int i = 0; i < out->feeds; i++)
        if (h->feeds->at[i].seen < out->acknowledged)
            out->acknowledged = h->feeds->at[i].seen;
    memory_add(t, &out->memory);
    for (int i = 0; i < SDB_N_COUNTERS; i++)
        out->count[i] = sdb_counted(&t->count[i]);
    return SDB_OK;
}

int sdb_snapshot_table_info(const sdb_snapshot *snap, const sdb_table *table, sdb_table_info *out)
{
    return table_info(sdb_snapshot_version(snap, table), out);
}

int sdb_txn_table_info(sdb_txn *txn, const sdb_table *table, sdb_table_info *out)
{
    sdb_txn_look(txn, table);
    return table_info(sdb_txn_version(txn, table), out);
}

/* ---------------------------------------------------------------- the store */

void sdb_stats_read(sdb_db *db, sdb_stats *out)
{
    *out = (sdb_stats){.limit = atomic_load_explicit(&db->budget.limit, memory_order_relaxed)};
    pthread_mutex_lock(&db->mutex);
    const sdb_root *root = atomic_load(&db->root);
    out->commit = atomic_load_explicit(&root->version, memory_order_relaxed);
    out->cursors = db->n_cursors;
    memory_sum(db, &out->memory);
    for (int i = 0; i < SDB_N_COUNTERS; i++)
        out->count[i] = db->count[i];
    for (uint32_t i = 0; i < root->n; i++)
        out->tables += root->table[i] != NULL;
    for (uint32_t i = 0; i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        if (!t)
            continue;
        out->watches += atomic_load_explicit(&t->n_watches, memory_order_relaxed);
        for (int k = SDB_N_INSERTED; k < SDB_N_COUNTERS; k++)
            out->count[k] += sdb_counted(&t->count[k]);
    }
    for (const sdb_snapshot *s = db->snapshots; s; s = s->next) {
        bool is_held = atomic_load_explicit(&s->pin, memory_order_relaxed) != 0;
        out->transactions += s->kind == SNAPSHOT_OF_TXN;
        out->snapshots += is_held && s->kind != SNAPSHOT_OF_TXN;
        out->named += s->kind == SNAPSHOT_NAMED;
        out->count[SDB_N_SNAPSHOTS] += sdb_counted(&s->count);
    }
    pthread_mutex_unlock(&db->mutex);
}

/* ---------------------------------------------------------------- what is held */

/* Under the mutex: the bytes kept for a pin. A table whose owner is just sorting the dead is left out. */
static uint64_t bytes_at(const sdb_db *db, uint64_t pin)
{
    const sdb_root *root = atomic_load(&db->root);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < db->n_slots; i++)
        if (db->slot[i] && !db->slot[i]->is_settling)
            bytes += sdb_reclaim_bytes_at(&db->slot[i]->reclaim, pin);
    for (const sdb_version *v = db->old; v; v = v->next) {
        const sdb_table *t = v->table;
        bool is_dropped = !sdb_root_version(root, t);
        if (is_dropped && v->born <= pin && pin < v->died)
            bytes += sdb_counted(&t->arena.live) - sdb_reclaim_bytes_at(&t->reclaim, pin);
    }
    return bytes;
}

/* The list that is handed out when the mutex is free again: infos, and behind them their names. */
typedef struct list {
    size_t n, names; /* so many, with so many bytes of names */
    void *at;
    char *name;
} list;

static size_t name_size(const char *name)
{
    return name ? strlen(name) + 1 : 0;
}

static int list_new(list *l, size_t size)
{
    l->at = l->n ? sdb_malloc(l->n * size + l->names) : NULL;
    l->name = l->n ? (char *)l->at + l->n * size : NULL;
    return l->n && !l->at ? SDB_NOMEM : SDB_OK;
}

static const char *list_name(list *l, const char *name)
{
    char *to = l->name;
    size_t n = name_size(name);
    if (n)
        memcpy(to, name, n);
    l->name += n;
    return n ? to : NULL;
}

static const char *snapshot_name(const sdb_snapshot *s)
{
    return s->kind == SNAPSHOT_NAMED ? ((const sdb_named *)(const void *)s)->name : NULL;
}

static uint64_t snapshot_txn(const sdb_snapshot *s)
{
    const char *txn = (const char *)s - offsetof(sdb_txn, base);
    return s->kind == SNAPSHOT_OF_TXN ? ((const sdb_txn *)(const void *)txn)->id : 0;
}

static sdb_snapshot_info held_info(const sdb_db *db, uint64_t pin, int64_t since)
{
    int64_t now = sdb_now_roughly();
    return (sdb_snapshot_info){.commit = pin,
                               .age_ms = since < now ? (now - since) / 1000000 : 0,
                               .bytes = bytes_at(db, pin)};
}

int sdb_snapshot_each(sdb_db *db, void (*each)(void *ctx, const sdb_snapshot_info *info), void *ctx)
{
    list l = {0};
    size_t n = 0;
    pthread_mutex_lock(&db->mutex);
    for (const sdb_snapshot *s = db->snapshots; s; s = s->next, l.n++)
        l.names += name_size(snapshot_name(s));
    for (const sdb_hold *h = db->holds.next; h != &db->holds; h = h->next)
        l.n++;
    sdb_snapshot_info *info;
    int rc = list_new(&l, sizeof *info);
    info = l.at;
    for (const sdb_snapshot *s = db->snapshots; info && s; s = s->next) {
        uint64_t pin = atomic_load_explicit(&s->pin, memory_order_acquire);
        if (!pin)
            continue;
        info[n] = held_info(db, pin, atomic_load_explicit(&s->since, memory_order_relaxed));
        info[n].name = list_name(&l, snapshot_name(s));
        info[n++].txn = snapshot_txn(s);
    }
    for (const sdb_hold *h = db->holds.next; info && h != &db->holds; h = h->next)
        info[n++] = held_info(db, h->stamp, h->since);
    pthread_mutex_unlock(&db->mutex);
    for (size_t i = 0; i < n; i++)
        each(ctx, &info[i]);
    sdb_free(l.at);
    return rc;
}

/* ---------------------------------------------------------------- locks */

static const sdb_txn *owner_of(const sdb_table *t)
{
    return t ? atomic_load_explicit(&t->owner, memory_order_relaxed) : NULL;
}

/* Under the mutex, of a table that is there or just being made. */
static const char *table_name(const sdb_root *root, const sdb_table *t)
{
    const sdb_version *v = sdb_root_version(root, t);
    return v ? v->name : t->names->text;
}

int sdb_lock_each(sdb_db *db, void (*each)(void *ctx, const sdb_lock_info *info), void *ctx)
{
    list l = {0};
    size_t n = 0;
    pthread_mutex_lock(&db->mutex);
    const sdb_root *root = atomic_load(&db->root);
    for (uint32_t i = 0; i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        if (!owner_of(t))
            continue;
        l.n++;
        l.names += name_size(table_name(root, t));
        for (const sdb_txn *w = t->waiting; w; w = w->next_waiting)
            l.n++;
    }
    sdb_lock_info *info;
    int rc = list_new(&l, sizeof *info);
    info = l.at;
    for (uint32_t i = 0; info && i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        const sdb_txn *owner = owner_of(t);
        if (!owner)
            continue;
        int64_t since = atomic_load_explicit(&owner->base.since, memory_order_relaxed);
        const char *name = list_name(&l, table_name(root, t));
        info[n++] = (sdb_lock_info){
            .table = name, .txn = owner->id, .ms = (sdb_now_roughly() - since) / 1000000};
        for (const sdb_txn *w = t->waiting; w; w = w->next_waiting)
            info[n++] = (sdb_lock_info){.table = name,
                                        .txn = w->id,
                                        .is_waiting = true,
                                        .ms = (sdb_now() - w->waits_since) / 1000000};
    }
    pthread_mutex_unlock(&db->mutex);
    for (size_t i = 0; i < n; i++)
        each(ctx, &info[i]);
    sdb_free(l.at);
    return rc;
}
