/* snapshot.c - holding a moment of the store: pins, and the list of all of them (see db.h). */
#include "db.h"

#include "mem.h"
#include "wait.h"

#include <assert.h>
#include <stdlib.h>

void sdb_snapshot_link(sdb_db *db, sdb_snapshot *snap, sdb_snapshot_kind kind)
{
    snap->db = db;
    snap->kind = kind;
    atomic_store_explicit(&snap->count, 0, memory_order_relaxed);
    snap->prev = NULL;
    snap->next = db->snapshots;
    if (snap->next)
        snap->next->prev = snap;
    db->snapshots = snap;
    db->n_snapshots++;
}

void sdb_snapshot_unlink(sdb_snapshot *snap)
{
    sdb_db *db = snap->db;
    if (snap->prev)
        snap->prev->next = snap->next;
    else
        db->snapshots = snap->next;
    if (snap->next)
        snap->next->prev = snap->prev;
    db->n_snapshots--;
    db->count[SDB_N_SNAPSHOTS] += sdb_counted(&snap->count);
}

static void taken(sdb_snapshot *snap)
{
    atomic_store_explicit(&snap->since, sdb_now_roughly(), memory_order_relaxed);
    sdb_count(&snap->count, 1);
}

/* The other one keeps it, and no commit looks at pins now: nothing to check again. */
void sdb_snapshot_copy(sdb_snapshot *snap, const sdb_snapshot *of)
{
    taken(snap);
    atomic_store(&snap->pin, atomic_load(&of->pin));
    snap->root = of->root;
}

int sdb_snapshot_new(sdb_db *db, sdb_snapshot **out)
{
    sdb_snapshot *snap = sdb_zalloc(sizeof *snap);
    if (!snap)
        return SDB_NOMEM;
    pthread_mutex_lock(&db->mutex);
    sdb_snapshot_link(db, snap, SNAPSHOT_PLAIN);
    pthread_mutex_unlock(&db->mutex);
    sdb_ref(db);
    *out = snap;
    return SDB_OK;
}

void sdb_snapshot_free(sdb_snapshot *snap)
{
    if (!snap)
        return;
    sdb_snapshot_drop(snap);
    sdb_db *db = snap->db;
    pthread_mutex_lock(&db->mutex);
    sdb_snapshot_unlink(snap);
    pthread_mutex_unlock(&db->mutex);
    sdb_free(snap);
    sdb_unref(db);
}

void sdb_snapshot_take(sdb_snapshot *snap)
{
    sdb_db *db = snap->db;
    sdb_snapshot_drop(snap);
    taken(snap);
    for (;;) {
        sdb_root *root = atomic_load_explicit(&db->root, memory_order_acquire);
        uint64_t version = atomic_load_explicit(&root->version, memory_order_acquire);
        /* seq_cst, with the commit's store of root and load of pins (txn.c: txn_publish) */
        atomic_store(&snap->pin, version);
        if (atomic_load(&db->root) == root &&
            atomic_load_explicit(&root->version, memory_order_acquire) == version) {
            snap->root = root;
            return;
        }
    }
}

void sdb_snapshot_renew(sdb_snapshot *snap)
{
    assert(snap->root);
    snap->root = atomic_load(&snap->db->root);
    atomic_store(&snap->pin, atomic_load_explicit(&snap->root->version, memory_order_relaxed));
}

void sdb_snapshot_drop(sdb_snapshot *snap)
{
    if (!snap->root)
        return;
    snap->root = NULL;
    /* release: all reading through the pin is over before a commit finds it gone */
    atomic_store_explicit(&snap->pin, 0, memory_order_release);
    if (atomic_load_explicit(&snap->db->n_waiting, memory_order_relaxed))
        sdb_reclaim_all(snap->db);
}

bool sdb_snapshot_held(const sdb_snapshot *snap)
{
    return snap->root != NULL;
}

uint64_t sdb_snapshot_commit(const sdb_snapshot *snap)
{
    return snap->root ? atomic_load_explicit(&snap->root->version, memory_order_relaxed) : 0;
}

sdb_table *sdb_snapshot_table(const sdb_snapshot *snap, const char *name)
{
    for (uint32_t i = 0; snap->root && i < snap->root->n; i++) {
        const sdb_version *v = snap->root->table[i];
        if (v && sdb_name_is(v->name, name))
            return v->table;
    }
    return NULL;
}

const char *sdb_snapshot_name(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    return v ? v->name : NULL;
}

uint64_t sdb_snapshot_count(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    return v ? sdb_version_count(v) : 0;
}

uint64_t sdb_snapshot_revision(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    return v ? v->revision : 0;
}

static const sdb_indexes *snapshot_set(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    return v ? v->set : NULL;
}

int sdb_snapshot_indexes(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_indexes *set = snapshot_set(snap, table);
    return set ? set->n - 1 : 0;
}

const sdb_index_def *sdb_snapshot_index(const sdb_snapshot *snap, const sdb_table *table, int index)
{
    return sdb_indexes_def(snapshot_set(snap, table), index);
}

uint64_t sdb_snapshot_indexes_id(const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_indexes *set = snapshot_set(snap, table);
    return set ? set->id : 0;
}

/* ---------------------------------------------------------------- all pins */

int sdb_pins_reserve(sdb_db *db, sdb_pins *pins)
{
    size_t want = (size_t)db->n_snapshots + db->n_cursors;
    if (pins->room >= want)
        return SDB_OK;
    want += want / 2 + 8; /* there may be more when it comes to it */
    uint64_t *at = sdb_realloc(pins->at, want * sizeof *at);
    if (!at)
        return SDB_NOMEM;
    pins->at = at;
    pins->room = want;
    return SDB_OK;
}

static int pin_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void pin_add(sdb_pins *pins, uint64_t pin)
{
    if (!pin || (pins->n && pins->at[pins->n - 1] == pin))
        return;
    if (pins->n == pins->room)
        pins->is_short = true;
    else
        pins->at[pins->n++] = pin;
}

void sdb_pins_collect(sdb_db *db, sdb_pins *pins)
{
    pins->n = 0;
    pins->is_short = false;
    for (const sdb_snapshot *s = db->snapshots; s; s = s->next)
        pin_add(pins, atomic_load(&s->pin)); /* seq_cst: pairs with sdb_snapshot_take */
    for (const sdb_hold *h = db->holds.next; h != &db->holds; h = h->next)
        pin_add(pins, h->stamp);
    if (pins->n < 2)
        return;
    qsort(pins->at, pins->n, sizeof *pins->at, pin_compare);
    size_t n = 1;
    for (size_t i = 1; i < pins->n; i++)
        if (pins->at[i] != pins->at[n - 1])
            pins->at[n++] = pins->at[i];
    pins->n = n;
}
