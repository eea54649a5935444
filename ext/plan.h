/* plan.h - what xBestIndex (plan.c) tells xFilter (cursor.c) of the way it has chosen.
**
** idxNum, the number of the index, is for people. idxStr points to a plan: as a string it is the text
** that EXPLAIN QUERY PLAN shows, and SQLite never looks behind that text's NUL. It keeps the pointer
** as it is and frees it with the statement.
**
**     index, def    the index: its number in the set of indexes that indexes_id stands for, and what
**                   it is, by which it is found in another set; def of the rowid has no parts
**     n_eq          this many columns of the index, from its first, have one value (or, once, a
**                   list of values): term[0 .. n_eq)
**     lower, upper  comparisons with the next column: SQLITE_INDEX_CONSTRAINT_GT, _GE or _ISNOTNULL;
**                   _LT or _LE; 0: none
**     n_order       term[n_eq .. n_eq + n_order) is the ORDER BY that SQLite leaves to the cursor
**     reverse       walk the index from its end; the rows then come in that order
**     function      of range_column: the index answers it, or where that is the rowid's, xFilter finds
**                   the rows in the whole table; its one argument is the function's second. The rest is
**                   not used then. NULL: none
**
** xFilter's arguments are the values of term[0 .. n_eq), of lower (but for _ISNOTNULL), of upper.
** Every one may be of any type: see the head of range.c. */
#ifndef STATEDB_PLAN_H
#define STATEDB_PLAN_H

#include "view.h"

enum { PLAN_TEXT = 256 };

typedef enum {
    TERM_EQ = 1, /* = one value: NULL equals nothing */
    TERM_IS,     /* IS one value, IS NULL */
    TERM_IN      /* IN a list that comes whole, by sqlite3_vtab_in_first(); at most one in a plan */
} term_op;

typedef struct plan_term {
    int16_t column; /* of the table; -1: the rowid */
    uint8_t op;     /* of an equal column: term_op */
    bool desc;      /* of an ORDER BY term */
} plan_term;

typedef struct plan {
    char text[PLAN_TEXT]; /* must be first */
    uint64_t indexes_id;
    int index;
    sdb_index_def def; /* name and parts lie behind term */
    uint16_t n_eq;
    uint16_t n_order;
    uint8_t lower;
    uint8_t upper;
    int16_t range_column;  /* of the table, that lower and upper, or the function, are about */
    bool upper_is_literal; /* upper is text in the statement itself, and may be half of a LIKE */
    bool reverse;
    bool is_single; /* SQLite was told SQLITE_INDEX_SCAN_UNIQUE and may look at one row only */
    const index_function *function;
    plan_term term[];
} plan;

#endif
