/* plan.c - xBestIndex: which index a statement reads, from where to where, in which order.
**
** Each index is tried as SQLite itself would try one: the constraints with = on its first columns,
** then a range on the next column, then the ORDER BY by what follows. The cheapest is taken. Nothing
** here is exact about types: range.c sees to it that a range misses no row, and SQLite checks every
** constraint again except where the column's affinity makes both sides numbers (omit).
**
** Three things are hidden from xBestIndex, and shape the rules below.
** - The affinity of the other side. `text = 5` compares texts, `text = integer_column` and even
**   `text = CAST(5 AS INTEGER)`, a literal to sqlite3_vtab_rhs_value(), compare numbers. Where the
**   answer may then have several rows, a unique index is not reported as one.
** - Whether = is one column of (a, b) IN (...); sqlite3_vtab_collation() then gives the collation of
**   the first column for all. So the index's collation has to be the column's own, too.
** - An IN list one value at a time is compared by SQLite again, but without the affinity of the list:
**   `text IN (SELECT integer_column)` would lose rows. Such a list has to come whole. */
#include "plan.h"
#include "sql_parser.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    ROWS_MIN = 256, /* a statement prepared on an empty table serves it when it has grown */
    ROWS_EQ = 10,   /* rows that share the first column of an index; one fewer with each further */
    ROWS_EQ_MIN = 5,
    LIST_LENGTH = 8,   /* values in an IN list */
    IN_FLAGS = 32,     /* sqlite3_vtab_in() knows about so many constraints */
    GROUPING_SINCE = 3053000,
    COUNT_MIN = 32, /* rows; counting takes a look-up or two */
    EQ_COUNTED = 8, /* columns of an index that are counted together */
    OMIT_MAX = 16,     /* and omit is heeded for so many */
    FILTER_MAX = 8,    /* columns compared row by row */
    FILTER_SAVES = 16, /* of a filter's cost, when its rows will be found in an index before long */
    TEXT_RESERVE = 120 /* of a plan's text, for one more term, or for "..." */
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

/* ---------------------------------------------------------------- columns */

/* Both names of the rowid are one column. NO_COLUMN: a hidden one. */
static int column_of(const query *q, int column)
{
    const table_sql *def = q->table->def;

    if (column < 0)
        return def->rowid_column;
    if (column == column_revision(def))
        return COLUMN_REVISION;
    return column < def->n_columns ? column : NO_COLUMN;
}

static bool column_is_numeric(const query *q, int column)
{
    const table_sql *def = q->table->def;

    return column == def->rowid_column || column < 0 || def->columns[column].affinity >= AFFINITY_NUMERIC;
}

static sdb_collation column_collation(const query *q, int column)
{
    const table_sql *def = q->table->def;

    return column == def->rowid_column || column < 0 ? SDB_BINARY : def->columns[column].collation;
}

static const sdb_index_def *index_def(const query *q, int index)
{
    static const sdb_part none = {0};
    static const sdb_index_def by_revision = {
        .name = "revision", .unique = true, .n_parts = 1, .parts = &none};

    if (index == SDB_BY_REVISION)
        return &by_revision;
    return view_index(q->view, q->table->table, index);
}

static int index_parts(const query *q, int index)
{
    return index ? index_def(q, index)->n_parts : 1;
}

static index_part index_part_at(const query *q, int index, int i)
{
    if (!index)
        return (index_part){.column = q->table->def->rowid_column};
    if (index == SDB_BY_REVISION)
        return (index_part){.column = COLUMN_REVISION};
    const sdb_part *part = &index_def(q, index)->parts[i];
    return (index_part){part->column, (sdb_collation)part->collation, part->desc};
}

static bool index_is_unique(const query *q, int index)
{
    return !index || index_def(q, index)->unique;
}

/* ---------------------------------------------------------------- constraints */

static bool op_is_eq(int op)
{
    return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS ||
           op == SQLITE_INDEX_CONSTRAINT_ISNULL;
}

static bool op_is_null_test(int op)
{
    return op == SQLITE_INDEX_CONSTRAINT_ISNULL || op == SQLITE_INDEX_CONSTRAINT_ISNOTNULL;
}

/* Whether constraint i may be looked up in a part of an index. */
static bool constraint_fits(const query *q, int i, int index, index_part part)
{
    const struct sqlite3_index_constraint *c = &q->info->aConstraint[i];

    if (!c->usable || column_of(q, c->iColumn) != part.column)
        return false;
    if (!index || op_is_null_test(c->op))
        return true;
    if (op_is_eq(c->op) && part.collation != column_collation(q, part.column))
        return false;
    return sqlite3_stricmp(sqlite3_vtab_collation(q->info, i), sql_collations[part.collation]) == 0;
}

static bool constraint_is_list(const query *q, int i)
{
    return q->info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
           sqlite3_vtab_in(q->info, i, -1);
}

/* Whether the value of constraint i is known to be text or a blob: such a one is compared as it is. */
static bool constraint_is_text(const query *q, int i)
{
    sqlite3_value *value;

    if (sqlite3_vtab_rhs_value(q->info, i, &value) != SQLITE_OK)
        return false;
    int type = sqlite3_value_type(value);
    return type == SQLITE_TEXT || type == SQLITE_BLOB;
}

