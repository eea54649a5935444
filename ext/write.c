/* write.c - xUpdate: one row into, out of or within a table.
**
** A row goes in three steps: its values as the table stores them (affinity, DEFAULT, NOT NULL),
** every conflict found before anything has changed, and then the change, which core/ does wholly or
** not at all. So xUpdate is atomic by itself, as it must be: SQLite makes no savepoint for a single
** row. The conflict mode of the statement is applied by SQLite to the code returned; only REPLACE,
** which deletes the rows in the way, is done here. */
#include "view.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { RANDOM_ROWID_TRIES = 100 }; /* as SQLite */

/* ---------------------------------------------------------------- DEFAULT */

/* The statement stays at its row, which holds the text or blob, until defaults_reset. */
static int default_value(vtable *t, int column, sdb_value *out)
{
    const column_sql *def = &t->def->columns[column];
    size_t n_bytes = (size_t)t->def->n_columns * sizeof *t->defaults;
    sqlite3_stmt **stmt;
    char *sql;
    int rc = SQLITE_OK;

    if (!t->defaults) {
        t->defaults = sqlite3_malloc64(n_bytes);
        if (!t->defaults)
            return SQLITE_NOMEM;
        memset(t->defaults, 0, n_bytes);
    }
    stmt = &t->defaults[column];
    if (!*stmt) {
        rc = expression_check_functions(t, def->default_sql);
        if (rc)
            return rc;
        sql = sqlite3_mprintf("SELECT %s", def->default_sql);
        if (!sql)
            return SQLITE_NOMEM;
        rc = sqlite3_prepare_v3(t->conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
        sqlite3_free(sql);
    }
    if (!rc)
        rc = expression_step(t->store, *stmt);
    if (rc == SQLITE_ROW)
        return value_get_affinity(sqlite3_column_value(*stmt, 0), def->affinity, out);
    if (rc == SQLITE_NOMEM)
        return rc;
    return error_set(t, rc, "column %s: DEFAULT: %s", def->name, sqlite3_errmsg(t->conn->db));
}

static void defaults_reset(vtable *t)
{
    for (int i = 0; t->defaults && i < t->def->n_columns; i++)
        sqlite3_reset(t->defaults[i]);
}

void write_defaults_free(vtable *t)
{
    for (int i = 0; t->defaults && i < t->def->n_columns; i++)
        sqlite3_finalize(t->defaults[i]);
    sqlite3_free(t->defaults);
}

/* ---------------------------------------------------------------- values */

/* Whether what is in the way is to be replaced: by the statement, or where that says nothing by the
** constraint's clause. To SQLite OR ABORT says nothing. */
static bool is_replace(vtable *t, uint8_t clause)
{
    int mode = sqlite3_vtab_on_conflict(t->conn->db);

    return mode == SQLITE_REPLACE || (mode == SQLITE_ABORT && clause == SQLITE_REPLACE);
}

/* NULL in a NOT NULL column: its DEFAULT where SQLite would take it. An INSERT may not have named
** the column; SQLite does not tell, it says NULL. */
static int not_null_fill(vtable *t, int column, bool is_insert)
{
    const column_sql *def = &t->def->columns[column];
    int rc = SQLITE_OK;

    if (def->default_sql && (is_insert || is_replace(t, def->not_null_conflict)))
        rc = default_value(t, column, &t->row[column]);
    if (!rc && t->row[column].type == SDB_NULL)
        rc = error_not_null(t, column);
    return rc;
}

/* The row's values into t->row, as they are to be stored. What an UPDATE does not name comes from
** the old row. */
static int values_read(vtable *t, sqlite3_value **argv, const sdb_row *old)
{
    const table_sql *def = t->def;
    bool has_gap = false; /* a NULL that may not be */
    int rc = SQLITE_OK;

    for (int i = 0; !rc && i < def->n_columns; i++) {
        if (i == def->rowid_column)
            continue;
        if (old && sqlite3_value_nochange(argv[i]))
            t->row[i] = sdb_row_value(t->table, old, i);
        else
            rc = value_get_affinity(argv[i], def->columns[i].affinity, &t->row[i]);
        has_gap |= !rc && def->columns[i].not_null && t->row[i].type == SDB_NULL;
    }
    for (int i = 0; !rc && has_gap && i < def->n_columns; i++)
        if (i != def->rowid_column && def->columns[i].not_null && t->row[i].type == SDB_NULL)
            rc = not_null_fill(t, i, !old);
    return rc;
}

/* An UPDATE hands back what it has read, unless it has been told to write something else. What it has
** read of a row that it has changed already (UPDATE FROM with several matches) is not known any
** more. */
static int revision_check(vtable *t, sqlite3_value *value, const sdb_row *old)
{
    bool is_same = old ? sqlite3_value_nochange(value) ||
                             sdb_row_revision(old) > t->read_revision ||
                             (uint64_t)sqlite3_value_int64(value) == sdb_row_revision(old)
                       : sqlite3_value_type(value) == SQLITE_NULL;

    if (is_same)
        return SQLITE_OK;
    return error_set(t, SQLITE_ERROR, "_revision is read only: it counts the changes of the table");
}

/* Only a cursor on a named snapshot gives the column a value. */
static int snapshot_check(vtable *t, sqlite3_value *value)
{
    if (sqlite3_value_type(value) == SQLITE_NULL || sqlite3_value_nochange(value))
        return SQLITE_OK;
    return error_set(t, SQLITE_ERROR, "rows of a snapshot cannot be written: _snapshot is read only");
}

/* What an INSERT, or the UPDATE of a row, may not write. */
static int hidden_check(vtable *t, sqlite3_value **values, const sdb_row *old)
{
    int rc = snapshot_check(t, values[column_snapshot(t->def)]);

    return rc ? rc : revision_check(t, values[column_revision(t->def)], old);
}

/* ---------------------------------------------------------------- rowids */

static int rowid_get(sqlite3_value *value, int64_t *out)
{
    sdb_value v;
    int rc;

    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *out = sqlite3_value_int64(value);
        return SQLITE_OK;
    }
    rc = value_get_affinity(value, AFFINITY_INTEGER, &v);
    if (!rc && v.type != SDB_INTEGER)
        return SQLITE_MISMATCH; /* SQLite's own text: datatype mismatch */
    if (!rc)
        *out = v.u.i;
    return rc;
}

