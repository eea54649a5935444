/* plan.c - xBestIndex: the best path to a query's rows, written down for the cursor and for people. */
#include "path.h"

#include <stdarg.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    GROUPING_SINCE = 3053000,
    ROWS_TOLD_MIN = 16,
    LIST_TOLD = 2,
    OUTGROWN = 8, /* times as many rows: who knows whether the plan still is a good one */
    TEXT_RESERVE = 120 /* of a plan's text, for one more term, or for "..." */
};

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
        index_part part = index_part_at(q, w->path->index, i);
        int column = part.column;
        int op = q->info->aConstraint[k].op;
        bool is_list = constraint_is_list(q, k);
        term_op is = op == SQLITE_INDEX_CONSTRAINT_EQ ? TERM_EQ : TERM_IS;
        if (i == w->path->list) {
            is = TERM_IN;
            sqlite3_vtab_in(q->info, k, 1);
        }
        w->is_inexact |= !column_is_numeric(q, column) ||
                         (w->path->index && !constraint_has_collation(q, k, part.collation));
        bool is_left_out = column < 0 && w->path->n_filter; /* of the automatic path, which has columns only */
        bool is_exact = !w->is_inexact && !is_left_out &&
                        !(is_list && (w->path->n_filter || path_may_widen(q, w->path)));
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

/* term: of constraint k. */
static void writer_add_automatic_term(writer *w, int k, plan_term term)
{
    plan_path *to = &w->plan->automatic;
    const char *says = term.op == TERM_EQ ? "=?" : " IS ?";

    text_add_term(w->q, w->plan, &w->n_text, to->n_eq == 0, term.column, says);
    w->part[to->n_eq] = (sdb_part){.column = (uint16_t)term.column,
                                   .collation = (uint8_t)filter_collation(w->q, k)};
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
            int k = path_find_eq(q, w->path, i), column = through->eq[i].column;
            if (column >= 0 && column_is_numeric(q, column) == numeric && !constraint_is_list(q, k))
                writer_add_automatic_term(w, k, through->eq[i]);
        }
        for (int i = 0; i < w->path->n_filter; i++) {
            int k = w->path->filter[i], op = q->info->aConstraint[k].op;
            int column = column_of(q, q->info->aConstraint[k].iColumn);
            bool is_exact = numeric && constraint_has_collation(q, k, filter_collation(q, k));
            if (column_is_numeric(q, column) == numeric)
                writer_add_automatic_term(
                    w, k, (plan_term){.column = (int16_t)column,
                                      .arg = writer_use(w, k, is_exact),
                                      .op = op == SQLITE_INDEX_CONSTRAINT_EQ ? TERM_EQ : TERM_IS,
                                      .is_filter = true});
        }
    }
    text_add(w->plan, &w->n_text, ")");
    w->term += to->n_eq;
}

/* Whether there is one row at most, whatever the arguments are. */
static bool path_is_single(const query *q, const path *p)
{
    if (!p->is_key || p->index == SDB_BY_REVISION)
        return false;
    for (int i = 0; i < p->n_eq; i++)
        if (!column_is_numeric(q, index_part_at(q, p->index, i).column) &&
            !constraint_is_text(q, path_find_eq(q, p, i)))
            return false;
    return true;
}

