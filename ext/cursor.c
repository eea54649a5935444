/* cursor.c - xOpen .. xColumn: the rows of one range of one index, in one version of the table.
**
** SQLite is handed the rows' own text and may look at it until the statement ends, after xClose
** too (max() keeps but a pointer). The snapshot sees to that; a cursor on a txn is parked at xClose,
** its rows held, until no cursor of the connection is open.
**
** WHICH ROWS. Those of the range that range.c makes of the plan and its values; SQLite checks again. */
#include "cursor.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    PARKED_MAX = 16 /* SQLite keeps text of the statement's last few cursors, not of every one */
};

/* ---------------------------------------------------------------- open and close */

static int cursor_new(store *s, cursor **out)
{
    cursor *cur = sqlite3_malloc(sizeof *cur);

    if (!cur)
        return SQLITE_NOMEM;
    memset(cur, 0, sizeof *cur);
    int rc = sdb_cursor_new(s->db, &cur->core);
    if (rc != SDB_OK) {
        sqlite3_free(cur);
        return error_code(rc);
    }
    *out = cur;
    return SQLITE_OK;
}

static void cursor_free(cursor *cur)
{
    sdb_cursor_free(cur->core);
    sqlite3_free(cur->eq);
    sqlite3_free(cur);
}

int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    store *s = ((vtable *)vtab)->store;
    int rc = txn_verify(s->conn);
    cursor *cur = s->idle;

    if (rc != SQLITE_OK)
        return rc;
    if (cur)
        s->idle = cur->next;
    else if ((rc = cursor_new(s, &cur)) != SQLITE_OK)
        return rc;
    s->conn->n_open++;
    *out = &cur->base;
    return SQLITE_OK;
}

static void core_close(store *s, cursor *cur)
{
    if (!cur->is_open)
        return;
    sdb_cursor_close(cur->core);
    s->n_standing -= cur->on_snapshot;
    cur->is_open = false;
}

/* Forget what the last xFilter has left behind, but for core. */
static void cursor_clear(cursor *cur)
{
    cur->row = NULL;
    for (held *next; cur->held; cur->held = next) {
        next = cur->held->next;
        sqlite3_free(cur->held);
    }
    sqlite3_free(cur->list);
    cur->list = NULL;
    cur->n_list = cur->list_room = cur->list_at = 0;
    sqlite3_free(cur->gathered);
    cur->gathered = NULL;
    cur->n_gathered = cur->gathered_room = cur->gathered_at = 0;
}

static void cursor_retire(store *s, cursor *cur)
{
    core_close(s, cur);
    cur->next = s->idle;
    s->idle = cur;
}

/* The newest parked one may hold the same rows already; the oldest of many is out of use. */
static void cursor_park(store *s, cursor *cur)
{
    cursor **last = &s->parked;
    int n = 1;

    if (s->parked && s->parked->n_writes == cur->n_writes) {
        cursor_retire(s, cur);
        return;
    }
    cur->next = s->parked;
    s->parked = cur;
    for (; (*last)->next; last = &(*last)->next)
        n++;
    if (n > PARKED_MAX) {
        cursor_retire(s, *last);
        *last = NULL;
    }
}

int cursor_close(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;
    store *s = cursor_vtable(cur)->store;
    conn *c = s->conn;

    cursor_clear(cur);
    c->n_open--;
    if (c->n_open > 0 && cur->is_open && !cur->on_snapshot) {
        cursor_park(s, cur);
        return SQLITE_OK;
    }
    cursor_retire(s, cur);
    for (s = c->stores; s && c->n_open == 0; s = s->next) {
        for (cursor *next; s->parked; s->parked = next) {
            next = s->parked->next;
            cursor_retire(s, s->parked);
        }
        view_close(s);
    }
    return SQLITE_OK;
}

void cursor_pool_free(store *s)
{
    assert(s->conn->n_open == 0 && !s->parked);
    for (cursor *next; s->idle; s->idle = next) {
        next = s->idle->next;
        cursor_free(s->idle);
    }
}

/* ---------------------------------------------------------------- the table and its index */

static bool index_is_same(const sdb_index_def *a, const sdb_index_def *b)
{
    if (a->kind != b->kind || a->unique != b->unique || a->n_parts != b->n_parts ||
        strcmp(a->name, b->name) != 0)
        return false;
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].column != b->parts[i].column ||
            a->parts[i].collation != b->parts[i].collation || a->parts[i].desc != b->parts[i].desc)
            return false;
    return true;
}

/* The number of the plan's index in a version that the plan was not made for, or -1. */
static int index_find(const plan *p, view v, const sdb_table *table)
{
    int i = view_indexes(v, table);

    while (i > 0 && !index_is_same(view_index(v, table, i), &p->def))
        i--;
    return i ? i : -1;
}

/* SDB_MISUSE: the table is not there. SDB_DONE: its index is not. */
static int core_open_now(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    view v;
    int rc = view_begin(t->store, &v);

    if (rc != SDB_OK)
        return rc;
    int index = p->index;
    if (index != SDB_BY_ROWID && view_indexes_id(v, t->table) != p->indexes_id)
        index = index_find(p, v, t->table);
    if (view_lacks(v, t))
        rc = SDB_MISUSE;
    else if (index < 0)
        rc = view_name(v, t->table) ? SDB_DONE : SDB_MISUSE;
    else if (v.txn)
        rc = sdb_cursor_open_txn(cur->core, v.txn, t->table, index);
    else
        rc = sdb_cursor_open(cur->core, v.snapshot, t->table, index);
    cur->on_snapshot = rc == SDB_OK && !v.txn;
    t->read_revision = v.txn ? sdb_txn_revision(v.txn, t->table)
                             : sdb_snapshot_revision(v.snapshot, t->table);
    view_end(t->store, v);
    return rc;
}

