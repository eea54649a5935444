/* cursor.h - a cursor of ours: open.c opens it, cursor.c moves it, range.c sets what it is to find,
** automatic.c gives it an index that the table has not, ahead.c has fetched what it is to find next. */
#ifndef STATEDB_CURSOR_H
#define STATEDB_CURSOR_H

#include "plan.h"

enum { STOP_EVERY = 1 << 16 }; /* rows, between two questions whether to go on */

/* Room for copies of text and blobs that last until the next xFilter. */
typedef struct held {
    struct held *next;
    size_t size;
    size_t room; /* bytes left, at the end */
    char bytes[];
} held;

/* What a column of each row is compared with. */
typedef struct filter {
    sdb_value value;
    int column;
    sdb_collation collation;
    bool lets_text; /* the value is a number: SQLite may find that a text equals it */
} filter;

/* Where a value may come from that is looked up again and again: one of these columns of another cursor's rows
** (bit 0 the rowid, 1 column 0 ..); or it is always this number. */
typedef struct origin {
    uint64_t columns;
    bool is_number;
    int64_t number;
} origin;

enum { AHEAD_EQ = 3 };

struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    cursor *next;             /* in the store's list of open, idle or parked ones */
    sdb_cursor *core;
    const sdb_row *row; /* the one it is at, or NULL at the end */
    sdb_table *table;   /* whose rows they are */
    bool is_open;       /* core is, by the plan */
    int index;          /* that core is open on */
    bool on_snapshot;
    bool stands;      /* it is one of the store's n_standing */
    uint64_t commit;  /* the number of that snapshot */
    int64_t n_writes; /* the store's, when core was opened */

    uint64_t plan_id;         /* of the plan that core is open by */
    sdb_sorted *sorted;       /* what core reads instead of an index, or NULL */
    const plan_path *path;    /* of the plan, that is taken; it is sorted's, if there is that */
    uint64_t n_vain;          /* rows that the filter has passed over since core was opened */

    char *past;              /* the name of the snapshot that core is to be open on; NULL: the present */
    sdb_snapshot *past_held; /* what it holds; made when it is first needed */

    const plan *plan;
    bool is_plain; /* of what follows all but the range is empty: xNext takes core's next row */
    sdb_range range;
    sdb_value lower, upper; /* where range points to */
    sdb_value *eq;          /* too */
    int eq_room;
    bool is_wide; /* the range is wider than the plan's */
    filter *filter;
    int n_filter;
    int filter_room;
    held *held;

    /* TERM_IN: the range is visited once with each of these as eq[list_term]. */
    sdb_value *list;
    int n_list;
    int list_room;
    int list_at; /* the next to visit */
    int list_term;
    bool is_batch; /* many at a time */

    /* plan.n_distinct: the range is of the rows behind one that have this many first columns in common
    ** with it. */
    int n_common;
    sdb_value behind;     /* a bound of it */
    sdb_range plan_range; /* as range_set has left it */
    bool is_rowid_read;   /* of the row it is at: it is not the same as the next */

    /* plan.is_count: rows that are left, the one it is at among them, and those it has gone by. Core is at
    ** none of them, and row is NULL, until somebody asks for one. */
    uint64_t n_left;
    uint64_t n_behind;

    /* ahead.c: of the inner side of a join */
    cursor *leader;       /* whose rows may say what this one is going to look up; or NULL */
    bool follows;         /* they do */
    origin from[AHEAD_EQ]; /* for each value of a look-up */
    int n_from;
    int n_right;          /* so many times it was seen that they did */
    uint32_t n_asked;     /* look-ups (ahead_ask) */
    uint32_t n_before;    /* those before the leader's rows were gathered last */
    uint32_t look_at;     /* when there are so many, see whether the leader is right */
    uint32_t look_every;

    /* And of the outer one. */
    int n_followers;
    bool is_ahead;  /* the rows that come next are gathered, or are to be */
    size_t n_ahead; /* how many at a time */

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

/* The affinity of a column of the cursor's table; -1: the rowid; COLUMN_REVISION. */
static inline affinity column_affinity(const cursor *cur, int column)
{
    const table_sql *def = cursor_vtable(cur)->def;

    return column == def->rowid_column || column < 0 ? AFFINITY_INTEGER : def->columns[column].affinity;
}

