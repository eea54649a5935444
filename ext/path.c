/* path.c - the ways to answer a query: each index and what can be used of it, the order it gives, and what
** that costs.
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
**   the first column for all. So an index has to find what is equal by that one and by the column's own;
**   it may find more.
** - An IN list one value at a time is compared by SQLite again, but without the affinity of the list:
**   `text IN (SELECT integer_column)` would lose rows. Such a list has to come whole. */
#include "path.h"
#include "sql_parser.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    ROWS_EQ = 10, /* rows that share the first column of an index; one fewer with each further */
    ROWS_EQ_MIN = 5,
    IN_FLAGS = 32,   /* sqlite3_vtab_in() knows about so many constraints */
    NOT_NULL_SINCE = 3051000, /* before, x NOTNULL in the ON of x LEFT JOIN y is said to be a condition for x */
    COUNT_MIN = 32,  /* rows; counting takes a look-up or two */
    EQ_COUNTED = 8,  /* columns of an index that are counted together */
    OMIT_MAX = 16,   /* and omit is heeded for so many */
    FILTER_SAVES = 16 /* of a filter's cost, when its rows will be found in an index before long */
};

/* ---------------------------------------------------------------- columns */

int column_of(const query *q, int column)
{
    const table_sql *def = q->table->def;

    if (column < 0)
        return def->rowid_column;
    if (column == column_revision(def))
        return COLUMN_REVISION;
    return column < def->n_columns ? column : NO_COLUMN;
}

bool column_is_numeric(const query *q, int column)
{
    const table_sql *def = q->table->def;

    return column == def->rowid_column || column < 0 || def->columns[column].affinity >= AFFINITY_NUMERIC;
}

sdb_collation column_collation(const query *q, int column)
{
    const table_sql *def = q->table->def;

    return column == def->rowid_column || column < 0 ? SDB_BINARY : def->columns[column].collation;
}

const sdb_index_def *index_def(const query *q, int index)
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

index_part index_part_at(const query *q, int index, int i)
{
    if (!index)
        return (index_part){.column = q->table->def->rowid_column};
    if (index == SDB_BY_REVISION)
        return (index_part){.column = COLUMN_REVISION};
    const sdb_part *part = &index_def(q, index)->parts[i];
    return (index_part){part_column(part), (sdb_collation)part->collation, part->desc};
}

/* Whether SQLite has the values of a part in the order of the index. In a database of UTF-16 it compares
** BINARY text by the bytes of that. */
static bool part_is_in_order(const query *q, index_part part)
{
    return !q->table->conn->is_utf16 || part.collation != SDB_BINARY || part.column < 0 ||
           part.column == q->table->def->rowid_column;
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

bool constraint_is_list(const query *q, int i)
{
    return q->info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
           sqlite3_vtab_in(q->info, i, -1);
}

static bool constraint_is_literal(const query *q, int i)
{
    sqlite3_value *value;

    return sqlite3_vtab_rhs_value(q->info, i, &value) == SQLITE_OK;
}

bool constraint_has_collation(const query *q, int i, sdb_collation collation)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(q->info, i), sql_collations[collation]) == 0;
}

/* Whether a collation finds equal at least what constraint i, with =, may. */
static bool collation_covers(const query *q, int i, sdb_collation collation)
{
    sdb_collation own = column_collation(q, column_of(q, q->info->aConstraint[i].iColumn));

    if (!constraint_has_collation(q, i, collation) && !constraint_has_collation(q, i, SDB_BINARY))
        return false;
    return own == collation || own == SDB_BINARY || constraint_is_list(q, i) || constraint_is_literal(q, i);
}

/* Whether constraint i may be looked up in a part of an index. */
static bool constraint_fits(const query *q, int i, int index, index_part part)
{
    const struct sqlite3_index_constraint *c = &q->info->aConstraint[i];

    if (!c->usable || column_of(q, c->iColumn) != part.column)
        return false;
    if (!index || op_is_null_test(c->op))
        return true;
    return op_is_eq(c->op) ? collation_covers(q, i, part.collation)
                           : constraint_has_collation(q, i, part.collation);
}

