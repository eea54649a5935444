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
    BATCH = 64,          /* of a list's values, looked up at once */
    GATHERED_KEPT = 256, /* rows to have room for until the next xFilter */
    IDLE_MAX = 16,       /* what has been open by so many plans stays open for them */
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
    sdb_snapshot_free(cur->past_held);
    held_clear(cur);
    sqlite3_free(cur->held);
    sqlite3_free(cur->list);
    sqlite3_free(cur->filter);
    sqlite3_free(cur->gathered);
    sqlite3_free(cur->eq);
    sqlite3_free(cur);
}

/* Whether the snapshot has to stay for the sake of core. */
static void core_stand(store *s, cursor *cur, bool stands)
{
    s->n_standing += stands - cur->stands;
    cur->stands = stands;
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
    automatic_drop(cur);
    cur->n_vain = 0;
    core_stand(s, cur, false);
    cur->is_open = false;
}

/* Forget what the last xFilter has left behind, but for core, and for room to be used again. */
static void cursor_clear(cursor *cur)
{
    cur->row = NULL;
    cur->is_rowid_read = false;
    if (cur->is_plain && !cur->held)
        return;
    held_clear(cur);
    cur->n_list = cur->list_at = cur->n_filter = 0;
    cur->n_left = cur->n_behind = 0;
    if (cur->gathered_room > GATHERED_KEPT) {
        sqlite3_free(cur->gathered);
        cur->gathered = NULL;
        cur->gathered_room = 0;
    }
    cur->n_gathered = cur->gathered_at = 0;
    cur->is_batch = false;
    cur->is_plain = true;
}

/* Whether the next cursor of the same plan can use what this one has found out. */
static bool cursor_is_worthy(const cursor *cur)
{
    return cur->sorted || cur->n_vain;
}

/* Core stays open for the next statement of its plan, which may read the same version. */
static void core_rest(store *s, cursor *cur)
{
    if (cur->is_open && cur->on_snapshot && !cursor_is_worthy(cur))
        core_stand(s, cur, false);
    else
        core_close(s, cur);
}

static void cursor_retire(store *s, cursor *cur)
{
    core_rest(s, cur);
    if (cur->past)
        past_set(cur, NULL);
    cur->next = s->idle;
    s->idle = cur;
}

/* One of the idle cursors, the longest out of use, or a new one; with core closed. NULL: no memory. */
static cursor *cursor_spare(store *s)
{
    cursor **at = &s->idle, *spare;
    int n = 1;

    while (*at && (*at)->is_open && ((*at)->next || n < IDLE_MAX)) {
        at = &(*at)->next;
        n++;
    }
    spare = *at;
    if (!spare)
        return cursor_new(s, &spare) == SQLITE_OK ? spare : NULL;
    *at = spare->next;
    core_close(s, spare);
    return spare;
}

