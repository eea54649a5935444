/* cursor.c - xFilter .. xColumn: the rows of one range of one index, in one version of the table.
**
** WHICH ROWS. Those of the range that range.c makes of the plan and its values; SQLite checks again. */
#include "cursor.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

enum { BATCH = 64 }; /* of a list's values, looked up at once */

/* ---------------------------------------------------------------- rows in another order */

static int row_compare(const cursor *cur, const sdb_row *a, const sdb_row *b)
{
    const plan *p = cur->plan;
    const column_sql *columns = cursor_vtable(cur)->def->columns;

    for (const plan_term *t = p->order, *end = t + p->n_order; t < end; t++) {
        sdb_value x = row_value(cur->table, a, t->column);
        sdb_value y = row_value(cur->table, b, t->column);
        int c = value_compare(&x, &y, t->column < 0 ? SDB_BINARY : columns[t->column].collation);
        if (c)
            return t->desc ? -c : c;
    }
    return 0;
}

/* Merge sort, from runs of one row upwards. `to` has room for as many; the result is in either. */
static const sdb_row **rows_sort(const cursor *cur, const sdb_row **from, const sdb_row **to,
                                 size_t n)
{
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t i = at, middle = at + run < n ? at + run : n;
            size_t k = middle, end = middle + run < n ? middle + run : n;
            for (size_t out = at; out < end; out++) {
                bool is_second = i == middle || (k < end && row_compare(cur, from[k], from[i]) < 0);
                to[out] = from[is_second ? k++ : i++];
            }
        }
        const sdb_row **other = from;
        from = to;
        to = other;
    }
    return from;
}

int cursor_gather(cursor *cur, const sdb_row *row)
{
    if (cur->n_gathered == cur->gathered_room) {
        size_t room = cur->gathered_room ? cur->gathered_room * 2 : 64;
        const sdb_row **rows = sqlite3_realloc64(cur->gathered, room * sizeof *rows);
        if (!rows)
            return SQLITE_NOMEM;
        cur->gathered = rows;
        cur->gathered_room = room;
    }
    cur->gathered[cur->n_gathered++] = row;
    return SQLITE_OK;
}

/* Bring what has been gathered in the plan's order. */
static int gathered_sort(cursor *cur)
{
    if (cur->n_gathered == 0)
        return SQLITE_OK;
    const sdb_row **other = sqlite3_malloc64(cur->n_gathered * sizeof *other);
    if (!other)
        return SQLITE_NOMEM;
    const sdb_row **result = rows_sort(cur, cur->gathered, other, cur->n_gathered);
    sqlite3_free(result == other ? cur->gathered : other);
    cur->gathered = result;
    cur->gathered_room = cur->n_gathered;
    cur->row = result[0];
    return SQLITE_OK;
}

/* Take all rows of the range and deliver them in the plan's order. */
static int cursor_sort(cursor *cur)
{
    int rc = SQLITE_OK;

    while (cur->row && rc == SQLITE_OK) {
        rc = cursor_gather(cur, cur->row);
        if (rc == SQLITE_OK)
            rc = cursor_advance(cur, sdb_cursor_next(cur->core));
    }
    return rc ? rc : gathered_sort(cur);
}

int cursor_scan(cursor *cur, int (*see)(cursor *, const sdb_row *, const sdb_value *, void *), void *arg)
{
    const plan *p = cur->plan;
    sdb_range all = {.reverse = p->reverse};
    int rc = is_watched(cur) ? watch_range(cur, &all) : SQLITE_OK;

    if (rc != SQLITE_OK)
        return rc;
    int core_rc = sdb_cursor_seek(cur->core, &all);
    for (size_t n = 1; core_rc == SDB_OK; n++, core_rc = sdb_cursor_next(cur->core)) {
        const sdb_row *row = sdb_cursor_row(cur->core);
        sdb_value v = row_value(cur->table, row, p->path.range_column);
        rc = see(cur, row, &v, arg);
        if (rc == SQLITE_OK && n % STOP_EVERY == 0 && conn_is_interrupted(cursor_vtable(cur)->conn))
            rc = SQLITE_INTERRUPT;
        if (rc != SQLITE_OK)
            return rc;
    }
    if (core_rc < 0)
        return error_core(cursor_vtable(cur), core_rc);
    cur->row = cur->n_gathered ? cur->gathered[0] : NULL;
    return p->index == SDB_BY_ROWID ? SQLITE_OK : gathered_sort(cur);
}