/* The function that constraint k is, or NULL. */
static const index_function *constraint_function(const query *q, int k)
{
    int i = q->info->aConstraint[k].op - SQLITE_INDEX_CONSTRAINT_FUNCTION;

    return i >= 0 && i < INDEX_FUNCTIONS ? &index_functions[i] : NULL;
}

/* The best constraint that gives part i of an index one value, or a list of values; -1: none. A
** column that is there a second time has its value already, and a constraint is one argument. */
static int path_find_eq(const query *q, const path *p, int i)
{
    index_part part = index_part_at(q, p->index, i);
    bool is_numeric = column_is_numeric(q, part.column);
    int best = -1, best_rank = 0;

    for (int j = 0; j < i; j++)
        if (index_part_at(q, p->index, j).column == part.column)
            return -1;
    for (int k = 0; k < q->info->nConstraint; k++) {
        int op = q->info->aConstraint[k].op;
        if (!op_is_eq(op) || !constraint_fits(q, k, p->index, part))
            continue;
        bool is_list = constraint_is_list(q, k);
        if (!is_numeric && op == SQLITE_INDEX_CONSTRAINT_EQ &&
            (k >= IN_FLAGS || (is_list && p->has_text_list && p->list != i)))
            continue;
        int rank = is_list ? 1 : op == SQLITE_INDEX_CONSTRAINT_EQ ? 3 : 2;
        if (rank > best_rank) {
            best = k;
            best_rank = rank;
        }
    }
    return best;
}

/* A constraint on part i of an index with one of two operators, or -1. */
static int path_find(const query *q, const path *p, int i, int op, int or_op)
{
    index_part part = index_part_at(q, p->index, i);

    for (int k = 0; k < q->info->nConstraint; k++) {
        int k_op = q->info->aConstraint[k].op;
        if ((k_op == op || k_op == or_op) && constraint_fits(q, k, p->index, part))
            return k;
    }
    return -1;
}

/* Whether a column has its one value, or its list, already. */
static bool path_has_equal(const query *q, const path *p, int column)
{
    for (int i = 0; i < p->n_eq; i++)
        if (index_part_at(q, p->index, i).column == column)
            return true;
    for (int i = 0; i < p->n_filter; i++)
        if (column_of(q, q->info->aConstraint[p->filter[i]].iColumn) == column)
            return true;
    return false;
}

/* Take what else is to equal one value as a filter. */
static void path_find_filter(const query *q, path *p)
{
    const struct sqlite3_index_constraint *c = q->info->aConstraint;

    for (int k = 0; k < q->info->nConstraint && k < IN_FLAGS && p->n_filter < FILTER_MAX; k++) {
        int column = column_of(q, c[k].iColumn);
        if (!op_is_eq(c[k].op) || column < 0 || path_has_equal(q, p, column) ||
            constraint_is_list(q, k))
            continue;
        index_part part = {.column = column, .collation = column_collation(q, column)};
        if (constraint_fits(q, k, -1, part))
            p->filter[p->n_filter++] = k;
    }
}

/* ---------------------------------------------------------------- order */

/* Whether the rows of a path, of those that have the same first n columns of the index, all have the
** same value in a column, as its ORDER BY would see it. */
static bool path_is_settled(const query *q, const path *p, int n, int column)
{
    for (int i = 0; i < n || i < p->n_eq; i++) {
        index_part part = index_part_at(q, p->index, i);
        if ((i < n || i != p->list) && part.column == column &&
            part.collation == column_collation(q, column))
            return true;
    }
    return false;
}

/* The first column of the index from n on that has not one value for all rows. */
static int path_next_part(const path *p, int n)
{
    while (n < p->n_eq && n != p->list)
        n++;
    return n;
}

/* Whether a column is one that rows are to be grouped by. */
static bool is_grouped(const query *q, index_part part)
{
    for (int i = 0; i < q->info->nOrderBy; i++)
        if (column_of(q, q->info->aOrderBy[i].iColumn) == part.column)
            return part.collation == column_collation(q, part.column);
    return false;
}

/* Whether the index brings rows together that are equal in all columns asked for, in whatever order. */
static bool path_groups(const query *q, path *p)
{
    int n_parts = index_parts(q, p->index), n = path_next_part(p, 0);

    if (p->is_key)
        return true;
    while (n < n_parts && is_grouped(q, index_part_at(q, p->index, n)))
        n = path_next_part(p, n + 1);
    for (int i = 0; i < q->info->nOrderBy; i++) {
        int column = column_of(q, q->info->aOrderBy[i].iColumn);
        if (column == NO_COLUMN || !path_is_settled(q, p, n, column))
            return false;
    }
    p->n_ordered = n;
    return true;
}

