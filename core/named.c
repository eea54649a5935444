/* named.c - snapshots that the store keeps by name (see statedb.h). */
#include "db.h"

#include "mem.h"

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
    if (of && (of->db != db || !of->root))
        return SDB_MISUSE;
    sdb_named *named = sdb_zalloc(sizeof *named + n);
    if (!named)
        return SDB_NOMEM;
    memcpy(named->name, name, n);
    pthread_mutex_lock(&db->mutex);
    int rc = *named_find(db, name) ? SDB_EXISTS : SDB_OK;
    if (rc == SDB_OK) {
        sdb_snapshot_link(db, &named->snap, SNAPSHOT_NAMED);
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