/* Statements prepared before an index was dropped are prepared again (transaction.c), but not one
** that is running. To ask for that here, by SQLITE_SCHEMA, would give it from its beginning, with
** the rows once more that it has returned already. */
static int core_open(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    store *s = t->store;
    int rc;

    if (cur->plan == p && cur->is_open && cur->n_writes == s->n_writes)
        return SQLITE_OK; /* the inner side of a join, again */
    core_close(s, cur);
    rc = core_open_now(cur, p);
    if (rc == SDB_MISUSE) { /* made in what has been undone since */
        rc = vtable_find(t);
        if (rc != SQLITE_OK)
            return rc;
        rc = core_open_now(cur, p);
    }
    if (rc == SDB_DONE || rc == SDB_MISUSE)
        return error_set(t, SQLITE_ABORT,
                         "index %s has been dropped while the statement was running", p->def.name);
    if (rc != SDB_OK)
        return error_core(t, rc);
    cur->is_open = true;
    cur->table = t->table;
    cur->n_writes = s->n_writes;
    s->n_standing += cur->on_snapshot;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- rows in another order */

sdb_value cursor_value(const cursor *cur, const sdb_row *row, int column)
{
    if (column < 0)
        return (sdb_value){.type = SDB_INTEGER, .u.i = sdb_row_rowid(row)};
    return sdb_row_value(cur->table, row, column);
}

static int row_compare(const cursor *cur, const sdb_row *a, const sdb_row *b)
{
    const plan *p = cur->plan;
    const column_sql *columns = cursor_vtable(cur)->def->columns;

    for (const plan_term *t = p->term + p->n_eq, *end = t + p->n_order; t < end; t++) {
        sdb_value x = cursor_value(cur, a, t->column);
        sdb_value y = cursor_value(cur, b, t->column);
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

static int cursor_advance(cursor *cur, int rc);

/* Take all rows of the range and deliver them in the plan's order. */
static int cursor_sort(cursor *cur)
{
    int rc = SQLITE_OK;

    while (cur->row && rc == SQLITE_OK) {
        rc = cursor_gather(cur, cur->row);
        if (rc == SQLITE_OK)
            rc = cursor_advance(cur, sdb_cursor_next(cur->core));
    }
    if (rc != SQLITE_OK || cur->n_gathered == 0)
        return rc;
    const sdb_row **other = sqlite3_malloc64(cur->n_gathered * sizeof *other);
    if (!other)
        return SQLITE_NOMEM;
    const sdb_row **result = rows_sort(cur, cur->gathered, other, cur->n_gathered);
    sqlite3_free(result == other ? cur->gathered : other);
    cur->gathered = result;
    cur->row = result[0];
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- rows */

/* After a seek or a step of core: be at its row, or go on with the list's next value. */
static int cursor_advance(cursor *cur, int rc)
{
    while (rc == SDB_DONE && cur->list_at < cur->n_list) {
        cur->eq[cur->list_term] = cur->list[cur->list_at++];
        rc = sdb_cursor_seek(cur->core, &cur->range);
    }
    cur->row = rc == SDB_OK ? sdb_cursor_row(cur->core) : NULL;
    return rc < 0 ? error_core(cursor_vtable(cur), rc) : SQLITE_OK;
}

int cursor_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                  sqlite3_value **argv)
{
    cursor *cur = (cursor *)base;
    conn *c = cursor_vtable(cur)->conn;
    const plan *p = (const plan *)(const void *)idx_str;
    bool is_empty;
    int rc;

    (void)idx_num;
    (void)argc;
    cursor_clear(cur);
    c->has_doubt = false;
    rc = core_open(cur, p);
    cur->plan = p;
    if (rc == SQLITE_OK && p->function)
        return p->function->filter(cur, argv[0]);
    if (rc == SQLITE_OK)
        rc = range_set(cur, argv, &is_empty);
    if (rc != SQLITE_OK || is_empty)
        return rc;
    if (cur->is_wide && p->is_single) {
        c->has_doubt = true; /* plan.c: path_is_single */
        return SQLITE_SCHEMA;
    }
    rc = cursor_advance(cur, cur->n_list ? SDB_DONE : sdb_cursor_seek(cur->core, &cur->range));
    if (rc == SQLITE_OK && cur->is_wide && p->n_order)
        rc = cursor_sort(cur);
    return rc;
}

int cursor_next(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;

    if (!cur->gathered)
        return cursor_advance(cur, sdb_cursor_next(cur->core));
    cur->row = ++cur->gathered_at < cur->n_gathered ? cur->gathered[cur->gathered_at] : NULL;
    return SQLITE_OK;
}

int cursor_eof(sqlite3_vtab_cursor *base)
{
    return !((cursor *)base)->row;
}

int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    cursor *cur = (cursor *)base;
    const table_sql *def = cursor_vtable(cur)->def;

    if (sqlite3_vtab_nochange(ctx))
        return SQLITE_OK;
    if (column < def->n_columns) {
        sdb_value v = sdb_row_value(cur->table, cur->row, column);
        value_result(ctx, &v);
    } else if (column == column_revision(def)) {
        sqlite3_result_int64(ctx, (sqlite3_int64)sdb_row_revision(cur->row));
    }
    return SQLITE_OK;
}

int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    *rowid = sdb_row_rowid(((cursor *)base)->row);
    return SQLITE_OK;
}
