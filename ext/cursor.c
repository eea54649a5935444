/* cursor.c - xOpen .. xColumn: the rows of one range of one index, in one version of the table.
**
** WHICH VERSION. With a txn open, the txn as it is when xFilter comes; else the connection's
** snapshot, which is taken when its first cursor starts and dropped when its last one closes.
** SQLite is handed the rows' own text and may look at it until the statement ends, after xClose
** too (max() keeps but a pointer). The snapshot sees to that; a cursor on a txn is parked at xClose,
** its rows held, until no cursor of the connection is open.
**
** WHICH ROWS. At least those that SQLite's own comparison lets through; it checks again. Values come
** as they are, without any affinity. For a column of numeric affinity that is soon mended: both
** sides are numbers, whatever the other side is. In a column of TEXT affinity, or of none, text
** equals text and blob equals blob; but when the value is a number, or may come from a column of
** numeric affinity, then SQLite perhaps compares numbers, and '5', '05' and ' 5.0' are all equal
** to 5. What looks like a number lies between "\t" and ":", being white space, a sign, a point or a
** digit at its beginning. So:
**
**     = number    where the index has no such text, or only the number's own: that key.
**                 Else from the number (or "\t") to ":", a WIDE range; what the plan says about the
**                 columns behind, and about the order, no longer holds.
**     < number    to ":" unless there is no such text.
**     < text      to ":" at least, unless the text is bound or literal: then it is compared as text.
**                 A literal may be one half of LIKE, which blobs match: then to the end if there are
**                 blobs.
**     > anything  from there, or from the beginning where texts are compared with a number. */
#include "plan.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    PARKED_MAX = 16, /* SQLite keeps text of the statement's last few cursors, not of every one */
    HELD_ROOM = 4000
};

/* Room for copies of text and blobs that last as long as the list of an IN. */
typedef struct held {
    struct held *next;
    size_t room; /* bytes left, at the end */
    char bytes[];
} held;

struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    cursor *next;             /* in the connection's list of idle or parked ones */
    sdb_cursor *core;
    const sdb_row *row; /* the one it is at, or NULL at the end */
    sdb_table *table;   /* whose rows they are */
    bool is_open;       /* core is, by the plan */
    bool on_snapshot;
    int64_t n_writes; /* the connection's, when core was opened */

    const plan *plan;
    sdb_range range;
    sdb_value lower, upper; /* where range points to */
    sdb_value *eq;          /* too */
    int eq_room;
    bool is_wide; /* the range is wider than the plan's */

    /* TERM_IN: the range is visited once with each of these as eq[list_term]. */
    sdb_value *list;
    int n_list;
    int list_room;
    int list_at; /* the next to visit */
    int list_term;
    held *held;

    /* Rows that had to be sorted. */
    const sdb_row **sorted;
    size_t n_sorted;
    size_t sorted_room;
    size_t sorted_at;
};

static const sdb_value NULL_VALUE = {.type = SDB_NULL};
static const sdb_value NUMBER_LOOK_FIRST = {.type = SDB_TEXT, .n = 1, .u.p = "\t"};
static const sdb_value NUMBER_LOOK_END = {.type = SDB_TEXT, .n = 1, .u.p = ":"};
static const sdb_value FIRST_BLOB = {.type = SDB_BLOB, .n = 0, .u.p = ""};

static inline vtable *cursor_vtable(const cursor *cur)
{
    return (vtable *)cur->base.pVtab;
}

/* ---------------------------------------------------------------- open and close */

static int cursor_new(conn *c, cursor **out)
{
    cursor *cur = sqlite3_malloc(sizeof *cur);

    if (!cur)
        return SQLITE_NOMEM;
    memset(cur, 0, sizeof *cur);
    int rc = sdb_cursor_new(c->store, &cur->core);
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
    conn *c = ((vtable *)vtab)->conn;
    int rc = txn_verify(c);
    cursor *cur = c->idle;

    if (rc != SQLITE_OK)
        return rc;
    if (cur)
        c->idle = cur->next;
    else if ((rc = cursor_new(c, &cur)) != SQLITE_OK)
        return rc;
    c->n_open++;
    *out = &cur->base;
    return SQLITE_OK;
}

