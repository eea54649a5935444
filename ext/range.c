/* range.c - the values of a plan become a range of its index.
**
** A range has at least the rows that SQLite's own comparison lets through; it checks again. Values
** come as they are, without any affinity. For a column of numeric affinity that is soon mended: both
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
#include "cursor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { HELD_ROOM = 4000 };

static const sdb_value NULL_VALUE = {.type = SDB_NULL};
static const sdb_value NUMBER_LOOK_FIRST = {.type = SDB_TEXT, .n = 1, .u.p = "\t"};
static const sdb_value NUMBER_LOOK_END = {.type = SDB_TEXT, .n = 1, .u.p = ":"};
static const sdb_value FIRST_BLOB = {.type = SDB_BLOB, .n = 0, .u.p = ""};

/* ---------------------------------------------------------------- values that look like numbers */

static bool value_is_number(const sdb_value *v)
{
    return v->type == SDB_INTEGER || v->type == SDB_REAL;
}

static bool text_is_below_numbers_end(const sdb_value *v)
{
    return v->n == 0 || *(const unsigned char *)v->u.p < ':';
}

/* Whether the first n_eq values include that of a list: it is none in particular. */
static bool is_behind_list(const cursor *cur, int n_eq)
{
    return cur->n_list && n_eq > cur->list_term;
}

/* How many rows, of those with the first n_eq values in place, have the next column in a range.
** What lies behind a list is not counted: there may be some. An SQLite code. */
static int count_between(cursor *cur, int n_eq, const sdb_value *lower, const sdb_value *end,
                         uint64_t *out)
{
    sdb_range range = {
        .eq = cur->eq, .n_eq = (uint16_t)n_eq, .lower = lower, .upper = end, .upper_open = true};
    int rc = SQLITE_OK;

    *out = 1;
    if (is_behind_list(cur, n_eq))
        return SQLITE_OK;
    if (is_watched(cur))
        rc = watch_range(cur, &range);
    return rc ? rc : error_core(cursor_vtable(cur), sdb_cursor_count(cur->core, &range, out));
}

