/* diff.c - what differs between two moments of a table, in time proportional to it (see statedb.h).
**
** Two versions share every subtree that no commit between them has touched. Two iterators go through
** the trees of rows side by side; wherever both stand at the same row in the same node, the whole of
** the largest node they share lies ahead the same for both, and both leave it in one step. */
#include "txn.h"

#include "mem.h"

struct sdb_diff {
    sdb_table *table;
    sdb_iter before, after;
    const sdb_row *old, *now;
};

int sdb_diff_new(sdb_db *db, sdb_diff **out)
{
    (void)db;
    sdb_diff *d = sdb_zalloc(sizeof *d);
    if (!d)
        return SDB_NOMEM;
    sdb_iter_init(&d->before);
    sdb_iter_init(&d->after);
    *out = d;
    return SDB_OK;
}

void sdb_diff_free(sdb_diff *d)
{
    if (!d)
        return;
    sdb_iter_fini(&d->before);
    sdb_iter_fini(&d->after);
    sdb_free(d);
}

/* A table that is not in a snapshot has no rows there. */
static int side_open(sdb_iter *it, const sdb_snapshot *snap, const sdb_table *table)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    sdb_iter_open(it, v ? &v->set->at[SDB_BY_ROWID]->leaves : NULL, table->arena.base,
                  v ? v->root[SDB_BY_ROWID] : 0);
    return sdb_iter_first(it);
}

int sdb_diff_open(sdb_diff *d, const sdb_snapshot *before, const sdb_snapshot *after,
                  sdb_table *table)
{
    d->old = d->now = NULL;
    d->table = NULL;
    if (!before->root || !after->root || before->db != table->db || after->db != table->db)
        return SDB_MISUSE;
    int rc = side_open(&d->before, before, table);
    if (rc >= 0)
        rc = side_open(&d->after, after, table);
    if (rc < 0)
        return rc;
    d->table = table;
    return SDB_OK;
}

/* Both are at the same row: behind what they share from there. */
static int skip_shared(sdb_iter *a, sdb_iter *b)
{
    int shared = 0;
    while (shared < a->depth && shared < b->depth &&
           a->step[a->depth - 1 - shared].node == b->step[b->depth - 1 - shared].node)
        shared++;
    a->depth -= shared;
    b->depth -= shared;
    int rc = sdb_iter_next(a);
    return rc < 0 ? rc : sdb_iter_next(b);
}

static const sdb_row *row_at(const sdb_diff *d, const sdb_iter *it)
{
    return it->leaf ? sdb_row_at(d->table, it->leaf) : NULL;
}

int sdb_diff_next(sdb_diff *d)
{
    if (!d->table)
        return SDB_MISUSE;
    int rc = SDB_OK;
    while (rc >= 0 && d->before.leaf && d->before.leaf == d->after.leaf)
        rc = skip_shared(&d->before, &d->after);
    d->old = d->now = NULL;
    if (rc < 0)
        return rc;
    const sdb_row *old = row_at(d, &d->before), *now = row_at(d, &d->after);
    if (!old && !now)
        return SDB_DONE;
    if (old && (!now || old->rowid <= now->rowid)) {
        d->old = old;
        rc = sdb_iter_next(&d->before);
    }
    if (rc >= 0 && now && (!old || now->rowid <= old->rowid)) {
        d->now = now;
        rc = sdb_iter_next(&d->after);
    }
    return rc < 0 ? rc : SDB_OK;
}

const sdb_row *sdb_diff_before(const sdb_diff *d)
{
    return d->old;
}

const sdb_row *sdb_diff_after(const sdb_diff *d)
{
    return d->now;
}
