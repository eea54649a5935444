/* estimate.c - how many rows a range will have, as far as it is known when a statement is planned.
**
** Core counts any range exactly, without visiting it. So where the statement itself says what is looked
** for, that is the answer. Where it does not, a key of that index is as frequent as the keys there are
** on average: a few rows are taken at even distances, and the rows that share their key counted. A key
** is met as often as it has rows, so the average over keys is the harmonic mean of these counts; it is
** N / (number of keys), what ANALYZE finds for an ordinary table by reading all of it. */
#include "plan.h"

SQLITE_EXTENSION_INIT3

enum { SAMPLES = 8, PARTS_MAX = 8 };

static int cursor_at(view v, vtable *t, int index, sdb_cursor **cur)
{
    int rc = *cur ? SDB_OK : sdb_cursor_new(t->store->db, cur);

    if (rc != SDB_OK)
        return rc;
    sdb_cursor_close(*cur);
    return v.txn        ? sdb_cursor_open_txn(*cur, v.txn, t->table, index)
           : v.snapshot ? sdb_cursor_open(*cur, v.snapshot, t->table, index)
                        : SDB_MISUSE;
}

int estimate_range(view v, vtable *t, int index, const sdb_range *range, sdb_cursor **cur, double *out)
{
    uint64_t n;
    int rc = cursor_at(v, t, index, cur);

    if (rc == SDB_OK)
        rc = sdb_cursor_count(*cur, range, &n);
    if (rc == SDB_OK)
        *out = (double)n;
    return rc;
}

/* How many rows share the first columns with the one that stands at this place. */
static int sample_at(sdb_cursor *cur, const vtable *t, const sdb_index_def *def, int n_eq, uint64_t at,
                     uint64_t *out)
{
    sdb_value eq[PARTS_MAX];
    int rc = sdb_cursor_seek(cur, &(sdb_range){0});

    if (rc == SDB_OK)
        rc = sdb_cursor_skip(cur, at);
    if (rc != SDB_OK)
        return rc;
    for (int i = 0; i < n_eq; i++)
        eq[i] = row_value(t->table, sdb_cursor_row(cur), part_column(&def->parts[i]));
    return sdb_cursor_count(cur, &(sdb_range){.eq = eq, .n_eq = (uint16_t)n_eq}, out);
}

/* What has been found out is kept until the table has grown or shrunk by an eighth. */
static estimate *kept_at(vtable *t, uint64_t indexes_id, int index, int n_eq, double n_rows)
{
    estimate *e = &t->estimates[(index * 3 + n_eq) % ESTIMATES];
    double change = n_rows - e->n_rows;

    if (e->indexes_id != indexes_id || e->index != index || e->n_eq != n_eq ||
        change > e->n_rows / 8 || change < -e->n_rows / 8)
        *e = (estimate){.indexes_id = indexes_id, .index = index, .n_eq = n_eq, .n_rows = n_rows};
    return e;
}

int estimate_key(view v, vtable *t, int index, int n_eq, sdb_cursor **cur, double *out)
{
    const sdb_index_def *def = view_index(v, t->table, index);
    uint64_t n_rows = view_count(v, t->table), n;
    estimate *e = kept_at(t, view_indexes_id(v, t->table), index, n_eq, (double)n_rows);
    double keys = 0;

    if (e->same == 0) {
        int rc = n_eq > PARTS_MAX ? SDB_MISUSE : cursor_at(v, t, index, cur);
        for (int i = 0; i < SAMPLES && rc == SDB_OK; i++) {
            rc = sample_at(*cur, t, def, n_eq, (2 * (uint64_t)i + 1) * n_rows / (2 * SAMPLES), &n);
            if (rc == SDB_OK)
                keys += 1 / (double)n;
        }
        if (rc != SDB_OK)
            return rc;
        e->same = SAMPLES / keys;
    }
    *out = e->same;
    return SDB_OK;
}