/* Whether a number can stand in the range for all that SQLite may find equal to it. *v becomes what
** the column would store for it. */
static int number_is_exact(cursor *cur, int i, sqlite3_value *in, affinity aff, sdb_value *v,
                           bool *out)
{
    uint64_t n_look, n_same = 0;
    int rc = count_between(cur, i, &NUMBER_LOOK_FIRST, &NUMBER_LOOK_END, &n_look);

    if (rc == SQLITE_OK && aff == AFFINITY_TEXT) {
        if (value_get_affinity(in, aff, v) != SQLITE_OK)
            return SQLITE_NOMEM;
        cur->eq[i] = *v;
        sdb_range same = {.eq = cur->eq, .n_eq = (uint16_t)(i + 1)};
        if (text_is_below_numbers_end(v) && !is_behind_list(cur, i)) /* Inf is not */
            rc = error_core(cursor_vtable(cur), sdb_cursor_count(cur->core, &same, &n_same));
    }
    *out = rc == SQLITE_OK && n_look == n_same;
    return rc;
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

void held_clear(cursor *cur)
{
    for (held *next; cur->held && cur->held->next; cur->held = next) {
        next = cur->held->next;
        sqlite3_free(cur->held);
    }
    if (cur->held)
        cur->held->room = cur->held->size;
}

/* Keep a copy of the value's text. */
static int value_hold(cursor *cur, sdb_value *v)
{
    held *h = cur->held;

    if (v->type != SDB_TEXT && v->type != SDB_BLOB)
        return SQLITE_OK;
    if (!h || h->room < v->n) {
        size_t size = v->n < HELD_ROOM ? HELD_ROOM : v->n;
        h = sqlite3_malloc64(sizeof *h + size);
        if (!h)
            return SQLITE_NOMEM;
        *h = (held){.next = cur->held, .size = size, .room = size};
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

static int list_compare(sdb_collation collation, const void *a, const void *b)
{
    return value_compare(a, b, collation);
}

static int list_compare_binary(const void *a, const void *b)
{
    return list_compare(SDB_BINARY, a, b);
}

static int list_compare_nocase(const void *a, const void *b)
{
    return list_compare(SDB_NOCASE, a, b);
}

static int list_compare_rtrim(const void *a, const void *b)
{
    return list_compare(SDB_RTRIM, a, b);
}

/* Bring the values for part i in the order in which the index is read, each once. They come sorted, but
** in another way where the column has made other values of them. */
static void list_sort(cursor *cur, int i)
{
    static int (*const compare[])(const void *, const void *) = {
        [SDB_BINARY] = list_compare_binary,
        [SDB_NOCASE] = list_compare_nocase,
        [SDB_RTRIM] = list_compare_rtrim,
    };
    const sdb_index_def *def = &cur->path->def;
    int (*const order)(const void *, const void *) =
        compare[def->n_parts ? def->parts[i].collation : SDB_BINARY];
    bool is_down = cur->range.reverse != (def->n_parts && def->parts[i].desc);
    sdb_value *list = cur->list;
    int n = 1;

    while (n < cur->n_list && order(&list[n - 1], &list[n]) < 0)
        n++;
    if (n < cur->n_list) {
        qsort(list, (size_t)cur->n_list, sizeof *list, order);
        n = 1;
        for (int k = 1; k < cur->n_list; k++)
            if (order(&list[n - 1], &list[k]) != 0)
                list[n++] = list[k];
        cur->n_list = n;
    }
    for (int from = 0, to = cur->n_list - 1; is_down && from < to; from++, to--) {
        sdb_value v = list[from];
        list[from] = list[to];
        list[to] = v;
    }
}

/* Read the list for column i. In a column of no numeric affinity, with a number among them that is not
** exact, or that is one more way to write a text, the range takes in all of the column. */
static int list_read(cursor *cur, int i, sqlite3_value *in, affinity aff)
{
    sqlite3_value *next;
    int rc;

    cur->list_term = i;
    for (rc = sqlite3_vtab_in_first(in, &next); rc == SQLITE_OK && next && !cur->is_wide;
         rc = sqlite3_vtab_in_next(in, &next)) {
        sdb_value v;
        bool is_exact = true;
        rc = argument_get(next, aff, &v);
        if (rc == SQLITE_OK && value_is_number(&v) && aff < AFFINITY_NUMERIC) {
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
    list_sort(cur, i);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The equal columns. *is_empty: something is to equal NULL. */
static int range_set_equals(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan_path *p = cur->path;

    for (int i = 0; i < p->n_eq && !cur->is_wide; i++) {
        sqlite3_value *in = argv[p->eq[i].arg];
        affinity aff = column_affinity(cur, p->eq[i].column);
        bool is_exact = true;
        sdb_value v = NULL_VALUE;
        int rc;
        if (aff >= AFFINITY_NUMERIC && sqlite3_value_type(in) == SQLITE_INTEGER) { /* most are; no list is */
            cur->eq[i] = (sdb_value){.type = SDB_INTEGER, .u.i = sqlite3_value_int64(in)};
            cur->range.n_eq = (uint16_t)(i + 1);
            continue;
        }
        if (p->eq[i].op == TERM_IN) {
            rc = list_read(cur, i, in, aff);
            *is_empty = cur->n_list == 0 && !cur->is_wide;
            if (cur->is_wide)
                return rc;
        } else {
            rc = argument_get(in, aff, &v);
            *is_empty = v.type == SDB_NULL && p->eq[i].op == TERM_EQ;
            if (rc == SQLITE_OK && value_is_number(&v) && aff < AFFINITY_NUMERIC)
                rc = number_is_exact(cur, i, in, aff, &v, &is_exact);
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
    int rc = SQLITE_OK;

    cur->range.upper = v;
    cur->range.upper_open = cur->path->upper == SQLITE_INDEX_CONSTRAINT_LT;
    if (is_text && cur->path->upper_is_literal) {
        rc = count_between(cur, cur->range.n_eq, &FIRST_BLOB, NULL, &n);
        if (rc == SQLITE_OK && n > 0)
            cur->range.upper = NULL;
    } else if (is_number && aff == AFFINITY_BLOB) {
        rc = count_between(cur, cur->range.n_eq, &NUMBER_LOOK_FIRST, &NUMBER_LOOK_END, &n);
        has_numbers = rc == SQLITE_OK && n > 0;
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
    return rc;
}

/* The bounds of the column behind the equal ones. */
static int range_set_bounds(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan_path *p = cur->path;
    affinity aff = column_affinity(cur, p->range_column);
    int rc = SQLITE_OK;

    cur->lower = NULL_VALUE; /* and open: no comparison lets NULL through */
    cur->range.lower = &cur->lower;
    cur->range.lower_open = true;
    if (p->lower == SQLITE_INDEX_CONSTRAINT_GT || p->lower == SQLITE_INDEX_CONSTRAINT_GE) {
        sdb_value v = NULL_VALUE;
        rc = argument_get(argv[p->lower_arg], aff, &v);
        *is_empty = v.type == SDB_NULL;
        if (aff != AFFINITY_TEXT || !value_is_number(&v)) {
            cur->lower = v;
            cur->range.lower_open = p->lower == SQLITE_INDEX_CONSTRAINT_GT;
        }
    }
    if (p->upper && rc == SQLITE_OK && !*is_empty) {
        rc = argument_get(argv[p->upper_arg], aff, &cur->upper);
        *is_empty = cur->upper.type == SDB_NULL;
        if (rc == SQLITE_OK && !*is_empty)
            rc = range_set_upper(cur, argv[p->upper_arg], aff);
    }
    return rc;
}

/* Arguments are gone after xFilter; what of them a later look-up needs is copied. */
static int range_hold(cursor *cur)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < cur->range.n_eq && rc == SQLITE_OK; i++)
        if (!cur->n_list || i != cur->list_term)
            rc = value_hold(cur, &cur->eq[i]);
    if (rc == SQLITE_OK && cur->range.lower)
        rc = value_hold(cur, &cur->lower);
    if (rc == SQLITE_OK && cur->range.upper)
        rc = value_hold(cur, &cur->upper);
    return rc;
}

int range_set(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan_path *p = cur->path;
    int rc, n_eq = p->n_eq > cur->plan->n_distinct ? p->n_eq : cur->plan->n_distinct;

    if (n_eq > cur->eq_room) {
        sdb_value *eq = sqlite3_realloc64(cur->eq, (size_t)n_eq * sizeof *eq);
        if (!eq)
            return SQLITE_NOMEM;
        cur->eq = eq;
        cur->eq_room = n_eq;
    }
    cur->is_wide = false;
    cur->range = (sdb_range){.eq = cur->eq, .reverse = cur->plan->reverse};
    rc = range_set_equals(cur, argv, is_empty);
    if (rc == SQLITE_OK && !*is_empty && !cur->is_wide && (p->lower || p->upper))
        rc = range_set_bounds(cur, argv, is_empty);
    if (rc == SQLITE_OK && !*is_empty && (cur->n_list || cur->plan->n_distinct || cur->plan->is_count))
        rc = range_hold(cur);
    return rc;
}

bool range_set_point(cursor *cur, const plan *p, bool is_again, sqlite3_value **argv)
{
    const plan_path *path = &p->path;

    assert(p->is_point);
    if (!is_again || cur->is_wide) {
        if (cur->eq_room < path->n_eq)
            return false;
        cur->plan = p;
        cur->path = path;
        cur->is_wide = false;
        cur->range = (sdb_range){.eq = cur->eq, .reverse = p->reverse};
    }
    for (int i = 0; i < path->n_eq; i++) {
        sqlite3_value *in = argv[path->eq[i].arg];
        int type = sqlite3_value_type(in);
        bool is_numeric = column_affinity(cur, path->eq[i].column) >= AFFINITY_NUMERIC;
        if (type != (is_numeric ? SQLITE_INTEGER : SQLITE_TEXT) ||
            value_get(in, &cur->eq[i]) != SQLITE_OK)
            return false;
    }
    cur->range.n_eq = path->n_eq;
    return true;
}

/* ---------------------------------------------------------------- the filter */

int filter_set(cursor *cur, sqlite3_value **argv, bool *is_empty)
{
    const plan_path *p = &cur->plan->automatic;
    int rc = SQLITE_OK;

    if (p->n_eq > cur->filter_room) {
        filter *room = sqlite3_realloc64(cur->filter, p->n_eq * sizeof *room);
        if (!room)
            return SQLITE_NOMEM;
        cur->filter = room;
        cur->filter_room = p->n_eq;
    }
    for (int i = 0; i < p->n_eq && rc == SQLITE_OK && !*is_empty; i++) {
        const plan_term *t = &p->eq[i];
        affinity aff = column_affinity(cur, t->column);
        filter *f = &cur->filter[cur->n_filter];
        if (!t->is_filter)
            continue;
        rc = argument_get(argv[t->arg], aff, &f->value);
        if (rc == SQLITE_OK)
            rc = value_hold(cur, &f->value);
        f->column = t->column;
        f->collation = (sdb_collation)p->def.parts[i].collation;
        f->lets_text = aff < AFFINITY_NUMERIC && value_is_number(&f->value);
        *is_empty = f->value.type == SDB_NULL && t->op == TERM_EQ;
        cur->n_filter++;
    }
    return rc;
}