static void core_close(conn *c, cursor *cur)
{
    if (!cur->is_open)
        return;
    sdb_cursor_close(cur->core);
    c->n_standing -= cur->on_snapshot;
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
    sqlite3_free(cur->sorted);
    cur->sorted = NULL;
    cur->n_sorted = cur->sorted_room = cur->sorted_at = 0;
}

static void cursor_retire(conn *c, cursor *cur)
{
    core_close(c, cur);
    cur->next = c->idle;
    c->idle = cur;
}

/* The newest parked one may hold the same rows already; the oldest of many is out of use. */
static void cursor_park(conn *c, cursor *cur)
{
    cursor **last = &c->parked;
    int n = 1;

    if (c->parked && c->parked->n_writes == cur->n_writes) {
        cursor_retire(c, cur);
        return;
    }
    cur->next = c->parked;
    c->parked = cur;
    for (; (*last)->next; last = &(*last)->next)
        n++;
    if (n > PARKED_MAX) {
        cursor_retire(c, *last);
        *last = NULL;
    }
}

int cursor_close(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;
    conn *c = cursor_vtable(cur)->conn;

    cursor_clear(cur);
    c->n_open--;
    if (c->n_open > 0 && cur->is_open && !cur->on_snapshot) {
        cursor_park(c, cur);
        return SQLITE_OK;
    }
    cursor_retire(c, cur);
    if (c->n_open == 0) {
        for (cursor *next; c->parked; c->parked = next) {
            next = c->parked->next;
            cursor_retire(c, c->parked);
        }
        sdb_snapshot_drop(c->snapshot);
    }
    return SQLITE_OK;
}

void cursor_pool_free(conn *c)
{
    assert(c->n_open == 0 && !c->parked);
    for (cursor *next; c->idle; c->idle = next) {
        next = c->idle->next;
        cursor_free(c->idle);
    }
}

/* ---------------------------------------------------------------- the version to read */

/* Without a txn: a snapshot older than this connection's last commit would hide its own writes. It
** is taken anew, or, while other cursors stand on it, a txn is begun to read the present state. */
int view_begin(conn *c, view *out)
{
    *out = (view){.txn = c->txn};
    if (c->txn)
        return SDB_OK;
    if (!sdb_snapshot_held(c->snapshot) ||
        (c->snapshot_writes != c->n_writes && c->n_standing == 0)) {
        sdb_snapshot_drop(c->snapshot);
        sdb_snapshot_take(c->snapshot);
        c->snapshot_writes = c->n_writes;
    }
    if (c->snapshot_writes != c->n_writes)
        return sdb_txn_begin(c->store, &out->txn);
    out->snapshot = c->snapshot;
    return SDB_OK;
}

void view_end(conn *c, view v)
{
    if (v.txn != c->txn)
        sdb_txn_abort(v.txn);
    if (c->n_open == 0)
        sdb_snapshot_drop(c->snapshot);
}