/* One more than the largest; when that is used up, any that is free, as SQLite does it. */
static int rowid_new(vtable *t, int64_t *out)
{
    sdb_txn *txn = t->store->txn;
    int64_t rowid = 0;
    int rc = sdb_txn_last_rowid(txn, t->table, &rowid);

    if (rc < 0)
        return error_core(t, rc);
    if (t->def->has_sequence && rowid < sdb_txn_sequence(txn, t->table))
        rowid = sdb_txn_sequence(txn, t->table);
    if (rowid < INT64_MAX) {
        *out = rowid + 1;
        return SQLITE_OK;
    }
    for (int i = 0; i < RANDOM_ROWID_TRIES && !t->def->has_sequence; i++) {
        sqlite3_randomness(sizeof rowid, &rowid);
        rowid = (rowid & (INT64_MAX >> 1)) + 1;
        if (!sdb_txn_get(txn, t->table, rowid)) {
            *out = rowid;
            return SQLITE_OK;
        }
    }
    return SQLITE_FULL; /* SQLite's own text: database or disk is full */
}

/* argv[1] is what was given for rowid, in the row's own column it is what was given for that. */
static int rowid_insert(vtable *t, sqlite3_value **argv, int64_t *out)
{
    int column = t->def->rowid_column;

    if (column >= 0 && sqlite3_value_type(argv[2 + column]) != SQLITE_NULL)
        return rowid_get(argv[2 + column], out);
    if (sqlite3_value_type(argv[1]) != SQLITE_NULL)
        return rowid_get(argv[1], out);
    return rowid_new(t, out);
}

