/* distinct.c - rows of which SQLite needs one only of those that are the same in the first columns of the
** index: the others are stepped over by a look-up, however many they are.
**
** A look-up goes behind the rows that have all these columns in common, then, where that was the last of
** those that have all but one in common, behind these, and so on: the range is each time of rows that
** share fewer first columns with the one left, and has a bound on the next. */
#include "cursor.h"

SQLITE_EXTENSION_INIT3

enum { STEPS = 4 }; /* a look-up costs as much as so many steps */

static bool is_same(const cursor *cur, const sdb_row *a, const sdb_row *b)
{
    const sdb_part *part = cur->path->def.parts;

    for (int i = cur->plan->n_distinct - 1; i >= cur->path->n_eq; i--) {
        sdb_value x = row_value(cur->table, a, part_column(&part[i]));
        sdb_value y = row_value(cur->table, b, part_column(&part[i]));
        if (value_compare(&x, &y, (sdb_collation)part[i].collation) != 0)
            return false;
    }
    return true;
}

/* Let the range be of the rows behind this one that have the same first n columns. Of the columns that
** the plan has no value for, the first has the plan's own bounds besides. */
static void range_behind(cursor *cur, const sdb_row *row, int n)
{
    const sdb_part *part = cur->path->def.parts;
    bool is_up = part[n].desc == cur->range.reverse;

    cur->range = cur->plan_range;
    if (n > cur->path->n_eq)
        cur->range.lower = cur->range.upper = NULL;
    for (int i = cur->path->n_eq; i < n; i++)
        cur->eq[i] = row_value(cur->table, row, part_column(&part[i]));
    cur->behind = row_value(cur->table, row, part_column(&part[n]));
    cur->range.n_eq = (uint16_t)n;
    if (is_up) {
        cur->range.lower = &cur->behind;
        cur->range.lower_open = true;
    } else {
        cur->range.upper = &cur->behind;
        cur->range.upper_open = true;
    }
}

int distinct_next(cursor *cur, const sdb_row *row)
{
    int n_plan = cur->path->n_eq, rc = SDB_OK;
    int n = cur->plan->n_distinct;

    for (int i = 0; i < STEPS && rc == SDB_OK; i++) {
        rc = sdb_cursor_next(cur->core);
        if (rc == SDB_OK && !is_same(cur, sdb_cursor_row(cur->core), row))
            return SDB_OK;
    }
    if (rc == SDB_DONE)
        n = cur->n_common; /* that was all of the range */
    if (rc < 0)
        return rc;
    for (rc = SDB_DONE; rc == SDB_DONE && n > n_plan; n--) {
        range_behind(cur, row, n - 1);
        cur->n_common = n - 1;
        rc = sdb_cursor_seek(cur->core, &cur->range);
    }
    return rc;
}