/* Whether an UPDATE (it reads all columns, which no SELECT does) is to count on there being one row. It then
** changes that at once, but looks at one row only: where there are several after all, xFilter has the
** statement planned again. Elsewhere nothing is gained that would be worth it. */
static bool path_is_hoped_single(const query *q, const path *p)
{
    bool is_update = q->info->colUsed == ~(sqlite3_uint64)0 && q->table->def->n_columns < 61;

    if (!is_update || q->table->conn->has_doubt || p->index == SDB_BY_REVISION)
        return false;
    return p->is_key || (p->n_eq > 0 && p->n_in == 0 && p->function < 0 && p->rows <= 1);
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
static bool plan_is_point(const plan *p)
{
    for (int i = 0; i < p->path.n_eq; i++)
        if (p->path.eq[i].op == TERM_IN)
            return false;
    return p->path.n_eq && !p->path.lower && !p->path.upper && !p->function && !p->automatic.n_eq &&
           !p->n_order && !p->n_distinct && !p->is_count && !p->is_hoped_single && !p->snapshot_op &&
           p->index != SDB_BY_REVISION;
}

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
    out->is_hoped_single = !out->is_single && path_is_hoped_single(q, p);
    out->n_distinct = (uint16_t)path_distinct(q, p);
    out->is_count = !out->n_distinct && path_is_count(q, p);
    out->order = w.term;
    for (int i = 0; i < n_order; i++)
        w.term[out->n_order++] =
            (plan_term){.column = (int16_t)column_of(q, q->info->aOrderBy[i].iColumn),
                        .desc = q->info->aOrderBy[i].desc};
    out->is_point = plan_is_point(out);
    return out;
}

/* ---------------------------------------------------------------- xBestIndex */

/* What SQLite is told. Of an IN list the shortest: or it would look for `a = 1 OR a = 2` in two ways, one after
** the other and in no order. A small table is planned as if it had grown; but beside others it is a small one.
** Then all its ways get cheaper by as much, and never a scan cheaper than a few look-ups. */
static void path_scale(path *p, double n_rows)
{
    double n_told = n_rows < ROWS_TOLD_MIN ? ROWS_TOLD_MIN : n_rows;

    for (int i = 0; i < p->n_in; i++) {
        p->cost_each = COST_MIN + (p->cost_each - COST_MIN) * LIST_TOLD / LIST_LENGTH;
        p->rows = p->rows * LIST_TOLD / LIST_LENGTH;
    }
    if (n_rows < 1 || n_rows >= ROWS_MIN)
        return;
    p->cost_each = COST_MIN + (p->cost_each - COST_MIN) * n_told / ROWS_MIN;
    if (p->rows > n_rows)
        p->rows = n_rows;
}

/* GROUP BY with ORDER BY, which needs more, looks like GROUP BY alone before 3.53. */
static bool is_grouping(sqlite3_index_info *info)
{
    int distinct = sqlite3_vtab_distinct(info);

    return distinct == 2 || (distinct == 1 && sqlite3_libversion_number() >= GROUPING_SINCE);
}

/* Whether an expression names the command column, in which there is nothing: most likely it is the name of an
** outer query's column, and means that. UPDATE uses it with all others. */
static bool is_command_used(const query *q)
{
    int command = column_command(q->table->def), n = column_snapshot(q->table->def) + 1;
    sqlite3_uint64 used = q->info->colUsed, all;

    if (n >= 63) /* the last bit is for all columns from there on */
        return false;
    all = ((sqlite3_uint64)1 << n) - 1;
    return (used >> command & 1) && (used & all) != all;
}

int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    vtable *t = (vtable *)vtab;
    query q = {.table = t, .info = info, .n_rows = ROWS_MIN};
    view now;
    path best;
    plan *p = NULL;
    double n_rows;
    int of_table, snapshot;
    bool is_reading;
    int rc;

    if (is_command_used(&q))
        return error_set(t, SQLITE_ERROR, "the column for commands cannot be read; for the column of another table "
                                          "write the name of that before it: x.%s", t->name);
    rc = view_begin(t->store, &now);
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
    p->n_outgrown = OUTGROWN * (uint64_t)(n_rows < ROWS_MIN ? ROWS_MIN : n_rows);
    path_scale(&best, n_rows);
    info->idxNum = best.index;
    info->idxStr = p->text;
    info->needToFreeIdxStr = 1;
    info->idxFlags = p->is_single || p->is_hoped_single ? SQLITE_INDEX_SCAN_UNIQUE : 0;
    info->orderByConsumed = best.is_ordered && info->nOrderBy > 0;
    info->estimatedRows = best.rows < 1 ? 1 : (sqlite3_int64)best.rows;
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
