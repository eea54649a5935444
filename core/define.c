/* define.c - creating, dropping and renaming tables and indexes in a transaction (see statedb.h). */
#include "txn.h"

#include "lpm_index.h"
#include "mem.h"
#include "multi_index.h"
#include "watch.h"

/* ---------------------------------------------------------------- tables */

sdb_table *sdb_txn_table(sdb_txn *txn, const char *name)
{
    for (uint32_t i = 0; i < txn->n_table; i++)
        if (txn->table[i] && sdb_name_is(txn->table[i]->name, name))
            return txn->table[i]->table;
    return NULL;
}

const char *sdb_txn_name(const sdb_txn *txn, const sdb_table *table)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    return v ? v->name : NULL;
}

uint64_t sdb_txn_count(sdb_txn *txn, const sdb_table *table)
{
    sdb_txn_look(txn, table);
    const sdb_version *v = sdb_txn_version(txn, table);
    return v ? sdb_version_count(v) : 0;
}

uint64_t sdb_txn_revision(sdb_txn *txn, const sdb_table *table)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    sdb_txn_look(txn, table);
    return v ? v->revision : 0;
}

/* Under the mutex: whether a name is free, in this transaction's eyes and in everybody's. The table
** `except` may have it. */
static int name_check(const sdb_txn *txn, const char *name, const sdb_table *except)
{
    const sdb_db *db = txn->db;
    const sdb_root *root = atomic_load(&db->root);
    for (uint32_t i = 0; i < db->n_slots; i++) {
        const sdb_table *t = db->slot[i];
        if (!t || t == except)
            continue;
        const sdb_version *mine = sdb_txn_version(txn, t), *newest = sdb_root_version(root, t);
        const sdb_txn *owner = atomic_load_explicit(&t->owner, memory_order_relaxed);
        if (mine && sdb_name_is(mine->name, name))
            return SDB_EXISTS;
        if (owner != txn && owner && sdb_name_is(t->names->text, name))
            return SDB_BUSY; /* somebody is just making it */
        if (owner != txn && newest && newest != mine && sdb_name_is(newest->name, name))
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
    if (!sdb_txn_is_open(txn))
        return SDB_MISUSE;
    int rc = sdb_table_new(db, &db->budget, def, &table, &v);
    if (rc != SDB_OK)
        return rc;
    sdb_work *w = sdb_work_new(txn, table);
    rc = w ? SDB_OK : SDB_NOMEM;
    pthread_mutex_lock(&db->mutex);
    if (rc == SDB_OK)
        rc = name_check(txn, def->name, NULL);
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
    rc = name_check(txn, name, table);
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
    int rc = !wide.now ? SDB_NOMEM : w->n_spare ? sdb_spares_fill(txn, &wide) : SDB_OK;
    if (rc != SDB_OK) {
        sdb_spares_free(&wide);
        sdb_version_free(wide.now);
        return rc;
    }
    sdb_version_copy(wide.now, w->now);
    sdb_spares_free(w);
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
        sdb_indexes_add(set, sdb_index_ref(w->now->set->at[i]));
    sdb_index *index = set ? sdb_index_new(def, table->n_columns, table->rowid_column) : NULL;
    if (index)
        sdb_indexes_add(set, index);
    sdb_link root;
    w->edit.stop = &txn->stop;
    if (rc == SDB_OK)
        rc = index ? sdb_version_build(w->now, &w->edit, index, &root) : SDB_NOMEM;
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
    uint8_t kind = v->set->at[index]->def.kind;
    rc = kind == SDB_LPM     ? sdb_lpm_index_retire(&w->edit, v->root[index])
         : kind == SDB_MULTI ? sdb_multi_retire(v, &w->edit, index)
                             : sdb_radix_retire(&w->edit, v->root[index]);
    if (rc != SDB_OK) {
        sdb_indexes_unref(set);
        return rc;
    }
    sdb_watch_touch_index(table, v->set->at[index]);
    for (int i = 0; i < n; i++)
        if (i != index)
            sdb_indexes_add(set, sdb_index_ref(v->set->at[i]));
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
    return sdb_indexes_def(txn_set(txn, table), index);
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
