/* path.h - the ways that plan.c has to choose from: how path.c describes one, and finds the best. */
#ifndef STATEDB_PATH_H
#define STATEDB_PATH_H

#include "plan.h"

enum {
    ROWS_MIN = 256, /* a statement prepared on an empty table serves it when it has grown */
    LIST_LENGTH = 8, /* values in an IN list */
    COST_MIN = 10,  /* of a look-up, in rows that are visited by rowid */
    FILTER_MAX = 8  /* columns compared row by row */
};

#define NO_COLUMN (-2)

typedef struct query {
    vtable *table;
    sqlite3_index_info *info;
    view view; /* whose indexes are meant */
    view now;  /* where rows can be counted; the table may not be in it */
    double n_rows;
    bool is_counted;   /* n_rows is what there is, and ranges can be counted */
    sdb_cursor *cursor; /* to count with, or NULL */
    bool is_grouping; /* any order will do that keeps equal rows together */
} query;

/* One way to answer a query: an index and what is used of it. */
typedef struct path {
    int index;
    int n_eq;
    int n_in;    /* of these, by an IN list */
    int list;    /* the one of these whose IN list comes whole, or -1 */
    bool has_text_list; /* it is one that has to */
    int lower;   /* constraint, or -1 */
    int upper;   /* constraint, or -1 */
    int n_filter;
    int filter[FILTER_MAX]; /* constraints with = on columns that the index has not */
    int function; /* the constraint that is all the path is for, or -1 */
    bool is_key;  /* one value for each column of a unique index */
    bool is_keys; /* the same, or a list of values for some */
    bool is_ordered;
    bool reverse;
    int n_ordered; /* columns of the index that settle the order */
    double rows;
    double cost;     /* once */
    double cost_each; /* when it is read again and again */
} path;

typedef struct index_part {
    int column; /* -1: the rowid */
    sdb_collation collation;
    bool desc;
} index_part;

/* Both names of the rowid are one column. NO_COLUMN: a hidden one. */
int column_of(const query *q, int column);
bool column_is_numeric(const query *q, int column);
sdb_collation column_collation(const query *q, int column);

const sdb_index_def *index_def(const query *q, int index);
index_part index_part_at(const query *q, int index, int i);

/* Whether constraint i is an IN list that can come whole. */
bool constraint_is_list(const query *q, int i);

/* Whether constraint i compares by this collation, as far as SQLite says. */
bool constraint_has_collation(const query *q, int i, sdb_collation collation);

/* The collation by which a filter for constraint k compares: it lets through at least what SQLite does. */
sdb_collation filter_collation(const query *q, int k);

/* Whether the value of constraint i is known to be text or a blob: such a one is compared as it is. */
bool constraint_is_text(const query *q, int i);

/* The function that constraint k is, or NULL. */
const index_function *constraint_function(const query *q, int k);

/* The best constraint that gives part i of an index one value, or a list of values; -1: none. A
** column that is there a second time has its value already, and a constraint is one argument. */
int path_find_eq(const query *q, const path *p, int i);

/* How many columns of the index a row has in common with another that differs from it in nothing the
** statement looks at, so that one of the two will do; 0: who knows. Values that are equal in an index
** may differ for a function: 1 and 1.0, 'a' and 'A'. */
int path_distinct(const query *q, const path *p);

/* Whether the statement uses no column but in conditions that it leaves to us, as count(*) does. Rows are
** then counted, not visited, if there are so many that it pays. */
bool path_is_count(const query *q, const path *p);

/* of_table: the constraint by which all paths have to go, or -1. */
path path_best(query *q, int of_table);

/* Find the constraint that says which snapshot is read, or -1. Without it the present would be. */
int query_find_snapshot(const query *q, int *out);

/* Find the constraint whose answer depends on all rows of the table, or -1. SQLite must never come to
** evaluate it itself, for one row: so it has to be the path, or there is none. */
int query_find_of_table(const query *q, int *out);

#endif