/* ---------------------------------------------------------------- rows */

static bool filter_passes(const cursor *cur, const sdb_row *row)
{
    for (const filter *f = cur->filter, *end = f + cur->n_filter; f < end; f++) {
        sdb_value v = sdb_row_value(cur->table, row, f->column);
        if (value_compare(&v, &f->value, f->collation) != 0 && (!f->lets_text || v.type != SDB_TEXT))
            return false;
    }
    return true;
}

/* From core's row, or its end, on to the next that the filter lets through. */
static int filter_settle(cursor *cur, int rc)
{
    for (; rc == SDB_OK && !filter_passes(cur, sdb_cursor_row(cur->core));
         rc = sdb_cursor_next(cur->core))
        if (++cur->n_vain % STOP_EVERY == 0 && conn_is_interrupted(cursor_vtable(cur)->conn))
            return SDB_INTERRUPTED;
    return rc;
}

/* After a seek or a step of core: be at its row, or at the end. */
static inline int row_set(cursor *cur, int rc)
{
    cur->row = rc == SDB_OK ? sdb_cursor_row(cur->core) : NULL;
    return rc < 0 ? error_core(cursor_vtable(cur), rc) : SQLITE_OK;
}

/* Have core fetch what the list's next values lead to. */
static void list_look_ahead(const cursor *cur)
{
    int left = cur->n_list - cur->list_at;

    if (left > 1)
        sdb_cursor_look_ahead(cur->core, cur->list + cur->list_at, 1, left < BATCH ? (size_t)left : BATCH,
                              NULL);
}

int cursor_advance(cursor *cur, int rc)
{
    if (cur->n_filter)
        rc = filter_settle(cur, rc);
    while (rc == SDB_DONE && cur->list_at < cur->n_list) {
        if (cur->list_at % BATCH == 0 && cur->list_term == 0)
            list_look_ahead(cur);
        cur->eq[cur->list_term] = cur->list[cur->list_at++];
        rc = sdb_cursor_seek(cur->core, &cur->range);
        if (cur->n_filter)
            rc = filter_settle(cur, rc);
    }
    return row_set(cur, rc);
}

/* Look up the next values of a list of rowids, in what the snapshot holds: together, which is several
** times as fast as one by one where the table is larger than the cache. */
static int batch_next(cursor *cur)
{
    store *s = cursor_vtable(cur)->store;
    const sdb_row *rows[BATCH];
    int64_t rowids[BATCH];
    int rc = SQLITE_OK;

    cur->n_gathered = cur->gathered_at = 0;
    while (cur->n_gathered == 0 && cur->list_at < cur->n_list) {
        size_t n = 0;
        for (; n < BATCH && cur->list_at < cur->n_list; cur->list_at++)
            if (cur->list[cur->list_at].type == SDB_INTEGER)
                rowids[n++] = cur->list[cur->list_at].u.i;
        sdb_snapshot_get_many(s->snapshot, cur->table, rowids, n, rows);
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
            if (rows[i] && filter_passes(cur, rows[i]))
                rc = cursor_gather(cur, rows[i]);
    }
    cur->row = cur->n_gathered ? cur->gathered[0] : NULL;
    return rc;
}

