/* stage.c - writing rows in a transaction: stage, clash, put, delete (see statedb.h). */
#include "txn.h"

#include "key.h"

#include <assert.h>

const sdb_row *sdb_txn_get(sdb_txn *txn, sdb_table *table, int64_t rowid)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    sdb_txn_look(txn, table);
    if (txn->found && txn->found_in == table && v && txn->found->rowid == rowid)
        return txn->found;
    txn->found_in = table;
    return txn->found = v ? sdb_version_get(v, rowid) : NULL;
}

int sdb_txn_last_rowid(sdb_txn *txn, sdb_table *table, int64_t *out)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    if (!v)
        return SDB_MISUSE;
    sdb_txn_look(txn, table);
    sdb_link last = sdb_radix_last(table->arena.base, v->root[SDB_BY_ROWID]);
    if (!last)
        return SDB_DONE;
    *out = sdb_row_at(table, last)->rowid;
    return SDB_OK;
}

int64_t sdb_txn_sequence(sdb_txn *txn, const sdb_table *table)
{
    const sdb_version *v = sdb_txn_version(txn, table);
    sdb_txn_look(txn, table);
    return v ? v->sequence : 0;
}

int sdb_txn_set_sequence(sdb_txn *txn, sdb_table *table, int64_t value)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc == SDB_OK)
        w->now->sequence = value;
    return rc;
}

/* ---------------------------------------------------------------- stage */

void sdb_stage_drop(sdb_txn *txn)
{
    if (txn->staged_table)
        sdb_object_free(txn->staged_table, txn->staged);
    txn->staged_table = NULL;
}

static bool are_values(const sdb_table *t, const sdb_value *values)
{
    bool are = true;
    for (int i = 0; i < t->n_columns; i++)
        are &= values[i].type <= SDB_BLOB || i == t->rowid_column;
    return are;
}

/* The row, without its keys. */
static int row_stage(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values)
{
    if (!are_values(table, values))
        return SDB_MISUSE;
    size_t size = sdb_row_measure(values, table->n_columns, table->rowid_column);
    if (size == 0)
        return SDB_TOOBIG;
    int rc = sdb_arena_alloc(&table->arena, size, &txn->staged);
    if (rc != SDB_OK)
        return rc;
    sdb_row_build(sdb_at(table->arena.base, txn->staged), size, rowid, values, table->n_columns,
                  table->rowid_column);
    txn->staged_table = table;
    txn->staged_clear = 0;
    txn->staged_except = NULL;
    txn->places.is_known = 0;
    return SDB_OK;
}

/* Ask for what the keys of a row lead to in these indexes, lest the change wait for each in its turn. (Not by
** rowid: rows are mostly written in that order, or have been read before.) */
static void keys_expect(const sdb_work *w, const sdb_keys *keys, uint64_t indexes)
{
    const sdb_version *v = w->now;
    for (int i = SDB_BY_ROWID + 1; i < v->set->n; i++) {
        size_t len;
        if (!(indexes >> i & 1) || v->set->at[i]->def.kind != SDB_RADIX)
            continue;
        const uint8_t *key = sdb_key_at(keys, i, &len);
        sdb_radix_expect(w->table->arena.base, v->root[i], key, len);
    }
}

int sdb_stage(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values)
{
    sdb_work *w;
    sdb_stage_drop(txn);
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc == SDB_OK)
        rc = sdb_keys_of_values(&txn->keys, w->now->set, rowid, values);
    if (rc != SDB_OK)
        return rc;
    keys_expect(w, &txn->keys, sdb_indexes_all(w->now->set));
    return row_stage(txn, table, rowid, values);
}

const sdb_row *sdb_stage_clash(sdb_txn *txn, int index, const sdb_row *except)
{
    const sdb_table *t = txn->staged_table;
    const sdb_version *v = t ? sdb_txn_version(txn, t) : NULL;
    if (!v || index < 0 || index >= v->set->n)
        return NULL;
    if (except != txn->staged_except) {
        txn->staged_clear = 0;
        txn->staged_except = except;
    }
    const sdb_row *row = NULL, *staged = sdb_at(t->arena.base, txn->staged);
    if (index == SDB_BY_ROWID && except && except->rowid == staged->rowid)
        ; /* a rowid is there once, and it is that row's */
    else if (!(txn->keys.is_free >> index & 1))
        row = sdb_version_find(v, index, &txn->keys, except, &txn->places);
    if (row == except)
        row = NULL;
    if (!row)
        txn->staged_clear |= (uint64_t)1 << index;
    return row;
}

/* Whether a row is in the table as the transaction sees it. */
static bool is_there(const sdb_txn *txn, const sdb_work *w, const sdb_row *row)
{
    return (row == txn->found && w->table == txn->found_in) ||
           sdb_version_get(w->now, row->rowid) == row;
}

/* Whether an index has a row in the way of the staged one. Where the key is that of the row which it
** replaces there is none. */
static bool stage_clashes(sdb_txn *txn, const sdb_indexes *set, const sdb_row *old, uint64_t is_same)
{
    if (old != txn->staged_except)
        txn->staged_clear = 0;
    uint64_t left = sdb_indexes_all(set) & ~(txn->staged_clear | txn->keys.is_free | is_same);
    for (int i = 0; left; i++, left >>= 1)
        if (left & 1 && sdb_stage_clash(txn, i, old))
            return true;
    return false;
}