bool constraint_is_text(const query *q, int i)
{
    sqlite3_value *value;

    if (sqlite3_vtab_rhs_value(q->info, i, &value) != SQLITE_OK)
        return false;
    int type = sqlite3_value_type(value);
    return type == SQLITE_TEXT || type == SQLITE_BLOB;
}

const index_function *constraint_function(const query *q, int k)
{
    int i = q->info->aConstraint[k].op - SQLITE_INDEX_CONSTRAINT_FUNCTION;

    return i >= 0 && i < INDEX_FUNCTIONS ? &index_functions[i] : NULL;
}

int path_find_eq(const query *q, const path *p, int i)
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

sdb_collation filter_collation(const query *q, int k)
{
    sdb_collation own = column_collation(q, column_of(q, q->info->aConstraint[k].iColumn));
    sdb_collation collation = SDB_BINARY;

    while (!constraint_has_collation(q, k, collation) && collation < SDB_RTRIM)
        collation++;
    return collation_covers(q, k, collation) ? collation : own;
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
        index_part part = {.column = column, .collation = filter_collation(q, k)};
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
    for (int i = 0; i < p->n_filter; i++) { /* text that equals a number is not one value */
        int k = p->filter[i];
        if (column_of(q, q->info->aConstraint[k].iColumn) == column && column_is_numeric(q, column) &&
            constraint_has_collation(q, k, column_collation(q, column)))
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
            if (part.column != column || part.collation != column_collation(q, column) ||
                !part_is_in_order(q, part))
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

int path_distinct(const query *q, const path *p)
{
    sqlite3_uint64 used = q->info->colUsed;
    int distinct = sqlite3_vtab_distinct(q->info);

    if (distinct < 2 || !p->is_ordered || p->list >= 0 || p->n_filter || p->function >= 0 ||
        p->is_key || !p->index || p->index == SDB_BY_REVISION)
        return 0;
    for (int i = 0; i < p->n_ordered; i++) {
        index_part part = index_part_at(q, p->index, i);
        bool is_same = part.column >= 0 && part.column < 63 && part.collation == SDB_BINARY &&
                       (column_is_numeric(q, part.column) ||
                        q->table->def->columns[part.column].affinity == AFFINITY_TEXT);
        if (is_same)
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
    p->cost = p->cost_each = COST_MIN + seen * (p->index ? 3 : 1) + p->rows * 2;
    if (is_join)
        p->cost_each = COST_MIN + seen / FILTER_SAVES + p->rows * 3;
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

bool path_is_count(const query *q, const path *p)
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

    if (p->is_keys) {
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
    p->cost = COST_MIN + (f && !p->index ? q->n_rows : p->rows) * (p->index ? 3.5 : 3);
    if (path_is_count(q, p))
        p->cost = COST_MIN + p->rows;
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

    p.is_key = p.is_keys = f->is_of_key && index && index_is_unique(q, index);
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
    p.is_keys = index_is_unique(q, index) && n_single == n_parts;
    p.is_key = p.is_keys && p.n_in == 0;
    if (p.n_eq < n_parts) {
        if (part_is_in_order(q, index_part_at(q, index, p.n_eq))) {
            p.lower = path_find(q, &p, p.n_eq, SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_GE);
            p.upper = path_find(q, &p, p.n_eq, SQLITE_INDEX_CONSTRAINT_LT, SQLITE_INDEX_CONSTRAINT_LE);
        }
        if (p.lower < 0 && p.upper < 0 && sqlite3_libversion_number() >= NOT_NULL_SINCE)
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

path path_best(query *q, int of_table)
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

int query_find_snapshot(const query *q, int *out)
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

int query_find_of_table(const query *q, int *out)
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