/* The newest parked one may hold the same rows already; the oldest of many is out of use. */
static void cursor_park(store *s, cursor *cur)
{
    cursor **last = &s->parked;
    int n = 1;

    if (s->parked && s->parked->n_writes == cur->n_writes && !s->parked->past && !cur->past &&
        !cursor_is_worthy(cur)) {
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

/* The connection has closed one more cursor. */
void conn_close_cursor(conn *c)
{
    c->n_open--;
    for (store *s = c->stores; s && c->n_open == 0; s = s->next) {
        for (cursor *next; s->parked; s->parked = next) {
            next = s->parked->next;
            cursor_retire(s, s->parked);
        }
        view_close(s);
    }
}

int cursor_close(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;
    store *s = cursor_vtable(cur)->store;
    conn *c = s->conn;

    cursor_clear(cur);
    if (c->n_open > 1 && cur->is_open && (!cur->on_snapshot || cursor_is_worthy(cur)))
        cursor_park(s, cur);
    else
        cursor_retire(s, cur);
    conn_close_cursor(c);
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

    while (i > 0 && !index_is_same(view_index(v, table, i), &p->path.def))
        i--;
    return i ? i : -1;
}

/* The number there of the index that the plan is for; is_same: the table has those that the plan was made
** for. -1: it is not there. Without revisions the rowids will do (is_without_revisions). */
static int index_in(const plan *p, view v, const sdb_table *table, bool is_same)
{
    if (p->index == SDB_BY_REVISION)
        return view_feeds(v, table) ? p->index : SDB_BY_ROWID;
    return p->index == SDB_BY_ROWID || is_same ? p->index : index_find(p, v, table);
}

/* SDB_MISUSE: the table is not there. *is_there: its index is; else core is open by rowid. */
static int core_open_now(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    view v;
    int rc = view_begin(t->store, &v);

    if (rc != SDB_OK)
        return rc;
    bool is_same = view_indexes_id(v, t->table) == p->indexes_id;
    if (!is_same)
        t->conn->has_old_plans |= t->store->name != NULL; /* another connection has changed them */
    t->conn->has_old_plans |= view_count(v, t->table) > p->n_outgrown;
    int index = index_in(p, v, t->table, is_same);
    *is_there = index >= 0;
    if (!*is_there)
        index = SDB_BY_ROWID;
    if (view_lacks(v, t))
        rc = SDB_MISUSE;
    else if (v.txn)
        rc = sdb_cursor_open_txn(cur->core, v.txn, t->table, index);
    else
        rc = sdb_cursor_open(cur->core, v.snapshot, t->table, index);
    cur->index = index;
    cur->on_snapshot = rc == SDB_OK && !v.txn;
    cur->commit = cur->on_snapshot ? sdb_snapshot_commit(v.snapshot) : 0;
    t->read_revision = v.txn ? sdb_txn_revision(v.txn, t->table)
                             : sdb_snapshot_revision(v.snapshot, t->table);
    view_end(t->store, v);
    return rc;
}

/* An SQLite code. */
static int core_open_present(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    int rc = core_open_now(cur, p, is_there);

    if (rc == SDB_MISUSE) { /* made in what has been undone since */
        rc = vtable_find(t);
        if (rc != SQLITE_OK)
            return rc;
        rc = core_open_now(cur, p, is_there);
    }
    cur->table = t->table;
    return error_core(t, rc);
}

/* The table as it was when the cursor's snapshot was taken: under another name, or another one of this
** name that was defined as this one is. An SQLite code. */
static int past_table(const cursor *cur, view v, sdb_table **out)
{
    vtable *t = cursor_vtable(cur);

    *out = view_name(v, t->table) ? t->table : view_table(v, t->key);
    if (!*out)
        return error_set(t, SQLITE_ERROR, "the table is not in snapshot '%s', which is older", cur->past);
    if (*out != t->table && !table_sql_is_same(sdb_table_sql(*out), sdb_table_sql(t->table)))
        return error_set(t, SQLITE_ERROR, "in snapshot '%s' the table has another definition: %s",
                         cur->past, sdb_table_sql(*out));
    return SQLITE_OK;
}

/* As core_open_now, for a cursor that has a past. An SQLite code. */
static int core_open_past(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    view v = {.snapshot = cur->past_held};
    sdb_table *table;
    int rc = past_table(cur, v, &table);

    if (rc != SQLITE_OK)
        return rc;
    int index = index_in(p, v, table, table == t->table && view_indexes_id(v, table) == p->indexes_id);
    *is_there = index >= 0;
    cur->index = *is_there ? index : SDB_BY_ROWID;
    rc = sdb_cursor_open(cur->core, cur->past_held, table, cur->index);
    cur->table = table;
    cur->on_snapshot = false;
    return error_core(t, rc);
}

/* What goes with core. */
static void core_move(cursor *to, const cursor *from)
{
    to->core = from->core;
    to->table = from->table;
    to->is_open = from->is_open;
    to->index = from->index;
    to->on_snapshot = from->on_snapshot;
    to->stands = from->stands;
    to->commit = from->commit;
    to->n_writes = from->n_writes;
    to->plan_id = from->plan_id;
    to->sorted = from->sorted;
    to->path = from->path;
    to->n_vain = from->n_vain;
}

static void core_swap(cursor *a, cursor *b)
{
    cursor was_a = *a, was_b = *b;

    core_move(a, &was_b);
    core_move(b, &was_a);
}

/* Whether core is open by the plan, and has not missed a write of this connection. */
static bool core_is_open(const store *s, const cursor *cur, const plan *p)
{
    return cur->plan_id == p->id && cur->is_open && cur->n_writes == s->n_writes;
}

/* Whether core, left open by another statement, is open on what is to be read now. */
static bool core_is_same(const store *s, const cursor *cur, const plan *p)
{
    return core_is_open(s, cur, p) && !cur->past && cur->on_snapshot == !s->txn &&
           (s->txn || cur->commit == sdb_snapshot_commit(s->snapshot));
}

/* What core is open on goes to a closed cursor that is kept, if it may be of use again; or a kept one's
** comes here. False: there is none of the plan. */
static bool core_exchange(store *s, cursor *cur, const plan *p)
{
    cursor **at = &s->parked, *kept = s->idle;

    while (*at && !core_is_same(s, *at, p))
        at = &(*at)->next;
    if (*at) {
        kept = *at;
        core_swap(cur, kept);
        if (!kept->is_open || !cursor_is_worthy(kept)) {
            *at = kept->next;
            cursor_retire(s, kept);
        }
        return true;
    }
    while (kept && !core_is_same(s, kept, p))
        kept = kept->next;
    if (!kept)
        return false;
    core_swap(cur, kept);
    core_rest(s, kept);
    return true;
}

/* Close core, or leave it to a cursor that is kept. */
static int core_leave(store *s, cursor *cur)
{
    bool is_of_use = cur->is_open && !cur->past && cur->n_writes == s->n_writes;
    bool is_worthy = is_of_use && cursor_is_worthy(cur);
    cursor *kept = is_worthy || (is_of_use && cur->on_snapshot) ? cursor_spare(s) : NULL;

    if (!kept) {
        core_close(s, cur);
        return is_worthy ? SQLITE_NOMEM : SQLITE_OK;
    }
    core_swap(cur, kept);
    if (is_worthy)
        cursor_park(s, kept);
    else
        cursor_retire(s, kept);
    return SQLITE_OK;
}

/* The plan's index is no more. Statements prepared before an index was dropped are prepared again
** (transaction.c), but not one that is running, nor, at once, those of another connection. To ask for that
** here, by SQLITE_SCHEMA, gives the statement from its beginning: that is right for one that writes, but
** another would return rows twice. So it gets an index of its own, or, where none can be made, goes through
** all rows (cursor_scan). */
static int core_replace_index(cursor *cur, const plan *p)
{
    conn *c = cursor_vtable(cur)->conn;

    if (!cur->past && !c->has_lost && txn_can_restart(c)) {
        c->has_lost = true;
        return SQLITE_SCHEMA;
    }
    return p->function ? SQLITE_OK : automatic_make(cur, &p->path);
}

static int core_open(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    store *s = t->store;
    bool is_there;
    int rc;

    if ((cur->stands || !cur->on_snapshot) && core_is_open(s, cur, p))
        return SQLITE_OK; /* the inner side of a join, again */
    rc = view_ready(s, &t->base.zErrMsg);
    if (rc != SQLITE_OK)
        return rc;
    if (!cur->past && (core_is_same(s, cur, p) || core_exchange(s, cur, p))) {
        core_stand(s, cur, cur->on_snapshot);
        return SQLITE_OK; /* the statement, again */
    }
    rc = core_leave(s, cur);
    if (rc != SQLITE_OK)
        return rc;
    rc = cur->past ? core_open_past(cur, p, &is_there) : core_open_present(cur, p, &is_there);
    if (rc != SQLITE_OK)
        return rc;
    cur->is_open = true;
    cur->plan_id = p->id;
    cur->n_writes = s->n_writes;
    core_stand(s, cur, cur->on_snapshot);
    if (!is_there)
        rc = core_replace_index(cur, p);
    t->conn->has_lost = rc == SQLITE_SCHEMA;
    if (rc != SQLITE_OK)
        core_close(s, cur); /* it is not open by this plan */
    return rc;
}

/* ---------------------------------------------------------------- rows in another order */

sdb_value cursor_value(const cursor *cur, const sdb_row *row, int column)
{
    if (column == COLUMN_REVISION)
        return (sdb_value){.type = SDB_INTEGER, .u.i = (int64_t)sdb_row_revision(row)};
    if (column < 0)
        return (sdb_value){.type = SDB_INTEGER, .u.i = sdb_row_rowid(row)};
    return sdb_row_value(cur->table, row, column);
}

static int row_compare(const cursor *cur, const sdb_row *a, const sdb_row *b)
{
    const plan *p = cur->plan;
    const column_sql *columns = cursor_vtable(cur)->def->columns;

    for (const plan_term *t = p->order, *end = t + p->n_order; t < end; t++) {
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
        sdb_value v = cursor_value(cur, row, p->path.range_column);
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

/* The same, but at the end go on with the list's next value. */
static int cursor_advance(cursor *cur, int rc)
{
    if (cur->n_filter)
        rc = filter_settle(cur, rc);
    while (rc == SDB_DONE && cur->list_at < cur->n_list) {
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

/* Whether this is the inner side of a join again, with nothing to do but to look up other values. */
static bool is_point_again(const cursor *cur, const plan *p)
{
    const vtable *t = cursor_vtable(cur);

    return p->is_point && (cur->stands || !cur->on_snapshot) && core_is_open(t->store, cur, p) &&
           !cur->is_wide && !t->conn->wanted && !t->conn->arming;
}

int cursor_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                  sqlite3_value **argv)
{
    cursor *cur = (cursor *)base;
    vtable *t = cursor_vtable(cur);
    conn *c = t->conn;
    const plan *p = (const plan *)(const void *)idx_str;
    bool is_empty = false;
    int rc;

    (void)idx_num;
    (void)argc;
    if (is_point_again(cur, p) && range_set_again(cur, argv))
        return row_set(cur, sdb_cursor_seek(cur->core, &cur->range));
    cursor_clear(cur);
    cur->is_plain = false;
    c->has_doubt = false;
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
    *rowid = sdb_row_rowid(cur->row);
    cur->is_rowid_read = true;
    return SQLITE_OK;
}