static int rowid_update(vtable *t, sqlite3_value **argv, int64_t old, int64_t *out)
{
    int column = t->def->rowid_column;
    int rc = SQLITE_OK;

    *out = old;
    if (column >= 0 && !sqlite3_value_nochange(argv[2 + column]))
        rc = rowid_get(argv[2 + column], out);
    if (!rc && *out == old)
        rc = rowid_get(argv[1], out);
    return rc;
}

/* ---------------------------------------------------------------- rows */

/* REPLACE: delete the rows that the staged one clashes with, of each index as many as there are. A
** savepoint is made before the first; *savepoint is -1 without. The old row must be looked up again
** after each change. */
static int victims_delete(vtable *t, const sdb_row **old, int *savepoint)
{
    sdb_txn *txn = t->store->txn;
    int64_t rowid = *old ? sdb_row_rowid(*old) : 0;
    int n_indexes = sdb_txn_indexes(txn, t->table);
    int rc = SDB_OK;

    for (int i = 0; !rc && i <= n_indexes;) {
        const sdb_row *victim = sdb_stage_clash(txn, i, *old);
        i += !victim;
        if (!victim)
            continue;
        if (*savepoint < 0)
            rc = sdb_txn_savepoint(txn, savepoint);
        if (!rc)
            rc = sdb_delete(txn, t->table, victim);
        if (!rc && *old)
            *old = sdb_txn_get(txn, t->table, rowid);
    }
    return rc;
}

static int staged_replace(vtable *t, const sdb_row *old)
{
    sdb_txn *txn = t->store->txn;
    int savepoint = -1;
    int rc = victims_delete(t, &old, &savepoint);

    if (!rc)
        rc = sdb_stage_put(txn, old);
    if (savepoint >= 0) {
        if (rc)
            sdb_txn_rollback_to(txn, savepoint);
        sdb_txn_release(txn, savepoint);
    }
    return error_core(t, rc);
}

/* The ON CONFLICT clause of an index. Those of constraints are the first ones, and stay that. */
static uint8_t index_clause(const table_sql *def, int index)
{
    if (!index)
        return def->rowid_conflict;
    return index <= def->n_indexes ? def->indexes[index - 1].conflict : 0;
}

static int index_check(vtable *t, int index, const sdb_row *old, bool *must_replace)
{
    if (!sdb_stage_clash(t->store->txn, index, old))
        return SQLITE_OK;
    if (!is_replace(t, index_clause(t->def, index)))
        return error_unique(t, index);
    *must_replace = true;
    return SQLITE_OK;
}

/* Find the conflict that is an error. SQLite checks the rowid first, and then the youngest index; but
** last of all those with the clause REPLACE, whatever the statement says. */
static int staged_check(vtable *t, const sdb_row *old, bool *must_replace)
{
    int n_indexes = sdb_txn_indexes(t->store->txn, t->table);
    int rc = index_check(t, SDB_BY_ROWID, old, must_replace);

    for (int is_late = 0; !rc && is_late <= t->def->has_replace; is_late++)
        for (int i = n_indexes; !rc && i > 0; i--)
            if ((index_clause(t->def, i) == SQLITE_REPLACE) == is_late)
                rc = index_check(t, i, old, must_replace);
    return rc;
}

/* Other rows are in the way of the staged one. */
static int staged_settle(vtable *t, const sdb_row *old)
{
    bool must_replace = is_replace(t, 0);
    int rc = must_replace ? SQLITE_OK : staged_check(t, old, &must_replace);

    assert(rc || must_replace);
    if (!rc)
        rc = staged_replace(t, old);
    sdb_stage_drop(t->store->txn);
    return rc;
}

/* Put t->row into the table under this rowid, in place of `old` where that is not NULL. */
static int row_put(vtable *t, int64_t rowid, const sdb_row *old)
{
    int rc = sdb_put_over(t->store->txn, t->table, old, rowid, t->row);

    if (rc == SDB_NOTPREFIX || rc == SDB_NOTSET)
        return refused_row(t, rowid, rc);
    return rc == SDB_EXISTS ? staged_settle(t, old) : error_core(t, rc);
}

