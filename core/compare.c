/* compare.c - changes that depend on what is there: compare and put, modify, delete all. */
#include "txn.h"

#include "mem.h"

/* Lock the table and find the row, if it is as expected. The lock comes first: it may make the
** transaction see a newer version, and no answer holds without it. */
static int row_expect(sdb_txn *txn, sdb_table *table, int64_t rowid, uint64_t revision,
                      const sdb_row **out)
{
    int rc = sdb_txn_lock(txn, table);
    if (rc != SDB_OK)
        return rc;
    const sdb_row *row = *out = sdb_txn_get(txn, table, rowid);
    if (!row)
        return revision == SDB_ABSENT ? SDB_OK : SDB_DONE;
    return row->revision == revision ? SDB_OK : SDB_CHANGED;
}

static int row_replace(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values,
                       const sdb_row *old)
{
    int rc = sdb_put_over(txn, table, old, rowid, values);
    sdb_stage_drop(txn); /* it is still there where another row was in the way */
    return rc;
}

int sdb_put_if(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values,
               uint64_t revision)
{
    const sdb_row *row;
    int rc = row_expect(txn, table, rowid, revision, &row);
    return rc == SDB_OK ? row_replace(txn, table, rowid, values, row) : rc;
}

int sdb_delete_if(sdb_txn *txn, sdb_table *table, int64_t rowid, uint64_t revision)
{
    const sdb_row *row;
    int rc = row_expect(txn, table, rowid, revision, &row);
    if (rc == SDB_OK)
        rc = row ? sdb_delete(txn, table, row) : SDB_DONE;
    return rc;
}

int sdb_modify(sdb_txn *txn, sdb_table *table, int64_t rowid, sdb_modify_fn *fn, void *ctx)
{
    int rc = sdb_txn_lock(txn, table);
    if (rc != SDB_OK)
        return rc;
    sdb_value own[32], *values = own;
    if (table->n_columns > (int)(sizeof own / sizeof *own))
        values = sdb_malloc((size_t)table->n_columns * sizeof *values);
    if (!values)
        return SDB_NOMEM;
    /* The hold keeps the row where it is, whatever the function does to the transaction. So a row
    ** at its address afterwards is that row. */
    sdb_hold hold;
    rc = sdb_txn_hold(txn, table, &hold);
    if (rc != SDB_OK)
        goto done;
    const sdb_row *old = sdb_txn_get(txn, table, rowid);
    for (int i = 0; i < table->n_columns; i++)
        values[i] = old ? sdb_row_value(table, old, i) : (sdb_value){.type = SDB_NULL};
    txn->n_calls++;
    rc = fn(ctx, old, values);
    txn->n_calls--;
    if (rc == SDB_OK && sdb_txn_get(txn, table, rowid) != old)
        rc = SDB_CHANGED;
    sdb_txn_release_hold(&hold);
    if (rc == SDB_OK)
        rc = row_replace(txn, table, rowid, values, old);
done:
    if (values != own)
        sdb_free(values);
    return rc;
}

int sdb_delete_all(sdb_txn *txn, sdb_table *table)
{
    sdb_work *w;
    int savepoint;
    sdb_stage_drop(txn);
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc == SDB_OK)
        rc = sdb_txn_savepoint(txn, &savepoint);
    if (rc != SDB_OK)
        return rc;
    /* Through the tree that the savepoint keeps. Eight bytes of key are at most eight nodes: no
    ** memory needed. */
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &w->now->set->at[SDB_BY_ROWID]->leaves, table->arena.base,
                  w->now->root[SDB_BY_ROWID]);
    uint64_t n = 0;
    rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        rc = sdb_stop_due(&txn->stop, n++) ? SDB_INTERRUPTED : SDB_OK;
        if (rc == SDB_OK)
            rc = sdb_delete(txn, table, sdb_row_at(table, it.leaf));
        if (rc == SDB_OK)
            rc = sdb_iter_next(&it);
    }
    sdb_iter_fini(&it);
    if (rc == SDB_DONE)
        rc = SDB_OK;
    else
        sdb_txn_rollback_to(txn, savepoint);
    sdb_txn_release(txn, savepoint);
    return rc;
}