/* Put the staged row into the indexes in place of `old`. */
static int staged_change(sdb_txn *txn, sdb_work *w, const sdb_row *old, uint64_t is_same)
{
    sdb_version *v = w->now;
    sdb_row *row = sdb_at(w->table->arena.base, txn->staged);
    sdb_link grave = 0;
    int rc = old ? sdb_keys_of_row(&txn->old_keys, v->set, old, is_same) : SDB_OK;
    if (rc != SDB_OK)
        return rc;
    if (old)
        keys_expect(w, &txn->old_keys, ~is_same);
    if (stage_clashes(txn, v->set, old, is_same))
        return SDB_EXISTS;
    if (v->history.feeds && old && old->rowid != row->rowid) { /* a deletion, to a feed */
        rc = sdb_grave_new(v, &w->edit, old, v->revision + 1, &grave);
        if (rc != SDB_OK)
            return rc;
    }
    row->revision = v->revision + 1 + (grave != 0);
    rc = sdb_keys_set_revision(&txn->keys, v->set, row);
    if (rc == SDB_OK)
        rc = sdb_version_reserve(v, &w->edit, &txn->keys, old ? &txn->old_keys : NULL, true);
    if (rc != SDB_OK) {
        if (grave)
            sdb_object_free(w->table, grave);
        return rc;
    }
    v->revision = row->revision;
    sdb_row_set_stamp(row, txn->stamp);
    sdb_version_change(v, &w->edit, row, &txn->keys, &txn->places, old, &txn->old_keys, grave);
    return SDB_OK;
}

/* The keys of the row to be. */
static int keys_make(sdb_txn *txn, const sdb_work *w, const sdb_row *old, int64_t rowid,
                     const sdb_value *values)
{
    int rc = sdb_keys_of_values(&txn->keys, w->now->set, rowid, values);
    if (rc == SDB_OK && old) /* a new row waits for one node in an index, and asking costs it more than that */
        keys_expect(w, &txn->keys, sdb_indexes_all(w->now->set));
    return rc;
}

/* Make `old` what the staged row is, or where it has to stay as it is put that in its place. The keys are
** made now if they are not there, for which `values` are those of the row. */
static int staged_put(sdb_txn *txn, sdb_work *w, const sdb_row *old, const sdb_value *values)
{
    sdb_version *v = w->now;
    sdb_row *row = sdb_at(w->table->arena.base, txn->staged);
    uint64_t is_same = old ? sdb_keys_same(v->set, old, row) : 0;
    int rc = SDB_OK;
    row->revision = v->revision + 1;
    if (old && sdb_version_overwrite(v, &w->edit, row, old, is_same)) {
        v->revision++;
    } else {
        if (values)
            rc = keys_make(txn, w, old, row->rowid, values);
        if (rc == SDB_OK)
            rc = staged_change(txn, w, old, is_same);
    }
    if (rc == SDB_OK) {
        txn->found = NULL;
        txn->staged_table = NULL;
    } else if (rc != SDB_EXISTS) {
        sdb_stage_drop(txn);
    }
    return rc;
}

int sdb_stage_put(sdb_txn *txn, const sdb_row *old)
{
    sdb_table *t = txn->staged_table;
    sdb_work *w;
    if (!t)
        return SDB_MISUSE;
    int rc = sdb_txn_open_work(txn, t, &w);
    if (rc == SDB_OK && old && !is_there(txn, w, old))
        rc = SDB_MISUSE;
    if (rc == SDB_OK)
        return staged_put(txn, w, old, NULL);
    sdb_stage_drop(txn);
    return rc;
}

int sdb_put_over(sdb_txn *txn, sdb_table *table, const sdb_row *old, int64_t rowid,
                 const sdb_value *values)
{
    sdb_work *w;
    sdb_stage_drop(txn);
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc == SDB_OK && old && !is_there(txn, w, old))
        rc = SDB_MISUSE;
    bool may_stay = rc == SDB_OK && old && sdb_row_stamp(old) > w->edit.floor; /* and need no keys */
    if (rc == SDB_OK && !may_stay)
        rc = keys_make(txn, w, old, rowid, values);
    if (rc == SDB_OK)
        rc = row_stage(txn, table, rowid, values);
    return rc == SDB_OK ? staged_put(txn, w, old, may_stay ? values : NULL) : rc;
}

int sdb_put(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values)
{
    int rc = sdb_stage(txn, table, rowid, values);
    if (rc != SDB_OK)
        return rc;
    txn->found_in = table;
    txn->found = sdb_stage_clash(txn, SDB_BY_ROWID, NULL);
    rc = sdb_stage_put(txn, txn->found);
    sdb_stage_drop(txn); /* it is still there where another row was in the way */
    return rc;
}

int sdb_delete(sdb_txn *txn, sdb_table *table, const sdb_row *row)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    if (!is_there(txn, w, row))
        return SDB_MISUSE;
    rc = sdb_keys_of_row(&txn->old_keys, w->now->set, row, 0);
    sdb_link grave = 0;
    if (rc == SDB_OK)
        keys_expect(w, &txn->old_keys, sdb_indexes_all(w->now->set));
    if (rc == SDB_OK && w->now->history.feeds)
        rc = sdb_grave_new(w->now, &w->edit, row, w->now->revision + 1, &grave);
    if (rc != SDB_OK)
        return rc;
    rc = sdb_version_reserve(w->now, &w->edit, NULL, &txn->old_keys, false);
    if (rc != SDB_OK) {
        if (grave)
            sdb_object_free(table, grave);
        return rc;
    }
    w->now->revision++;
    sdb_version_change(w->now, &w->edit, NULL, NULL, NULL, row, &txn->old_keys, grave);
    txn->places.is_known = 0;
    txn->found = NULL;
    if (txn->staged_except == row)
        txn->staged_except = NULL; /* its memory may be another row soon */
    return SDB_OK;
}