/* snapshot_sql.c: let the cursor go to the snapshot of this name, or with NULL to the present, core being
** closed. */
int past_set(cursor *cur, const char *name);

/* After a seek or a step of core: be at its row, or one behind that the filter lets through, or at the first
** one of the list's next value, or at the end. An SQLite code. */
int cursor_advance(cursor *cur, int core_rc);

/* Add a row to those gathered; if there are any, xNext goes through them. */
int cursor_gather(cursor *cur, const sdb_row *row);

/* For a function that no index answers, or no more: hand over all rows, with their values of its column, and
** deliver those that `see` gathers, in the plan's order. */
int cursor_scan(cursor *cur, int (*see)(cursor *, const sdb_row *, const sdb_value *, void *), void *arg);

/* ---------------------------------------------------------------- open.c */

/* Open core by the plan, on what is to be read now, if it is not. An SQLite code. */
int core_open(cursor *cur, const plan *p);

void core_close(store *s, cursor *cur);

/* Whether core is open by the plan, and has not missed a write of this connection. */
static inline bool core_is_open(const store *s, const cursor *cur, const plan *p)
{
    return cur->plan_id == p->id && cur->is_open && cur->n_writes == s->n_writes;
}

/* If core, open by the plan since another run of its statement, is open on what is to be read now: let it stand, and
** true. */
bool core_resume(cursor *cur, const plan *p);

/* The same where this may be the inner side of a join, again, too; or else the statement that was the last one to use
** the cursor. Else it has to be opened. */
static inline bool core_is_ready(cursor *cur, const plan *p)
{
    return core_is_open(cursor_vtable(cur)->store, cur, p) &&
           (cur->stands || !cur->on_snapshot || core_resume(cur, p));
}

/* Forget what the last xFilter has left behind, but for core, and for room to be used again. */
void cursor_clear(cursor *cur);

/* ---------------------------------------------------------------- range.c */

/* Set the range of cur->path, and its list if it has one, from xFilter's arguments. *is_empty: no row
** can match, and the range is not to be used. */
int range_set(cursor *cur, sqlite3_value **argv, bool *is_empty);

/* The same of a plan that is a point, where that takes no second thought. is_again: the cursor's last range was
** the plan's too. False: range_set has to do it. */
bool range_set_point(cursor *cur, const plan *p, bool is_again, sqlite3_value **argv);

/* Set the filter, from the same. */
int filter_set(cursor *cur, sqlite3_value **argv, bool *is_empty);

/* distinct.c: from row, on to one that differs from it in the columns of plan.n_distinct. An SDB_ code. */
int distinct_next(cursor *cur, const sdb_row *row);

/* Forget copies of values, but for room to be used again. */
void held_clear(cursor *cur);

/* ---------------------------------------------------------------- watch_sql.c */

/* With conn.arming set, before it is read: that the result depends on this range of the index that core
** is open on; on what is found by a prefix; on all ranges of the cursor, those of its list included. */
int watch_range(cursor *cur, const sdb_range *range);
int watch_prefix(cursor *cur, sdb_prefix_op op, const sdb_value *prefix);
int watch_ranges(cursor *cur);

static inline bool is_watched(const cursor *cur)
{
    return cursor_vtable(cur)->conn->arming != NULL;
}

/* ---------------------------------------------------------------- ahead.c */

/* The inner side of a join, again: n values are looked up, of the index's first columns. */
void ahead_look(cursor *cur, const sdb_value *values, int n);
static inline void ahead_ask(cursor *cur, const sdb_value *values, int n)
{
    if (++cur->n_asked == cur->look_at)
        ahead_look(cur, values, n);
}

/* xNext of one that is_ahead. */
int ahead_next(cursor *cur);

/* Its rows are others from now on: nobody follows it any more. */
void ahead_end(cursor *cur);

/* It is new, and follows nobody; it closes, and is one of the store's open ones no more. */
void ahead_new(cursor *cur);
void ahead_close(cursor *cur);

/* ---------------------------------------------------------------- automatic.c */

/* Let core, which is open on an index of the table, read another that is made now. */
int automatic_make(cursor *cur, const plan_path *path);

/* Take the automatic path from now on, if the filter has passed over enough rows in vain. */
int automatic_try(cursor *cur, const plan *p);

/* Let core read what is in the table again. */
void automatic_drop(cursor *cur);

#endif