/* Whether the index gives the rows in the order asked for, forwards or in reverse. Rows with equal keys
** follow each other by rowid. */
static bool path_orders(const query *q, path *p)
{
    const sqlite3_index_info *info = q->info;
    int n_parts = index_parts(q, p->index), n = path_next_part(p, 0);
    bool has_direction = false, is_unique = !p->index && p->n_eq && p->list < 0;

    for (int i = 0; i < info->nOrderBy && !is_unique && !p->is_key; i++) {
        int column = column_of(q, info->aOrderBy[i].iColumn);
        bool reverse = info->aOrderBy[i].desc;
        if (column == NO_COLUMN)
            return false;
        if (path_is_settled(q, p, n, column))
            continue;
        if (n < n_parts) {
            index_part part = index_part_at(q, p->index, n);
            if (part.column != column || part.collation != column_collation(q, column))
                return false;
            reverse ^= part.desc;
            n = path_next_part(p, n + 1);
        } else if (column != q->table->def->rowid_column) {
            return false;
        }
        is_unique = column == q->table->def->rowid_column || column == COLUMN_REVISION;
        if (has_direction && reverse != p->reverse)
            return false;
        p->reverse = reverse;
        has_direction = true;
    }
    p->n_ordered = n;
    return true;
}

/* A list that SQLite goes through leaves no order. */
static void path_order(const query *q, path *p)
{
    p->is_ordered = p->reverse = false;
    if (p->n_in > (p->list >= 0))
        return;
    p->is_ordered = (q->is_grouping && path_groups(q, p)) || path_orders(q, p);
    p->reverse &= p->is_ordered;
}

/* How many columns of the index a row has in common with another that differs from it in nothing the
** statement looks at, so that one of the two will do; 0: who knows. Values that are equal in an index
** may differ for a function: 1 and 1.0, 'a' and 'A'. */
static int path_distinct(const query *q, const path *p)
{
    sqlite3_uint64 used = q->info->colUsed;
    int distinct = sqlite3_vtab_distinct(q->info);

    if (distinct < 2 || !p->is_ordered || p->list >= 0 || p->n_filter || p->function >= 0 ||
        p->is_key || !p->index || p->index == SDB_BY_REVISION)
        return 0;
    for (int i = 0; i < p->n_ordered; i++) {
        index_part part = index_part_at(q, p->index, i);
        bool is_same = column_is_numeric(q, part.column) ||
                       (q->table->def->columns[part.column].affinity == AFFINITY_TEXT &&
                        part.collation == SDB_BINARY);
        if (is_same && part.column < 63)
            used &= ~((sqlite3_uint64)1 << part.column);
    }
    return used || p->n_ordered == p->n_eq ? 0 : p->n_ordered;
}

/* ---------------------------------------------------------------- cost */

static double log_2(double n)
{
    double log = 0;

    for (; n > 2; n /= 2)
        log++;
    return log;
}

static bool constraint_is_literal(const query *q, int i)
{
    sqlite3_value *value;

    return sqlite3_vtab_rhs_value(q->info, i, &value) == SQLITE_OK;
}

/* A row that is passed over costs little. Where a filter compares with more than a literal this may be
** the inner side of a join, which is only to be found out when it begins again: then its rows are soon
** looked up. As many rows are expected of that as SQLite expects of its own automatic indexes. */
static void path_estimate_filter(const query *q, path *p)
{
    bool is_join = false;
    double seen = p->rows;

    for (int i = 0; i < p->n_filter; i++)
        is_join |= !constraint_is_literal(q, p->filter[i]);
    p->rows /= 4;
    if (is_join && p->rows > 2 * ROWS_EQ)
        p->rows = 2 * ROWS_EQ;
    if (p->rows < 1)
        p->rows = 1;
    p->cost = p->cost_each = 10 + seen * (p->index ? 3 : 1) + p->rows * 2;
    if (is_join)
        p->cost_each = 10 + seen / FILTER_SAVES + p->rows * 3;
}

/* How many rows have the key that a function asks for, where the statement says which. */
static bool path_count_key(const query *q, const path *p, const index_function *f, double *out)
{
    sqlite3_value *in;
    sdb_value key;
    uint64_t n;

    if (!p->index || f->kind != SDB_MULTI || !f->is_of_key ||
        sqlite3_vtab_rhs_value(q->info, p->function, &in) != SQLITE_OK ||
        value_get(in, &key) != SQLITE_OK || view_count_key(q->now, q->table, p->index, &key, &n))
        return false;
    *out = (double)n;
    return true;
}

/* Whether the statement itself says what constraint i compares with, in the type the column stores. */
static bool constraint_value(const query *q, int i, int column, sdb_value *out)
{
    sqlite3_value *value;

    if (q->info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_ISNULL) {
        *out = (sdb_value){.type = SDB_NULL};
        return true;
    }
    if (sqlite3_vtab_rhs_value(q->info, i, &value) != SQLITE_OK || value_get(value, out) != SQLITE_OK)
        return false;
    return column_is_numeric(q, column) ? out->type == SDB_INTEGER || out->type == SDB_REAL
                                        : out->type == SDB_TEXT;
}

