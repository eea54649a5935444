/* automatic.c - indexes that the table has not, made by a cursor for itself and those after it.
**
** SQLite makes automatic indexes of ordinary tables for joins on columns without an index, of virtual
** tables never. Nor does xBestIndex tell a join from a single look: `=` may be with a column of another
** table or with a parameter. So nothing is decided beforehand. The cursor compares the rows one by one;
** when it has passed over more rows in vain than the table has, it has begun again at least once, and
** then an index costs less than to go on like that. A single pass makes none.
**
** Where the index of a plan is no more in the version that is read - it was dropped, or its creation
** undone, under a running statement - the cursor makes one of its definition at once, and the statement
** goes on as it was planned: the same rows in the same order.
**
** The index is of the version that the cursor has open, and goes when that is closed. open.c keeps
** closed cursors that have one, for the next cursor of the same plan. */
#include "cursor.h"

SQLITE_EXTENSION_INIT3

enum { VAIN_MIN = 64 }; /* rows that are compared faster than any index is made */

void automatic_drop(cursor *cur)
{
    sdb_sorted_free(cur->sorted);
    cur->sorted = NULL;
    cur->path = NULL;
}

int automatic_make(cursor *cur, const plan_path *path)
{
    vtable *t = cursor_vtable(cur);
    sdb_stop stop = conn_stop(t->conn);
    sdb_sorted *sorted;
    int rc = sdb_sorted_new(cur->core, &path->def, &stop, &sorted);

    if (rc == SDB_OK)
        rc = sdb_cursor_read(cur->core, sorted);
    if (rc != SDB_OK)
        return error_core(t, rc);
    sdb_sorted_free(cur->sorted);
    cur->sorted = sorted;
    cur->path = path;
    return SQLITE_OK;
}

int automatic_try(cursor *cur, const plan *p)
{
    uint64_t n_rows;

    if (cur->path == &p->automatic || cur->n_vain < VAIN_MIN)
        return SQLITE_OK;
    int rc = sdb_cursor_count(cur->core, &(sdb_range){0}, &n_rows);
    if (rc != SDB_OK)
        return error_core(cursor_vtable(cur), rc);
    return cur->n_vain < n_rows ? SQLITE_OK : automatic_make(cur, &p->automatic);
}
