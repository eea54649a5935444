/* named.c - snapshots that the store keeps by name, and what all snapshots cost (see statedb.h). */
#include "db.h"

#include "mem.h"
#include "wait.h"

/* A snapshot of the store's own. */
typedef struct sdb_named {
    sdb_snapshot snap; /* in the store's list like any other */
    struct sdb_named *next;
    int64_t since; /* of the clock of wait.h */
    char name[];
} sdb_named;

static sdb_named **named_find(sdb_db *db, const char *name)
{
    sdb_named **p = &db->named;
    while (*p && strcmp((*p)->name, name) != 0)
        p = &(*p)->next;
    return p;
}

int sdb_snapshot_save(sdb_db *db, const char *name, const sdb_snapshot *of)
{
    size_t n = strlen(name) + 1;
    if (n > SDB_MAX_NAME)
        return SDB_TOOBIG;
    if (of && !of->root)
        return SDB_MISUSE;
    sdb_named *named = sdb_zalloc(sizeof *named + n);
    if (!named)
        return SDB_NOMEM;
    memcpy(named->name, name, n);
    named->since = sdb_now();
    pthread_mutex_lock(&db->mutex);
    int rc = *named_find(db, name) ? SDB_EXISTS : SDB_OK;
    if (rc == SDB_OK) {
        sdb_snapshot_link(db, &named->snap);
        if (of)
            sdb_snapshot_copy(&named->snap, of);
        else
            sdb_snapshot_take(&named->snap);
        named->next = db->named;
        db->named = named;
    }
    pthread_mutex_unlock(&db->mutex);
    if (rc != SDB_OK)
        sdb_free(named);
    return rc;
}

int sdb_snapshot_load(sdb_snapshot *snap, const char *name)
{
    sdb_db *db = snap->db;
    sdb_snapshot_drop(snap);
    pthread_mutex_lock(&db->mutex);
    const sdb_named *named = *named_find(db, name);
    if (named)
        sdb_snapshot_copy(snap, &named->snap);
    pthread_mutex_unlock(&db->mutex);
    return named ? SDB_OK : SDB_DONE;
}

int sdb_snapshot_forget(sdb_db *db, const char *name)
{
    pthread_mutex_lock(&db->mutex);
    sdb_named **p = named_find(db, name), *named = *p;
    if (named) {
        *p = named->next;
        sdb_snapshot_unlink(&named->snap);
    }
    pthread_mutex_unlock(&db->mutex);
    if (!named)
        return SDB_DONE;
    sdb_snapshot_drop(&named->snap); /* collects what it has kept, by itself off the list */
    sdb_free(named);
    return SDB_OK;
}

void sdb_named_free(sdb_db *db)
{
    while (db->named) {
        sdb_named *named = db->named;
        db->named = named->next;
        named->snap.root = NULL;
        sdb_snapshot_unlink(&named->snap);
        sdb_free(named);
    }
}

/* Bytes that wait at a pin in the tables of the newest root. */
static uint64_t bytes_at(const sdb_root *root, uint64_t pin)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < root->n; i++) {
        const sdb_version *v = root->table[i];
        if (v && !atomic_load_explicit(&v->table->owner, memory_order_relaxed))
            bytes += sdb_reclaim_bytes_at(&v->table->reclaim, pin);
    }
    return bytes;
}

void sdb_snapshot_each(sdb_db *db, void (*each)(void *ctx, const sdb_snapshot_info *info), void *ctx)
{
    int64_t now = sdb_now();
    pthread_mutex_lock(&db->mutex);
    const sdb_root *root = atomic_load(&db->root);
    for (const sdb_named *named = db->named; named; named = named->next) {
        uint64_t pin = atomic_load_explicit(&named->snap.pin, memory_order_relaxed);
        sdb_snapshot_info info = {.name = named->name,
                                  .age_ms = (now - named->since) / 1000000,
                                  .bytes = bytes_at(root, pin)};
        each(ctx, &info);
    }
    pthread_mutex_unlock(&db->mutex);
}
