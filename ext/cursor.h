/* cursor.h - a cursor of ours, as cursor.c moves it and range.c sets its range. */
#ifndef STATEDB_CURSOR_H
#define STATEDB_CURSOR_H

#include "plan.h"

/* Room for copies of text and blobs that last as long as the list of an IN. */
typedef struct held {
    struct held *next;
    size_t room; /* bytes left, at the end */
    char bytes[];
} held;

struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    cursor *next;             /* in the store's list of idle or parked ones */
    sdb_cursor *core;
    const sdb_row *row; /* the one it is at, or NULL at the end */
    sdb_table *table;   /* whose rows they are */
    bool is_open;       /* core is, by the plan */
    bool on_snapshot;
    int64_t n_writes; /* the store's, when core was opened */

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

    /* Rows that had to be gathered first, to be sorted or chosen from. */
    const sdb_row **gathered;
    size_t n_gathered;
    size_t gathered_room;
    size_t gathered_at;
};

static inline vtable *cursor_vtable(const cursor *cur)
{
    return (vtable *)cur->base.pVtab;
}

/* Set the range, and the list if the plan has one, from xFilter's arguments. *is_empty: no row can
** match, and the range is not to be used. */
int range_set(cursor *cur, sqlite3_value **argv, bool *is_empty);

/* The value of a row in a column; -1: the rowid. */
sdb_value cursor_value(const cursor *cur, const sdb_row *row, int column);

/* Add a row to those gathered; if there are any, xNext goes through them. */
int cursor_gather(cursor *cur, const sdb_row *row);

#endif
