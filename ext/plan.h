/* plan.h - what xBestIndex (plan.c) tells xFilter (cursor.c) of the way it has chosen.
**
** idxNum, the number of the index, is for people. idxStr points to a plan: as a string it is the text
** that EXPLAIN QUERY PLAN shows, and SQLite never looks behind that text's NUL. It keeps the pointer
** as it is and frees it with the statement.
**
** A plan has a PATH to rows: a range of an index. It may have another, AUTOMATIC: by all columns that
** are to equal something, of which the index lacks some. Those are compared row by row, as a filter;
** and when that has gone on for long, since the inner side of a join begins again and again, the cursor
** makes an index for that path and looks there (automatic.c).
**
** xFilter's arguments are the values of the terms' and bounds' `arg`. Every one may be of any type: see
** the head of range.c. */
#ifndef STATEDB_PLAN_H
#define STATEDB_PLAN_H

#include "view.h"

enum { PLAN_TEXT = 256 };

/* As a column: the row's revision. */
enum { COLUMN_REVISION = -3 };

static inline int part_column(const sdb_part *part)
{
    return part->column == SDB_REVISION_COLUMN ? COLUMN_REVISION : part->column;
}

/* The value of a row in a column; -1: the rowid; COLUMN_REVISION. */
static inline sdb_value row_value(const sdb_table *table, const sdb_row *row, int column)
{
    if (column >= 0)
        return sdb_row_value(table, row, column);
    int64_t number = column == COLUMN_REVISION ? (int64_t)sdb_row_revision(row) : sdb_row_rowid(row);
    return (sdb_value){.type = SDB_INTEGER, .u.i = number};
}

typedef enum {
    TERM_EQ = 1, /* = one value: NULL equals nothing */
    TERM_IS,     /* IS one value, IS NULL */
    TERM_IN      /* IN a list that comes whole, by sqlite3_vtab_in_first(); at most one in a plan */
} term_op;

typedef struct plan_term {
    int16_t column; /* of the table; -1: the rowid; or COLUMN_REVISION */
    int16_t arg;    /* of an equal column: its value's place among xFilter's arguments */
    uint8_t op;     /* of an equal column: term_op */
    bool is_filter; /* of an equal column of the automatic path: the index has it not */
    bool desc;      /* of an ORDER BY term */
} plan_term;

/* A range of an index: this many columns, from its first, have one value (or, once, a list of values);
** the next lies between bounds. */
typedef struct plan_path {
    sdb_index_def def; /* what the index is; no parts: the rowid */
    const plan_term *eq;
    uint16_t n_eq;
    uint8_t lower; /* SQLITE_INDEX_CONSTRAINT_GT, _GE or _ISNOTNULL (whose argument says nothing); 0: none */
    uint8_t upper; /* _LT or _LE; 0: none */
    int16_t lower_arg;
    int16_t upper_arg;
    int16_t range_column;  /* of the table, that lower and upper, or the plan's function, are about */
    bool upper_is_literal; /* upper is text in the statement itself, and may be half of a LIKE */
} plan_path;

typedef struct plan {
    char text[PLAN_TEXT]; /* must be first */
    uint64_t id;          /* no other plan of the connection ever has it */
    uint64_t indexes_id;
    uint64_t n_outgrown; /* a table with more rows than this had better be planned for anew */
    int index; /* its number in the set of indexes that indexes_id stands for */
    plan_path path;
    plan_path automatic; /* n_eq is 0: there is none */
    const plan_term *order; /* the ORDER BY that SQLite leaves to the cursor */
    uint16_t n_order;
    uint16_t n_distinct; /* of rows with the same first columns of the index one will do; 0: all */
    uint8_t snapshot_op;  /* TERM_EQ or TERM_IS: the rows are those of a named snapshot; 0: the present */
    int16_t snapshot_arg; /* its name's place among xFilter's arguments */
    bool is_count;  /* most likely no column of a row will be asked for, only that it is there */
    bool is_point;  /* all there is to it is one value for each of the path's equal columns */
    bool reverse;   /* walk the index from its end; the rows then come in that order */
    bool is_single; /* SQLite was told SQLITE_INDEX_SCAN_UNIQUE and may look at one row only */
    bool is_hoped_single; /* the same, but there may be several: xFilter looks */
    const index_function *function; /* of path.range_column: the index answers it, or where that is the
                                    ** rowid's, xFilter finds the rows in the whole table; its one
                                    ** argument is the function's second. The rest of the path is not
                                    ** used then. NULL: none */
    plan_term term[]; /* of the three; then the definitions' parts and names */
} plan;

/* estimate.c. Both an SDB_ code; where it is not SDB_OK, nobody knows. *cur is made when it is NULL, and
** is the caller's to free. How many rows a range has; how many rows have the same first n_eq columns of
** an index, on average (t->estimates remembers). */
int estimate_range(view v, vtable *t, int index, const sdb_range *range, sdb_cursor **cur, double *out);
int estimate_key(view v, vtable *t, int index, int n_eq, sdb_cursor **cur, double *out);

#endif