/* Rows that have been counted so far are asked for after all: go to where the cursor is. */
static int cursor_stop_counting(cursor *cur)
{
    int rc = sdb_cursor_seek(cur->core, &cur->range);

    if (rc == SDB_OK)
        rc = sdb_cursor_skip(cur->core, cur->n_behind);
    cur->n_left = 0;
    return row_set(cur, rc);
}

/* Go to the first row of the range. */
static int cursor_begin(cursor *cur)
{
    if (cur->plan->n_distinct) {
        cur->n_common = cur->range.n_eq;
        cur->plan_range = cur->range;
    }
    cur->is_batch = cur->n_list > 1 && cur->on_snapshot && cur->index == SDB_BY_ROWID && !cur->sorted;
    if (cur->is_batch)
        return batch_next(cur);
    if (cur->plan->is_count && !cur->is_wide) {
        int rc = sdb_cursor_count(cur->core, &cur->range, &cur->n_left);
        return rc ? error_core(cursor_vtable(cur), rc) : SQLITE_OK;
    }
    return cursor_advance(cur, cur->n_list ? SDB_DONE : sdb_cursor_seek(cur->core, &cur->range));
}

/* The present, or the snapshot that the plan has a name for. */
static int moment_set(cursor *cur, const plan *p, sqlite3_value **argv, bool *is_empty)
{
    const char *name = NULL;

    if (p->snapshot_op) {
        sqlite3_value *value = argv[p->snapshot_arg];
        name = (const char *)sqlite3_value_text(value);
        if (!name && sqlite3_value_type(value) != SQLITE_NULL)
            return SQLITE_NOMEM;
        *is_empty = !name && p->snapshot_op == TERM_EQ;
    }
    if (*is_empty || (!name && !cur->past) || (name && cur->past && strcmp(name, cur->past) == 0))
        return SQLITE_OK;
    core_close(cursor_vtable(cur)->store, cur);
    return past_set(cur, name);
}

/* The last feed has gone since the statement was planned, and its revisions with it; or the snapshot that
** is read has none. All rows are a range that is wide enough: SQLite checks them. */
static bool is_without_revisions(const cursor *cur)
{
    return cur->path == &cur->plan->path && cur->plan->index == SDB_BY_REVISION &&
           cur->index != SDB_BY_REVISION;
}

/* SQLite is going to look at the first row only: have it plan again if there is another one. */
static int cursor_look_behind(cursor *cur)
{
    const sdb_row *first = cur->row;
    int rc = cursor_advance(cur, sdb_cursor_next(cur->core));
    bool is_last = !cur->row;

    cur->row = first;
    if (rc != SQLITE_OK || is_last)
        return rc;
    cursor_vtable(cur)->conn->has_doubt = true; /* plan.c: path_is_hoped_single */
    return SQLITE_SCHEMA;
}

/* If this is a point again, and there is nothing to do but to look up other values, let core stand, and true. */
static bool point_resume(cursor *cur, const plan *p)
{
    const conn *c = cursor_vtable(cur)->conn;

    return p->is_point && !cur->is_ahead && !cur->sorted && !c->wanted && !c->arming && core_is_ready(cur, p);
}