/* How many rows have the values of the path's equal columns, and lie in its bounds as far as these are
** known: *n_open are not. */
static bool path_count(query *q, const path *p, double *out, int *n_open)
{
    sdb_value eq[EQ_COUNTED], lower, upper;
    sdb_range range = {.eq = eq, .n_eq = (uint16_t)p->n_eq};
    bool is_known = p->n_eq <= EQ_COUNTED && p->n_in == 0;

    *n_open = 0;
    for (int i = 0; i < p->n_eq && is_known; i++)
        is_known = constraint_value(q, path_find_eq(q, p, i), index_part_at(q, p->index, i).column, &eq[i]);
    if (!is_known || (p->lower < 0 && p->upper < 0 && p->n_eq == 0)) {
        *n_open = (p->lower >= 0) + (p->upper >= 0);
        return p->n_eq && p->index && p->index != SDB_BY_REVISION &&
               estimate_key(q->now, q->table, p->index, p->n_eq, &q->cursor, out) == SDB_OK;
    }
    int column = p->n_eq < index_parts(q, p->index) ? index_part_at(q, p->index, p->n_eq).column : 0;
    int ops[2] = {0};
    if (p->lower >= 0) {
        ops[0] = q->info->aConstraint[p->lower].op;
        lower = (sdb_value){.type = SDB_NULL};
        if (ops[0] == SQLITE_INDEX_CONSTRAINT_ISNOTNULL || constraint_value(q, p->lower, column, &lower))
            range.lower = &lower;
        *n_open += !range.lower;
    }
    if (p->upper >= 0) {
        ops[1] = q->info->aConstraint[p->upper].op;
        if (constraint_value(q, p->upper, column, &upper))
            range.upper = &upper;
        *n_open += !range.upper;
    }
    range.lower_open = ops[0] != SQLITE_INDEX_CONSTRAINT_GE;
    range.upper_open = ops[1] == SQLITE_INDEX_CONSTRAINT_LT;
    return estimate_range(q->now, q->table, p->index, &range, &q->cursor, out) == SDB_OK;
}

/* Take out of `used` the column of a condition that SQLite leaves to us. */
static void used_drop(const query *q, int k, sqlite3_uint64 *used)
{
    int column = k < 0 || k >= OMIT_MAX ? -1 : column_of(q, q->info->aConstraint[k].iColumn);

    if (column >= 0 && column < 63 && column_is_numeric(q, column))
        *used &= ~((sqlite3_uint64)1 << column);
}

/* Whether the statement uses no column but in conditions that it leaves to us, as count(*) does. Rows are
** then counted, not visited, if there are so many that it pays. */
static bool path_is_count(const query *q, const path *p)
{
    sqlite3_uint64 used = q->info->colUsed;

    if (p->function >= 0 || p->n_filter || p->n_in || p->rows < COUNT_MIN)
        return false;
    for (int i = 0; i < p->n_eq; i++)
        used_drop(q, path_find_eq(q, p, i), &used);
    used_drop(q, p->lower, &used);
    used_drop(q, p->upper, &used);
    return used == 0;
}

/* Where nothing can be counted, SQLite's own guesses for an index without statistics. */
static void path_estimate(query *q, path *p)
{
    const index_function *f = p->function < 0 ? NULL : constraint_function(q, p->function);
    double rows = q->n_rows;
    int n_open;
    bool is_counted = false;

    if (p->is_key) {
        rows = 1;
    } else if (f) {
        if (!path_count_key(q, p, f, &rows))
            rows = f->rows ? f->rows : rows / 16;
    } else if (q->is_counted && path_count(q, p, &rows, &n_open)) {
        is_counted = true;
        for (; n_open > 0; n_open--)
            rows *= 0.25;
    } else if (p->n_eq > 0) {
        double same = ROWS_EQ + 1 - p->n_eq;
        if (same < ROWS_EQ_MIN)
            same = ROWS_EQ_MIN;
        if (same < rows)
            rows = same;
    }
    for (int i = 0; i < p->n_in; i++)
        rows *= LIST_LENGTH;
    if (p->lower >= 0 && !is_counted)
        rows *= op_is_null_test(q->info->aConstraint[p->lower].op) ? 0.95 : 0.25;
    if (p->upper >= 0 && !is_counted)
        rows *= 0.25;
    p->rows = rows < 1 ? 1 : rows > q->n_rows ? q->n_rows : rows;
    /* In rowid order the rows tend to lie beside each other. */
    p->cost = 10 + (f && !p->index ? q->n_rows : p->rows) * (p->index ? 3.5 : 3);
    if (path_is_count(q, p))
        p->cost = 10 + p->rows;
    p->cost_each = p->cost;
    if (p->n_filter)
        path_estimate_filter(q, p);
}

static double path_total(const query *q, const path *p)
{
    bool is_sorted = q->info->nOrderBy == 0 || p->is_ordered;

    return p->cost + (is_sorted ? 0 : p->rows * log_2(p->rows));
}

/* The rows of one key come in order of rowid. */
static void path_order_rowid(const query *q, path *p)
{
    const sqlite3_index_info *info = q->info;

    p->is_ordered = info->nOrderBy == 0 ||
                    column_of(q, info->aOrderBy[0].iColumn) == q->table->def->rowid_column;
    p->reverse = info->nOrderBy > 0 && p->is_ordered && info->aOrderBy[0].desc;
}