static bool index_is_same(const sdb_index_def *a, const sdb_index_def *b)
{
    if (a->unique != b->unique || a->n_parts != b->n_parts || strcmp(a->name, b->name) != 0)
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

/* SDB_MISUSE: the table may not be there. SDB_DONE: its index is not. */
static int core_open_now(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    conn *c = t->conn;
    view v;
    int rc = view_begin(c, &v);

    if (rc != SDB_OK)
        return rc;
    int index = p->index;
    if (index != SDB_BY_ROWID && view_indexes_id(v, t->table) != p->indexes_id)
        index = index_find(p, v, t->table);
    if (index < 0)
        rc = view_indexes_id(v, t->table) ? SDB_DONE : SDB_MISUSE;
    else if (v.txn)
        rc = sdb_cursor_open_txn(cur->core, v.txn, t->table, index);
    else
        rc = sdb_cursor_open(cur->core, v.snapshot, t->table, index);
    cur->on_snapshot = rc == SDB_OK && !v.txn;
    t->read_revision = v.txn ? sdb_txn_revision(v.txn, t->table)
                             : sdb_snapshot_revision(v.snapshot, t->table);
    view_end(c, v);
    return rc;
}

/* Statements prepared before an index was dropped are prepared again (transaction.c), but not one
** that is running. To ask for that here, by SQLITE_SCHEMA, would give it from its beginning, with
** the rows once more that it has returned already. */
static int core_open(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    conn *c = t->conn;
    int rc;

    if (cur->plan == p && cur->is_open && cur->n_writes == c->n_writes)
        return SQLITE_OK; /* the inner side of a join, again */
    core_close(c, cur);
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
    cur->n_writes = c->n_writes;
    c->n_standing += cur->on_snapshot;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- values that look like numbers */

static bool value_is_number(const sdb_value *v)
{
    return v->type == SDB_INTEGER || v->type == SDB_REAL;
}

static bool text_is_below_numbers_end(const sdb_value *v)
{
    return v->n == 0 || *(const unsigned char *)v->u.p < ':';
}

static affinity column_affinity(const cursor *cur, int column)
{
    const table_sql *def = cursor_vtable(cur)->def;

    return column == def->rowid_column ? AFFINITY_INTEGER : def->columns[column].affinity;
}

/* Whether the first n_eq values include that of a list: it is none in particular. */
static bool is_behind_list(const cursor *cur, int n_eq)
{
    return cur->n_list && n_eq > cur->list_term;
}

/* How many rows, of those with the first n_eq values in place, have the next column in a range.
** What lies behind a list is not counted: there may be some. */
static int count_between(cursor *cur, int n_eq, const sdb_value *lower, const sdb_value *end,
                         uint64_t *out)
{
    sdb_range range = {
        .eq = cur->eq, .n_eq = (uint16_t)n_eq, .lower = lower, .upper = end, .upper_open = true};

    *out = 1;
    return is_behind_list(cur, n_eq) ? SDB_OK : sdb_cursor_count(cur->core, &range, out);
}

/* Whether a number can stand in the range for all that SQLite may find equal to it. *v becomes what
** the column would store for it. */
static int number_is_exact(cursor *cur, int i, sqlite3_value *in, affinity aff, sdb_value *v,
                           bool *out)
{
    uint64_t n_look, n_same = 0;
    int rc = count_between(cur, i, &NUMBER_LOOK_FIRST, &NUMBER_LOOK_END, &n_look);

    if (rc == SDB_OK && aff == AFFINITY_TEXT) {
        if (value_get_affinity(in, aff, v) != SQLITE_OK)
            return SQLITE_NOMEM;
        cur->eq[i] = *v;
        sdb_range same = {.eq = cur->eq, .n_eq = (uint16_t)(i + 1)};
        if (text_is_below_numbers_end(v) && !is_behind_list(cur, i)) /* Inf is not */
            rc = sdb_cursor_count(cur->core, &same, &n_same);
    }
    if (rc < 0)
        return error_core(cursor_vtable(cur), rc);
    *out = n_look == n_same;
    return SQLITE_OK;
}

/* End the range's equal columns before column i: v, a number as the column stores it, may equal all
** that looks like it. Behind a list, with that column: one range has to do for all of its values. */
static void range_widen(cursor *cur, int i, const sdb_value *v)
{
    cur->is_wide = true;
    if (is_behind_list(cur, i)) {
        cur->range.n_eq = (uint16_t)cur->list_term;
        cur->n_list = 0;
        return;
    }
    cur->range.n_eq = (uint16_t)i;
    cur->lower = v->type == SDB_TEXT ? NUMBER_LOOK_FIRST : *v;
    cur->upper = NUMBER_LOOK_END;
    cur->range.lower = &cur->lower;
    cur->range.upper = v->type == SDB_TEXT && !text_is_below_numbers_end(v) ? NULL : &cur->upper;
    cur->range.upper_open = true;
}

/* ---------------------------------------------------------------- from arguments to a range */

static int argument_get(sqlite3_value *in, affinity aff, sdb_value *out)
{
    return value_get_affinity(in, aff >= AFFINITY_NUMERIC ? AFFINITY_NUMERIC : AFFINITY_BLOB, out);
}

/* Keep a copy of the value's text until the list is at its end. */
static int value_hold(cursor *cur, sdb_value *v)
{
    held *h = cur->held;

    if (v->type != SDB_TEXT && v->type != SDB_BLOB)
        return SQLITE_OK;
    if (!h || h->room < v->n) {
        size_t room = v->n < HELD_ROOM ? HELD_ROOM : v->n;
        h = sqlite3_malloc64(sizeof *h + room);
        if (!h)
            return SQLITE_NOMEM;
        h->room = room;
        h->next = cur->held;
        cur->held = h;
    }
    h->room -= v->n;
    v->u.p = memcpy(h->bytes + h->room, v->u.p, v->n);
    return SQLITE_OK;
}

static int list_add(cursor *cur, sdb_value *v)
{
    if (cur->n_list == cur->list_room) {
        int room = cur->list_room ? cur->list_room * 2 : 16;
        sdb_value *list = sqlite3_realloc64(cur->list, (size_t)room * sizeof *list);
        if (!list)
            return SQLITE_NOMEM;
        cur->list = list;
        cur->list_room = room;
    }
    int rc = value_hold(cur, v);
    if (rc == SQLITE_OK)
        cur->list[cur->n_list++] = *v;
    return rc;
}

/* Read the list for column i. They are different values of no numeric affinity; with a number among
** them that is not exact, or that is one more way to write a text, the range takes in all of the
** column. */
static int list_read(cursor *cur, int i, sqlite3_value *in, affinity aff)
{
    sqlite3_value *next;
    int rc;

    cur->list_term = i;
    for (rc = sqlite3_vtab_in_first(in, &next); rc == SQLITE_OK && next && !cur->is_wide;
         rc = sqlite3_vtab_in_next(in, &next)) {
        sdb_value v;
        bool is_exact = true;
        rc = value_get(next, &v);
        if (rc == SQLITE_OK && value_is_number(&v)) {
            if (aff == AFFINITY_TEXT)
                is_exact = false;
            else
                rc = number_is_exact(cur, i, next, aff, &v, &is_exact);
        }
        cur->is_wide = !is_exact;
        if (rc == SQLITE_OK && v.type != SDB_NULL)
            rc = list_add(cur, &v);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (cur->is_wide)
        cur->n_list = 0;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The equal columns. *is_empty: something is to equal NULL. */
static int range_set_equals(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan *p = cur->plan;

    for (int i = 0; i < p->n_eq && !cur->is_wide; i++) {
        affinity aff = column_affinity(cur, p->term[i].column);
        bool is_exact = true;
        sdb_value v = NULL_VALUE;
        int rc;
        if (p->term[i].op == TERM_IN) {
            rc = list_read(cur, i, argv[i], aff);
            *is_empty = cur->n_list == 0 && !cur->is_wide;
            if (cur->is_wide)
                return rc;
        } else {
            rc = argument_get(argv[i], aff, &v);
            *is_empty = v.type == SDB_NULL && p->term[i].op == TERM_EQ;
            if (rc == SQLITE_OK && value_is_number(&v) && aff < AFFINITY_NUMERIC)
                rc = number_is_exact(cur, i, argv[i], aff, &v, &is_exact);
        }
        if (rc != SQLITE_OK || *is_empty)
            return rc;
        if (!is_exact) {
            range_widen(cur, i, &v);
        } else {
            cur->eq[i] = v;
            cur->range.n_eq = (uint16_t)(i + 1);
        }
    }
    return SQLITE_OK;
}

/* An upper bound other than NULL: it is the value, or what looks like a number, or none. */
static int range_set_upper(cursor *cur, sqlite3_value *in, affinity aff)
{
    sdb_value *v = &cur->upper;
    bool is_text = v->type == SDB_TEXT, is_number = value_is_number(v);
    bool has_numbers = false; /* up to ":" */
    uint64_t n;
    int rc = SDB_OK;

    cur->range.upper = v;
    cur->range.upper_open = cur->plan->upper == SQLITE_INDEX_CONSTRAINT_LT;
    if (is_text && cur->plan->upper_is_literal) {
        rc = count_between(cur, cur->range.n_eq, &FIRST_BLOB, NULL, &n);
        if (n > 0)
            cur->range.upper = NULL;
    } else if (is_number && aff == AFFINITY_BLOB) {
        rc = count_between(cur, cur->range.n_eq, &NUMBER_LOOK_FIRST, &NUMBER_LOOK_END, &n);
        has_numbers = n > 0;
    } else if (is_number && aff == AFFINITY_TEXT) {
        if (value_get_affinity(in, aff, v) != SQLITE_OK)
            return SQLITE_NOMEM;
        has_numbers = text_is_below_numbers_end(v);
        if (!has_numbers)
            cur->range.upper = NULL;
    } else if (is_text && aff < AFFINITY_NUMERIC) {
        has_numbers = text_is_below_numbers_end(v) && !sqlite3_value_frombind(in);
    }
    if (has_numbers) {
        *v = NUMBER_LOOK_END;
        cur->range.upper_open = true;
    }
    return rc < 0 ? error_core(cursor_vtable(cur), rc) : SQLITE_OK;
}

/* The bounds of the column behind the equal ones. */
static int range_set_bounds(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan *p = cur->plan;
    affinity aff = column_affinity(cur, p->range_column);
    int rc = SQLITE_OK;

    cur->lower = NULL_VALUE; /* and open: no comparison lets NULL through */
    cur->range.lower = &cur->lower;
    cur->range.lower_open = true;
    if (p->lower == SQLITE_INDEX_CONSTRAINT_GT || p->lower == SQLITE_INDEX_CONSTRAINT_GE) {
        sdb_value v = NULL_VALUE;
        rc = argument_get(*argv++, aff, &v);
        *is_empty = v.type == SDB_NULL;
        if (aff != AFFINITY_TEXT || !value_is_number(&v)) {
            cur->lower = v;
            cur->range.lower_open = p->lower == SQLITE_INDEX_CONSTRAINT_GT;
        }
    }
    if (p->upper && rc == SQLITE_OK && !*is_empty) {
        rc = argument_get(*argv, aff, &cur->upper);
        *is_empty = cur->upper.type == SDB_NULL;
        if (rc == SQLITE_OK && !*is_empty)
            rc = range_set_upper(cur, *argv, aff);
    }
    return rc;
}

/* Arguments are gone after xFilter; what the list's later values need of them is copied. */
static int range_hold(cursor *cur)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < cur->range.n_eq && rc == SQLITE_OK; i++)
        if (i != cur->list_term)
            rc = value_hold(cur, &cur->eq[i]);
    if (rc == SQLITE_OK && cur->range.lower)
        rc = value_hold(cur, &cur->lower);
    if (rc == SQLITE_OK && cur->range.upper)
        rc = value_hold(cur, &cur->upper);
    return rc;
}

static int range_set(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan *p = cur->plan;
    int rc;

    if (p->n_eq > cur->eq_room) {
        sdb_value *eq = sqlite3_realloc64(cur->eq, p->n_eq * sizeof *eq);
        if (!eq)
            return SQLITE_NOMEM;
        cur->eq = eq;
        cur->eq_room = p->n_eq;
    }
    cur->is_wide = *is_empty = false;
    cur->range = (sdb_range){.eq = cur->eq, .reverse = p->reverse};
    rc = range_set_equals(cur, argv, is_empty);
    if (rc == SQLITE_OK && !*is_empty && !cur->is_wide && (p->lower || p->upper))
        rc = range_set_bounds(cur, argv + p->n_eq, is_empty);
    if (rc == SQLITE_OK && !*is_empty && cur->n_list)
        rc = range_hold(cur);
    return rc;
}

/* ---------------------------------------------------------------- rows in another order */

static sdb_value row_term(const cursor *cur, const sdb_row *row, int column)
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
        sdb_value x = row_term(cur, a, t->column), y = row_term(cur, b, t->column);
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

static int cursor_advance(cursor *cur, int rc);

/* Take all rows of the range and deliver them in the plan's order. */
static int cursor_sort(cursor *cur)
{
    int rc = SQLITE_OK;

    for (; cur->row && rc == SQLITE_OK; rc = cursor_advance(cur, sdb_cursor_next(cur->core))) {
        if (cur->n_sorted == cur->sorted_room) {
            size_t room = cur->sorted_room ? cur->sorted_room * 2 : 64;
            const sdb_row **rows = sqlite3_realloc64(cur->sorted, room * sizeof *rows);
            if (!rows)
                return SQLITE_NOMEM;
            cur->sorted = rows;
            cur->sorted_room = room;
        }
        cur->sorted[cur->n_sorted++] = cur->row;
    }
    if (rc != SQLITE_OK || cur->n_sorted == 0)
        return rc;
    const sdb_row **other = sqlite3_malloc64(cur->n_sorted * sizeof *other);
    if (!other)
        return SQLITE_NOMEM;
    const sdb_row **result = rows_sort(cur, cur->sorted, other, cur->n_sorted);
    sqlite3_free(result == other ? cur->sorted : other);
    cur->sorted = result;
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

    if (!cur->sorted)
        return cursor_advance(cur, sdb_cursor_next(cur->core));
    cur->row = ++cur->sorted_at < cur->n_sorted ? cur->sorted[cur->sorted_at] : NULL;
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