/* AUTOINCREMENT: a rowid is used up by a row that is ignored, too. */
static int sequence_advance(vtable *t, int64_t rowid, int rc)
{
    sdb_txn *txn = t->store->txn;
    bool is_ignored = (rc & 0xff) == SQLITE_CONSTRAINT &&
                      sqlite3_vtab_on_conflict(t->conn->db) == SQLITE_IGNORE;

    if ((rc && !is_ignored) || rowid <= sdb_txn_sequence(txn, t->table))
        return rc;
    int rc_core = sdb_txn_set_sequence(txn, t->table, rowid);
    return rc_core ? error_core(t, rc_core) : rc;
}

static int row_insert(vtable *t, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    int64_t new_rowid = 0;
    int rc = hidden_check(t, argv + 2, NULL);

    if (!rc)
        rc = rowid_insert(t, argv, &new_rowid);
    if (rc)
        return rc;
    rc = values_read(t, argv + 2, NULL);
    if (!rc && t->def->n_checks)
        rc = check_row(t, new_rowid, NULL, argv + 2);
    if (!rc)
        rc = row_put(t, new_rowid, NULL);
    if (t->def->has_sequence)
        rc = sequence_advance(t, new_rowid, rc);
    if (!rc)
        *rowid = new_rowid;
    return rc;
}

/* A row that is gone was deleted by REPLACE for one before it in the same statement: SQLite passes
** over it in an ordinary table too. */
static int row_update(vtable *t, sqlite3_value **argv)
{
    int64_t rowid = sqlite3_value_int64(argv[0]);
    const sdb_row *old = sdb_txn_get(t->store->txn, t->table, rowid);
    sqlite3_value *command = argv[2 + column_command(t->def)];
    int rc;

    if (!old)
        return SQLITE_OK;
    if (!sqlite3_value_nochange(command) && sqlite3_value_type(command) != SQLITE_NULL)
        return error_set(t, SQLITE_ERROR, "a command is given by INSERT");
    rc = hidden_check(t, argv + 2, old);
    if (!rc)
        rc = rowid_update(t, argv, rowid, &rowid);
    if (!rc)
        rc = values_read(t, argv + 2, old);
    if (!rc && t->def->n_checks)
        rc = check_row(t, rowid, old, argv + 2);
    if (!rc)
        rc = row_put(t, rowid, old);
    return rc;
}

static int row_delete(vtable *t, int64_t rowid)
{
    const sdb_row *old = sdb_txn_get(t->store->txn, t->table, rowid);

    return old ? error_core(t, sdb_delete(t->store->txn, t->table, old)) : SQLITE_OK;
}

/* ---------------------------------------------------------------- xUpdate */

int write_begin(vtable *t)
{
    int rc = t->is_in_file ? vtable_refuse_file(t) : lock_wanted(t);

    if (!rc)
        rc = lock_take(t);
    if (rc)
        return rc;
    t->store->n_writes++;
    t->store->is_blank = false;
    return SQLITE_OK;
}

int write_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    vtable *t = (vtable *)vtab;
    bool is_insert = argc > 1 && sqlite3_value_type(argv[0]) == SQLITE_NULL;
    int rc;

    if (is_insert && sqlite3_value_type(argv[2 + column_command(t->def)]) != SQLITE_NULL) {
        *rowid = sqlite3_last_insert_rowid(t->conn->db);
        rc = txn_verify(t->conn);
        return rc ? rc : command_run(t, argv[2 + column_command(t->def)]);
    }
    rc = write_begin(t);
    if (rc)
        return rc;
    if (argc == 1)
        return row_delete(t, sqlite3_value_int64(argv[0]));
    rc = is_insert ? row_insert(t, argv, rowid) : row_update(t, argv);
    defaults_reset(t);
    return rc;
}