/* The path of a function: by an index, or, where the function is of the whole table, without. */
static path path_function(query *q, int index, int k)
{
    const index_function *f = constraint_function(q, k);
    path p = {.index = index, .list = -1, .lower = -1, .upper = -1, .function = k};

    p.is_key = f->is_of_key && index && index_is_unique(q, index);
    if (!index || p.is_key)
        path_order(q, &p);
    else if (f->is_of_key && f->kind == SDB_MULTI)
        path_order_rowid(q, &p);
    else
        p.is_ordered = q->info->nOrderBy == 0;
    path_estimate(q, &p);
    return p;
}

/* Whether constraint k is a function that an index of another kind than values in their order answers. */
static bool function_fits(const query *q, int index, int k)
{
    const sdb_index_def *def = index_def(q, index);
    const index_function *f = constraint_function(q, k);

    return f && f->kind == def->kind && q->info->aConstraint[k].usable &&
           column_of(q, q->info->aConstraint[k].iColumn) == def->parts[0].column;
}

/* The best use of one index of values. */
static path path_try(query *q, int index)
{
    path p = {.index = index, .list = -1, .lower = -1, .upper = -1, .function = -1};
    int n_parts = index_parts(q, index), n_single = 0;

    for (; p.n_eq < n_parts; p.n_eq++) {
        int k = path_find_eq(q, &p, p.n_eq);
        if (k < 0)
            break;
        n_single += q->info->aConstraint[k].op == SQLITE_INDEX_CONSTRAINT_EQ;
        if (constraint_is_list(q, k)) {
            bool is_text = !column_is_numeric(q, index_part_at(q, index, p.n_eq).column);
            if (p.n_in++ == 0 || is_text)
                p.list = p.n_eq;
            p.has_text_list |= is_text;
        }
    }
    p.is_key = index_is_unique(q, index) && n_single == n_parts && p.n_in == 0;
    if (p.n_eq < n_parts) {
        p.lower = path_find(q, &p, p.n_eq, SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_GE);
        p.upper = path_find(q, &p, p.n_eq, SQLITE_INDEX_CONSTRAINT_LT, SQLITE_INDEX_CONSTRAINT_LE);
        if (p.lower < 0 && p.upper < 0)
            p.lower = path_find(q, &p, p.n_eq, SQLITE_INDEX_CONSTRAINT_ISNOTNULL,
                                SQLITE_INDEX_CONSTRAINT_ISNOTNULL);
    }
    if (!p.is_key)
        path_find_filter(q, &p);
    path_order(q, &p);
    path_estimate(q, &p);
    return p;
}

static void path_improve(const query *q, path *best, path p)
{
    if (path_total(q, &p) < path_total(q, best))
        *best = p;
}

/* of_table: the constraint by which all paths have to go, or -1. */
static path path_best(query *q, int of_table)
{
    path best = of_table < 0 ? path_try(q, SDB_BY_ROWID) : path_function(q, SDB_BY_ROWID, of_table);

    for (int i = 1; i <= view_indexes(q->view, q->table->table); i++) {
        if (index_def(q, i)->kind == SDB_RADIX) {
            if (of_table < 0)
                path_improve(q, &best, path_try(q, i));
            continue;
        }
        for (int k = 0; k < q->info->nConstraint; k++)
            if ((of_table < 0 || k == of_table) && function_fits(q, i, k))
                path_improve(q, &best, path_function(q, i, k));
    }
    if (of_table < 0 && view_feeds(q->now, q->table->table))
        path_improve(q, &best, path_try(q, SDB_BY_REVISION));
    return best;
}

/* Find the constraint that says which snapshot is read, or -1. Without it the present would be. */
static int query_find_snapshot(const query *q, int *out)
{
    *out = -1;
    for (int k = 0; k < q->info->nConstraint && *out < 0; k++) {
        const struct sqlite3_index_constraint *c = &q->info->aConstraint[k];
        if (c->iColumn != column_snapshot(q->table->def) ||
            (c->op != SQLITE_INDEX_CONSTRAINT_EQ && c->op != SQLITE_INDEX_CONSTRAINT_IS))
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT; /* the other tables of a join come first */
        *out = k;
    }
    return SQLITE_OK;
}

