/* db.c - stores: opening, closing, the root's upkeep (see db.h). */
#include "db.h"

#include "mem.h"

#include <assert.h>
#include <stdlib.h>

const char *sdb_errmsg(int rc)
{
    switch (rc) {
    case SDB_OK:
        return "done";
    case SDB_DONE:
        return "there is no such row, or no further one";
    case SDB_CHANGED:
        return "the row has changed since it was read: read it again";
    case SDB_EXISTS:
        return "another row, table or index holds that key or name";
    case SDB_DUPLICATE:
        return "two rows hold the same key of an index that is to be unique";
    case SDB_NOMEM:
        return "out of memory";
    case SDB_FULL:
        return "the store is full: its memory limit, or the 16 GiB a table can address, is used up";
    case SDB_BUSY:
        return "another transaction is writing the table";
    case SDB_STALE:
        return "the table has changed since this transaction began: roll back and try again";
    case SDB_TOOBIG:
        return "a row, key or name is longer than can be stored";
    case SDB_MISUSE:
        return "the call does not fit the state of its object";
    case SDB_DEADLOCK:
        return "transactions wait for each other's tables in a circle: roll this one back";
    case SDB_INTERRUPTED:
        return "interrupted";
    case SDB_NOTPREFIX:
        return "the value is not a prefix of an IP or MAC address, nor of a bit string";
    case SDB_NOTSET:
        return "the value is not one that the index's extractor can take keys from";
    default:
        return "unknown result code";
    }
}

/* ---------------------------------------------------------------- open and close */

int sdb_open(sdb_db **out)
{
    sdb_db *db = sdb_zalloc(sizeof *db);
    if (!db)
        return SDB_NOMEM;
    if (pthread_mutex_init(&db->mutex, NULL) != 0 ||
        pthread_mutex_init(&db->watch_mutex, NULL) != 0) {
        sdb_free(db);
        return SDB_NOMEM;
    }
    hold_init(&db->holds);
    db->n_ref = 1;
    sdb_root *root = sdb_root_new(db);
    if (!root) {
        sdb_unref(db);
        return SDB_NOMEM;
    }
    root->version = sdb_tick(db);
    atomic_store(&db->root, root);
    *out = db;
    return SDB_OK;
}

sdb_db *sdb_ref(sdb_db *db)
{
    atomic_fetch_add_explicit(&db->n_ref, 1, memory_order_relaxed);
    return db;
}

static void root_free(sdb_root *root)
{
    while (root) {
        sdb_root *next = root->next;
        sdb_free(root->table);
        sdb_free(root);
        root = next;
    }
}

/* The last version of a dropped table takes its rows with it: nobody can see them. */
static void version_free(sdb_db *db, sdb_version *v)
{
    sdb_table *t = v->table;
    if (t->idle)
        sdb_version_free(v);
    else
        t->idle = v;
    if (--t->n_versions == 0) {
        for (int i = SDB_N_INSERTED; i < SDB_N_COUNTERS; i++) /* its transactions the store has counted */
            db->count[i] += sdb_counted(&t->count[i]);
        db->slot[t->slot] = NULL;
        sdb_arena_fini(&t->arena);
        sdb_table_unref(t);
    }
}

void sdb_unref(sdb_db *db)
{
    /* acq_rel: whoever frees it has seen all that the others did with it */
    if (!db || atomic_fetch_sub_explicit(&db->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_lock(&db->mutex);
    bool is_last = db->n_txns == 0;
    db->is_closed = true;
    pthread_mutex_unlock(&db->mutex);
    if (is_last)
        sdb_db_free(db);
}

void sdb_db_free(sdb_db *db)
{
    sdb_named_free(db);
    assert(!db->snapshots && db->holds.next == &db->holds && !db->prepared);
    sdb_root *root = atomic_load(&db->root);
    for (uint32_t i = 0; root && i < root->n; i++)
        if (root->table[i])
            version_free(db, root->table[i]);
    while (db->old) {
        sdb_version *v = db->old;
        db->old = v->next;
        version_free(db, v);
    }
    root_free(db->retired);
    root_free(db->idle_roots);
    root_free(root);
    sdb_txn_free(db->idle_txns);
    pthread_mutex_destroy(&db->mutex);
    pthread_mutex_destroy(&db->watch_mutex);
    sdb_free(db->slot);
    sdb_free(db);
}

void sdb_set_limit(sdb_db *db, uint64_t bytes)
{
    atomic_store_explicit(&db->budget.limit, bytes, memory_order_relaxed);
}

/* ---------------------------------------------------------------- roots */

sdb_root *sdb_root_new(sdb_db *db)
{
    sdb_root *root = db->idle_roots;
    if (root)
        db->idle_roots = root->next;
    else
        root = sdb_zalloc(sizeof *root);
    if (!root)
        return NULL;
    root->next = NULL;
    if (root->room < db->n_slots || !root->table) {
        uint32_t room = db->n_slots < 4 ? 4 : db->n_slots;
        sdb_version **table = sdb_realloc(root->table, room * sizeof *table);
        if (!table) {
            sdb_root_idle(db, root);
            return NULL;
        }
        root->table = table;
        root->room = room;
    }
    root->n = db->n_slots;
    return root;
}

void sdb_root_idle(sdb_db *db, sdb_root *root)
{
    root->next = db->idle_roots;
    db->idle_roots = root;
}

/* Roots are seen by pins of just their version; versions of a table by all pins of its life. */
void sdb_old_run(sdb_db *db, const sdb_pins *pins)
{
    for (sdb_root **p = &db->retired; *p;) {
        sdb_root *root = *p;
        uint64_t version = atomic_load_explicit(&root->version, memory_order_relaxed);
        if (sdb_pins_within(pins, version, root->died)) {
            p = &root->next;
            continue;
        }
        *p = root->next;
        sdb_root_idle(db, root);
    }
    for (sdb_version **p = &db->old; *p;) {
        sdb_version *v = *p;
        if (sdb_pins_within(pins, v->born, v->died)) {
            p = &v->next;
            continue;
        }
        *p = v->next;
        version_free(db, v);
    }
    sdb_waits(db, &db->is_waiting, db->old != NULL);
}

void sdb_waits(sdb_db *db, bool *is_waiting, bool waits)
{
    if (waits != *is_waiting)
        atomic_fetch_add_explicit(&db->n_waiting, waits ? 1u : -1u, memory_order_relaxed);
    *is_waiting = waits;
}