int cursor_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                  sqlite3_value **argv)
{
    cursor *cur = (cursor *)base;
    vtable *t = cursor_vtable(cur);
    conn *c = t->conn;
    const plan *p = (const plan *)(const void *)idx_str;
    bool was_open = cur->stands || !cur->on_snapshot; /* if core is: since the last xFilter of this run */
    bool is_empty = false;
    int rc;

    (void)idx_num;
    (void)argc;
    c->has_doubt = false;
    if (point_resume(cur, p) && range_set_point(cur, p, was_open, argv)) {
        if (was_open)
            ahead_ask(cur, cur->eq, p->path.n_eq);
        return row_set(cur, sdb_cursor_seek(cur->core, &cur->range));
    }
    cursor_clear(cur);
    cur->is_plain = false;
    rc = lock_wanted(t);
    if (rc == SQLITE_OK && (p->snapshot_op || cur->past))
        rc = moment_set(cur, p, argv, &is_empty);
    if (rc != SQLITE_OK || is_empty)
        return rc;
    rc = core_open(cur, p);
    if (rc == SQLITE_OK && p->automatic.n_eq)
        rc = automatic_try(cur, p);
    cur->plan = p;
    if (!cur->sorted)
        cur->path = &p->path;
    if (rc == SQLITE_OK && p->function)
        return p->function->filter(cur, argv[0]);
    if (rc == SQLITE_OK && p->automatic.n_eq)
        rc = filter_set(cur, argv, &is_empty);
    if (rc == SQLITE_OK && !is_empty && is_without_revisions(cur)) {
        cur->range = (sdb_range){0};
        cur->is_wide = true;
    } else if (rc == SQLITE_OK && !is_empty) {
        rc = range_set(cur, argv, &is_empty);
    }
    if (rc != SQLITE_OK || is_empty)
        return rc;
    if (c->arming)
        rc = watch_ranges(cur);
    if (rc == SQLITE_OK)
        rc = cursor_begin(cur);
    if (rc == SQLITE_OK && p->is_hoped_single && cur->row)
        rc = cursor_look_behind(cur);
    if (rc == SQLITE_OK && p->n_order && (cur->is_wide || cur->sorted))
        rc = cursor_sort(cur);
    cur->is_plain = !cur->n_filter && !cur->n_list && !cur->n_left && !cur->n_gathered && !p->n_distinct;
    return rc;
}

static int gathered_next(cursor *cur)
{
    if (++cur->gathered_at == cur->n_gathered && cur->is_batch)
        return batch_next(cur);
    cur->row = cur->gathered_at < cur->n_gathered ? cur->gathered[cur->gathered_at] : NULL;
    return SQLITE_OK;
}

int cursor_next(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;

    if (cur->is_plain)
        return row_set(cur, sdb_cursor_next(cur->core));
    if (cur->is_ahead)
        return ahead_next(cur);
    if (cur->n_left) {
        cur->n_left--;
        cur->n_behind++;
        return SQLITE_OK;
    }
    if (cur->n_gathered)
        return gathered_next(cur);
    if (cur->plan->n_distinct && !cur->is_wide && !cur->is_rowid_read)
        return cursor_advance(cur, distinct_next(cur, cur->row));
    cur->is_rowid_read = false;
    return cursor_advance(cur, sdb_cursor_next(cur->core));
}

int cursor_eof(sqlite3_vtab_cursor *base)
{
    const cursor *cur = (cursor *)base;

    return !cur->row && !cur->n_left;
}

int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    cursor *cur = (cursor *)base;
    const table_sql *def = cursor_vtable(cur)->def;
    bool is_own = column < def->n_columns;

    if (!is_own && cur->past && column == column_snapshot(def)) {
        sqlite3_result_text(ctx, cur->past, -1, SQLITE_TRANSIENT); /* write.c asks, in an UPDATE too */
        return SQLITE_OK;
    }
    if (sqlite3_vtab_nochange(ctx))
        return SQLITE_OK;
    if (cur->n_left) {
        int rc = cursor_stop_counting(cur);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (is_own) {
        sdb_value v = sdb_row_value(cur->table, cur->row, column);
        value_result(ctx, &v);
    } else if (column == column_revision(def)) {
        sqlite3_result_int64(ctx, (sqlite3_int64)sdb_row_revision(cur->row));
    }
    return SQLITE_OK;
}

int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    cursor *cur = (cursor *)base;

    if (cur->n_left) {
        int rc = cursor_stop_counting(cur);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (cur->plan->is_point && cur->plan->index == SDB_BY_ROWID && cur->eq[0].type == SDB_INTEGER)
        *rowid = cur->eq[0].u.i; /* without a look at the row, which may be on its way yet */
    else
        *rowid = sdb_row_rowid(cur->row);
    cur->is_rowid_read = true;
    return SQLITE_OK;
}