/* Find the constraint whose answer depends on all rows of the table, or -1. SQLite must never come to
** evaluate it itself, for one row: so it has to be the path, or there is none. */
static int query_find_of_table(const query *q, int *out)
{
    vtable *t = q->table;

    *out = -1;
    for (int k = 0; k < q->info->nConstraint; k++) {
        const index_function *f = constraint_function(q, k);
        if (!f || !f->is_of_table || column_of(q, q->info->aConstraint[k].iColumn) <= NO_COLUMN)
            continue;
        if (!q->info->aConstraint[k].usable)
            return SQLITE_CONSTRAINT; /* the other tables of a join come first */
        if (*out >= 0)
            return error_set(t, SQLITE_ERROR,
                             "one %s at a time: for a second one join the table with itself",
                             f->name);
        if (k >= OMIT_MAX)
            return error_set(t, SQLITE_ERROR, "%s can have %d other conditions beside it at most",
                             f->name, OMIT_MAX - 1);
        *out = k;
    }
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- the plan's text */

static void text_add(plan *p, size_t *n, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    sqlite3_vsnprintf((int)(PLAN_TEXT - *n), p->text + *n, format, ap);
    va_end(ap);
    *n += strlen(p->text + *n);
}

static const char *op_text(int op, bool is_list)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return is_list ? " IN ?" : "=?";
    case SQLITE_INDEX_CONSTRAINT_GT:
        return ">?";
    case SQLITE_INDEX_CONSTRAINT_GE:
        return ">=?";
    case SQLITE_INDEX_CONSTRAINT_LT:
        return "<?";
    case SQLITE_INDEX_CONSTRAINT_LE:
        return "<=?";
    case SQLITE_INDEX_CONSTRAINT_IS:
        return " IS ?";
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
        return " IS NULL";
    default:
        return " IS NOT NULL";
    }
}

/* One more term: "ip=?". */
static void text_add_term(const query *q, plan *p, size_t *n, bool is_first, int column,
                          const char *says)
{
    const char *sep = is_first ? "(" : " AND ";
    const char *name = column == COLUMN_REVISION ? "_revision"
                       : column < 0              ? "rowid"
                                                 : q->table->def->columns[column].name;

    if (PLAN_TEXT - *n > TEXT_RESERVE)
        text_add(p, n, "%s%!.20s%s", sep, name, says);
    else if (p->text[*n - 1] != '.')
        text_add(p, n, "%s...", sep);
}

/* ---------------------------------------------------------------- the plan */

typedef struct writer {
    const query *q;
    const path *path;
    plan *plan;
    plan_term *term; /* the next */
    sdb_part *part;  /* the automatic index's next */
    size_t n_text;
    int n_args;
    bool is_inexact; /* a column used already may make the range a wide one (range.c) */
} writer;

/* Let constraint k be the next argument of xFilter. (The revisions may be gone with the last feed when the
** statement runs.) */
static int16_t writer_use(writer *w, int k, bool is_exact)
{
    struct sqlite3_index_constraint_usage *usage = &w->q->info->aConstraintUsage[k];

    usage->argvIndex = ++w->n_args;
    usage->omit = is_exact && w->path->index != SDB_BY_REVISION;
    return (int16_t)(w->n_args - 1);
}

/* Whether the range may turn out wider than the equal columns. One behind a list takes that with it. */
static bool path_may_widen(const query *q, const path *p)
{
    for (int i = 0; i < p->n_eq; i++)
        if (!column_is_numeric(q, index_part_at(q, p->index, i).column))
            return true;
    return false;
}

/* The automatic path has no lists and no bounds: SQLite checks them again. */
static void writer_add_equals(writer *w)
{
    const query *q = w->q;

    w->plan->path.eq = w->term;
    for (int i = 0; i < w->path->n_eq; i++) {
        int k = path_find_eq(q, w->path, i);
        int column = index_part_at(q, w->path->index, i).column;
        int op = q->info->aConstraint[k].op;
        bool is_list = constraint_is_list(q, k);
        term_op is = op == SQLITE_INDEX_CONSTRAINT_EQ ? TERM_EQ : TERM_IS;
        if (i == w->path->list) {
            is = TERM_IN;
            sqlite3_vtab_in(q->info, k, 1);
        }
        w->is_inexact |= !column_is_numeric(q, column);
        bool is_exact = !w->is_inexact && !(is_list && (w->path->n_filter || path_may_widen(q, w->path)));
        int16_t arg = writer_use(w, k, is_exact);
        *w->term++ = (plan_term){.column = (int16_t)column, .arg = arg, .op = (uint8_t)is};
        w->plan->path.n_eq++;
        text_add_term(q, w->plan, &w->n_text, i == 0, column, op_text(op, is_list));
    }
}

static void writer_add_range(writer *w)
{
    const query *q = w->q;
    const path *p = w->path;
    plan_path *to = &w->plan->path;

    if (p->lower < 0 && p->upper < 0)
        return;
    int column = index_part_at(q, p->index, p->n_eq).column;
    to->range_column = (int16_t)column;
    w->is_inexact |= !column_is_numeric(q, column);
    if (p->lower >= 0) {
        int op = q->info->aConstraint[p->lower].op;
        if (op != SQLITE_INDEX_CONSTRAINT_ISNOTNULL)
            to->lower_arg = writer_use(w, p->lower, !w->is_inexact && !p->n_filter);
        to->lower = (uint8_t)op;
        text_add_term(q, w->plan, &w->n_text, p->n_eq == 0, column, op_text(op, false));
    }
    if (p->upper >= 0) {
        int op = q->info->aConstraint[p->upper].op;
        to->upper_is_literal = constraint_is_text(q, p->upper);
        w->is_inexact |= to->upper_is_literal;
        to->upper_arg = writer_use(w, p->upper, !w->is_inexact && !p->n_filter);
        to->upper = (uint8_t)op;
        text_add_term(q, w->plan, &w->n_text, p->n_eq == 0 && p->lower < 0, column,
                      op_text(op, false));
    }
}

static void writer_add_function(writer *w)
{
    const query *q = w->q;
    const index_function *f = constraint_function(q, w->path->function);
    int column = column_of(q, q->info->aConstraint[w->path->function].iColumn);
    char says[40];

    sqlite3_snprintf(sizeof says, says, " %s ?", strchr(f->name, '_') + 1);
    text_add_term(q, w->plan, &w->n_text, true, column, says);
    w->plan->function = f;
    w->plan->path.range_column = (int16_t)column;
    q->info->aConstraintUsage[w->path->function] =
        (struct sqlite3_index_constraint_usage){.argvIndex = ++w->n_args, .omit = 1};
}

static void writer_add_automatic_term(writer *w, plan_term term)
{
    plan_path *to = &w->plan->automatic;
    const char *says = term.op == TERM_EQ ? "=?" : " IS ?";

    text_add_term(w->q, w->plan, &w->n_text, to->n_eq == 0, term.column, says);
    w->part[to->n_eq] = (sdb_part){.column = (uint16_t)term.column,
                                   .collation = (uint8_t)column_collation(w->q, term.column)};
    w->term[to->n_eq++] = term;
    to->def.n_parts = to->n_eq;
}

/* The numeric columns first: what has been looked up exactly stays so, if it stands before those that
** may widen the range. */
static void writer_add_automatic(writer *w)
{
    const query *q = w->q;
    const plan_path *through = &w->plan->path;
    plan_path *to = &w->plan->automatic;

    to->eq = w->term;
    to->def.parts = w->part;
    text_add(w->plan, &w->n_text, " AUTOMATIC");
    for (int numeric = 1; numeric >= 0; numeric--) {
        for (int i = 0; i < through->n_eq; i++) {
            int column = through->eq[i].column;
            if (column >= 0 && column_is_numeric(q, column) == numeric &&
                !constraint_is_list(q, path_find_eq(q, w->path, i)))
                writer_add_automatic_term(w, through->eq[i]);
        }
        for (int i = 0; i < w->path->n_filter; i++) {
            int k = w->path->filter[i], op = q->info->aConstraint[k].op;
            int column = column_of(q, q->info->aConstraint[k].iColumn);
            if (column_is_numeric(q, column) == numeric)
                writer_add_automatic_term(
                    w, (plan_term){.column = (int16_t)column,
                                   .arg = writer_use(w, k, numeric),
                                   .op = op == SQLITE_INDEX_CONSTRAINT_EQ ? TERM_EQ : TERM_IS,
                                   .is_filter = true});
        }
    }
    text_add(w->plan, &w->n_text, ")");
    w->term += to->n_eq;
}

/* Whether SQLite may be told that there is one row at most. An UPDATE then changes the row at once
** (it reads all columns, which no SELECT does), but looks at one row only: where an argument's type
** shows that there may be several, xFilter has the statement planned again. Elsewhere nothing is
** gained that would be worth it. */
static bool path_is_single(const query *q, const path *p)
{
    const conn *c = q->table->conn;
    bool is_update = q->info->colUsed == ~(sqlite3_uint64)0 && q->table->def->n_columns < 61;

    if (!p->is_key || p->index == SDB_BY_REVISION)
        return false;
    if (is_update && !c->has_doubt)
        return true;
    for (int i = 0; i < p->n_eq; i++)
        if (!column_is_numeric(q, index_part_at(q, p->index, i).column) &&
            !constraint_is_text(q, path_find_eq(q, p, i)))
            return false;
    return true;
}

/* A copy of a definition, in this room; returns what follows it. */
static char *def_copy(const sdb_index_def *from, sdb_index_def *to, char *room)
{
    size_t parts_size = from->n_parts * sizeof *from->parts, n_name = strlen(from->name) + 1;

    *to = *from;
    if (parts_size)
        memcpy(room, from->parts, parts_size);
    memcpy(room + parts_size, from->name, n_name);
    to->parts = (sdb_part *)(void *)room;
    to->name = room + parts_size;
    return room + parts_size + n_name;
}

static size_t def_size(const sdb_index_def *def)
{
    return def->n_parts * sizeof *def->parts + strlen(def->name) + 1;
}

static plan *plan_new(const query *q, const path *from, int n_terms)
{
    const sdb_index_def *def =
        from->index ? index_def(q, from->index) : &(sdb_index_def){.name = "rowid"};
    size_t n = sizeof(plan) + (size_t)n_terms * sizeof(plan_term);
    size_t n_parts = (size_t)(from->n_eq + from->n_filter); /* of the automatic path, at most */
    plan *p = sqlite3_malloc64(n + n_parts * sizeof(sdb_part) + def_size(def));

    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->id = ++q->table->conn->n_plans;
    p->indexes_id = view_indexes_id(q->view, q->table->table);
    p->index = from->index;
    p->automatic.def.name = "automatic";
    def_copy(def, &p->path.def, (char *)(p->term + n_terms) + n_parts * sizeof(sdb_part));
    return p;
}

static void writer_add_snapshot(writer *w, int k)
{
    bool is_eq = w->q->info->aConstraint[k].op == SQLITE_INDEX_CONSTRAINT_EQ;

    w->plan->snapshot_op = is_eq ? TERM_EQ : TERM_IS;
    w->plan->snapshot_arg = writer_use(w, k, true);
    text_add(w->plan, &w->n_text, " SNAPSHOT ?");
}

/* snapshot: the constraint that says which, or -1. */
static plan *plan_write(const query *q, const path *p, int snapshot)
{
    int n_order = p->is_ordered ? q->info->nOrderBy : 0;
    int n_terms = 2 * p->n_eq + p->n_filter + n_order;
    plan *out = plan_new(q, p, n_terms);
    writer w = {.q = q, .path = p, .plan = out};

    if (!out)
        return NULL;
    w.term = out->term;
    w.part = (sdb_part *)(out->term + n_terms);
    text_add(out, &w.n_text, "%!.40s", out->path.def.name);
    if (p->function >= 0)
        writer_add_function(&w);
    writer_add_equals(&w);
    writer_add_range(&w);
    if (w.n_args || out->path.lower)
        text_add(out, &w.n_text, ")");
    if (p->reverse)
        text_add(out, &w.n_text, " DESC");
    if (path_distinct(q, p))
        text_add(out, &w.n_text, " DISTINCT");
    if (p->n_filter)
        writer_add_automatic(&w);
    if (snapshot >= 0)
        writer_add_snapshot(&w, snapshot);
    out->reverse = p->reverse;
    out->is_single = path_is_single(q, p);
    out->n_distinct = (uint16_t)path_distinct(q, p);
    out->is_count = !out->n_distinct && path_is_count(q, p);
    out->order = w.term;
    for (int i = 0; i < n_order; i++)
        w.term[out->n_order++] =
            (plan_term){.column = (int16_t)column_of(q, q->info->aOrderBy[i].iColumn),
                        .desc = q->info->aOrderBy[i].desc};
    return out;
}

/* ---------------------------------------------------------------- xBestIndex */

/* A small table is planned as if it had grown; but beside others it is a small one. */
static void path_scale(path *p, double n_rows)
{
    if (n_rows < 1 || n_rows >= ROWS_MIN)
        return;
    if (p->n_eq == 0)
        p->cost_each *= n_rows / ROWS_MIN;
    if (p->rows > n_rows)
        p->rows = n_rows;
}

/* GROUP BY with ORDER BY, which needs more, looks like GROUP BY alone before 3.53. */
static bool is_grouping(sqlite3_index_info *info)
{
    int distinct = sqlite3_vtab_distinct(info);

    return distinct == 2 || (distinct == 1 && sqlite3_libversion_number() >= GROUPING_SINCE);
}

int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    vtable *t = (vtable *)vtab;
    query q = {.table = t, .info = info, .n_rows = ROWS_MIN};
    view now;
    path best;
    plan *p;
    double n_rows;
    int of_table, snapshot;
    bool is_reading;
    int rc = view_begin(t->store, &now);

    if (rc)
        return error_core(t, rc);
    txn_expire_plans(t->conn, 0);
    is_reading = now.txn && sdb_txn_peek_begin(now.txn);
    if (view_indexes_id(now, t->table)) /* else the table may have to be made first */
        q.view = now;
    q.now = now;
    n_rows = (double)view_count(now, t->table);
    q.is_counted = n_rows > ROWS_MIN;
    if (q.is_counted)
        q.n_rows = n_rows;
    q.is_grouping = is_grouping(info);
    rc = query_find_of_table(&q, &of_table);
    if (rc == SQLITE_OK)
        rc = query_find_snapshot(&q, &snapshot);
    if (rc == SQLITE_OK) {
        best = path_best(&q, of_table);
        p = plan_write(&q, &best, snapshot);
        rc = p ? SQLITE_OK : SQLITE_NOMEM;
    }
    sdb_cursor_free(q.cursor);
    if (now.txn)
        sdb_txn_peek_end(now.txn, is_reading);
    view_end(t->store, now);
    if (rc)
        return rc;
    path_scale(&best, n_rows);
    info->idxNum = best.index;
    info->idxStr = p->text;
    info->needToFreeIdxStr = 1;
    info->idxFlags = p->is_single ? SQLITE_INDEX_SCAN_UNIQUE : 0;
    info->orderByConsumed = best.is_ordered && info->nOrderBy > 0;
    info->estimatedRows = (sqlite3_int64)best.rows;
    info->estimatedCost = best.cost_each;
    return SQLITE_OK;
}

int plan_find_function(sqlite3_vtab *vtab, int argc, const char *name,
                       void (**function)(sqlite3_context *, int, sqlite3_value **), void **arg)
{
    (void)vtab;
    for (int i = 0; argc == 2 && i < INDEX_FUNCTIONS; i++) {
        if (sqlite3_stricmp(name, index_functions[i].name) == 0) {
            *function = index_functions[i].function;
            *arg = (void *)&index_functions[i];
            return SQLITE_INDEX_CONSTRAINT_FUNCTION + i;
        }
    }
    return 0;
}
