/* check.c - CHECK: SQLite evaluates the expressions over the row that is about to be written.
**
** One prepared statement for each table object does it:
**
**     SELECT CASE WHEN ?2 AND NOT (expression) THEN 0 WHEN ?3 AND NOT (...) THEN 1 ... END
**       FROM (SELECT r0.c1 COLLATE NOCASE AS "name", ... FROM temp.statedb_txn(?1, 0) AS r0)
**
** The answer is the first CHECK that fails. The transaction manager's table (transaction.c) has this one
** row, for whom has the pointer ?1; to all others it has none. Its columns are there for their
** affinities: a column of the table that an expression names takes the next one of its own affinity.
** SQLite takes the subquery apart, and compares with the names in it as with columns of that affinity
** and collation. The table itself cannot be read instead: it would not be disconnected before its own
** statement is gone; nor a table in main: its file would be locked.
**
** What an UPDATE does not touch is not checked again (?2, ?3 ...), as in SQLite. */
#include "ext.h"
#include "index_sql.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    AFFINITIES = AFFINITY_REAL - AFFINITY_BLOB + 1,
    SLOTS = 8, /* columns of each affinity; where there are more, the row is joined with itself */
    MAX_ROWS = 64,  /* SQLite's limit on a join */
    FIRST_SLOT = 1, /* the manager's own column comes first */
    HIDDEN_ROW = FIRST_SLOT + AFFINITIES * SLOTS,
    HIDDEN_FROM
};

enum { ROWID = -1 }; /* among columns */

struct checker {
    sqlite3_stmt *stmt;
    const sdb_value *values; /* of the row to be checked */
    int64_t rowid;
    bool *is_due;  /* of each CHECK: what the statement has in its parameter */
    int *ref_end;  /* of each CHECK: the end of its columns in refs */
    int16_t *refs; /* the columns that the CHECKs name */
    int n_slots[AFFINITIES];
    int16_t *slots[AFFINITIES]; /* the columns that stand in the row's of that affinity */
};

static const char pointer_type[] = "statedb_row";

/* ---------------------------------------------------------------- the row */

typedef struct row_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    checker *checker;         /* NULL: no row */
    int from;                 /* its columns begin with this slot of each affinity */
} row_cursor;

int check_row_declare(sqlite3 *db)
{
    static const char *const types[] = {"BLOB", "TEXT", "NUM", "INT", "REAL"};
    sqlite3_str *sql = sqlite3_str_new(db);
    char *text;
    int rc;

    sqlite3_str_appendall(sql, "CREATE TABLE x(statedb, ");
    for (int i = 0; i < AFFINITIES * SLOTS; i++)
        sqlite3_str_appendf(sql, "c%d %s, ", i, types[i / SLOTS]);
    sqlite3_str_appendall(sql, "row HIDDEN, \"from\" HIDDEN)");
    text = sqlite3_str_finish(sql);
    rc = text ? sqlite3_declare_vtab(db, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    return rc;
}

/* idxNum: whether both arguments are there. */
int check_row_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    int n = 0;

    (void)vtab;
    for (int column = HIDDEN_ROW; column <= HIDDEN_FROM; column++) {
        for (int i = 0; i < info->nConstraint; i++) {
            const struct sqlite3_index_constraint *c = &info->aConstraint[i];
            if (c->usable && c->op == SQLITE_INDEX_CONSTRAINT_EQ && c->iColumn == column) {
                info->aConstraintUsage[i].argvIndex = ++n;
                info->aConstraintUsage[i].omit = true;
                break;
            }
        }
        if (n == column - HIDDEN_ROW) /* without the first the second is not wanted either */
            break;
    }
    info->idxNum = n == 2;
    info->estimatedCost = 1;
    info->estimatedRows = 1;
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    return SQLITE_OK;
}

int check_row_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    row_cursor *cur = sqlite3_malloc(sizeof *cur);

    (void)vtab;
    if (!cur)
        return SQLITE_NOMEM;
    *cur = (row_cursor){0};
    *out = &cur->base;
    return SQLITE_OK;
}

int check_row_close(sqlite3_vtab_cursor *cur)
{
    sqlite3_free(cur);
    return SQLITE_OK;
}

int check_row_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                     sqlite3_value **argv)
{
    row_cursor *cur = (row_cursor *)base;

    (void)idx_str;
    (void)argc;
    cur->checker = idx_num ? sqlite3_value_pointer(argv[0], pointer_type) : NULL;
    if (cur->checker)
        cur->from = sqlite3_value_int(argv[1]);
    return SQLITE_OK;
}

int check_row_next(sqlite3_vtab_cursor *cur)
{
    ((row_cursor *)cur)->checker = NULL;
    return SQLITE_OK;
}

int check_row_eof(sqlite3_vtab_cursor *cur)
{
    return !((row_cursor *)cur)->checker;
}

int check_row_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const row_cursor *cur = (const row_cursor *)base;
    const checker *ck = cur->checker;
    int at = column - FIRST_SLOT, kind = at / SLOTS, slot = cur->from + at % SLOTS;

    if (at < 0 || column >= HIDDEN_ROW || slot >= ck->n_slots[kind])
        return SQLITE_OK;
    const sdb_value *value = &ck->values[ck->slots[kind][slot]];
    if (value->type == SDB_TEXT) /* perhaps without a NUL behind it */
        sqlite3_result_text(ctx, value->u.p, (int)value->n, SQLITE_STATIC);
    else
        value_result(ctx, value);
    return SQLITE_OK;
}

int check_row_rowid(sqlite3_vtab_cursor *cur, sqlite3_int64 *rowid)
{
    *rowid = ((row_cursor *)cur)->checker->rowid;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- names in expressions */

static bool is_rowid_name(const char *name)
{
    return sqlite3_stricmp(name, "rowid") == 0 || sqlite3_stricmp(name, "oid") == 0 ||
           sqlite3_stricmp(name, "_rowid_") == 0;
}

/* Note the columns that an expression names. It may be one too many: what looks like the name of a
** column can be that of a function. */
static int refs_add(checker *ck, const table_sql *def, int *n, const char *expression)
{
    sql_token t = {.text = expression};

    for (sql_token_next(&t); t.kind != TOKEN_END; sql_token_next(&t)) {
        char *name;
        int column;
        if (t.kind != TOKEN_WORD && t.kind != TOKEN_NAME)
            continue;
        name = sql_dequote(t.text, t.length);
        if (!name)
            return SQLITE_NOMEM;
        column = column_find(def, name);
        if (column >= 0 || is_rowid_name(name))
            ck->refs[(*n)++] = (int16_t)(column == def->rowid_column ? ROWID : column);
        sqlite3_free(name);
    }
    return SQLITE_OK;
}

/* An expression without the names of its table, which ALTER TABLE may change and SQLite does not
** insist on a schema's in. is_new: that of the table has to be right. */
static void expression_append(sqlite3_str *sql, const char *expression, bool is_new)
{
    sql_token t = {.text = expression};
    const char *from = expression;

    for (sql_token_next(&t); t.kind != TOKEN_END;) {
        sql_token dot = t, next;
        sql_token_next(&dot);
        next = dot;
        sql_token_next(&next);
        sql_token_next(&next);
        if (sql_token_is_name(&t) && dot.kind == '.' && (!is_new || next.kind == '.')) {
            sqlite3_str_append(sql, from, (int)(t.text - from));
            from = dot.text + 1;
        }
        t = dot;
    }
    sqlite3_str_appendall(sql, from);
}

/* ---------------------------------------------------------------- the statement */

static bool is_ref(const checker *ck, int n_refs, int column)
{
    for (int i = 0; i < n_refs; i++)
        if (ck->refs[i] == column)
            return true;
    return false;
}

/* The columns that are named, under their names; the first in any case, so that there is one. */
static void source_append(checker *ck, const table_sql *def, int n_refs, sqlite3_str *sql)
{
    static const char *const rowid_names[] = {"rowid", "oid", "_rowid_"};
    int n_rows = 1;

    sqlite3_str_appendall(sql, "(SELECT ");
    for (int i = 0; i < def->n_columns; i++) {
        const column_sql *column = &def->columns[i];
        int kind = column->affinity - AFFINITY_BLOB, slot = ck->n_slots[kind];
        if (i == def->rowid_column) {
            sqlite3_str_appendf(sql, "%sr0.rowid AS \"%w\"", i ? ", " : "", column->name);
        } else if (i == 0 || is_ref(ck, n_refs, i)) {
            ck->slots[kind][ck->n_slots[kind]++] = (int16_t)i;
            sqlite3_str_appendf(sql, "%sr%d.c%d COLLATE %s AS \"%w\"", i ? ", " : "", slot / SLOTS,
                                kind * SLOTS + slot % SLOTS, sql_collations[column->collation],
                                column->name);
            if (n_rows <= slot / SLOTS)
                n_rows = slot / SLOTS + 1;
        }
    }
    for (int i = 0; i < 3; i++)
        if (column_find(def, rowid_names[i]) < 0)
            sqlite3_str_appendf(sql, ", r0.rowid AS %s", rowid_names[i]);
    sqlite3_str_appendall(sql, " FROM ");
    for (int i = 0; i < n_rows; i++)
        sqlite3_str_appendf(sql, "%stemp.statedb_txn(?1, %d) AS r%d", i ? ", " : "", i * SLOTS, i);
    sqlite3_str_appendf(sql, ") AS \"%w\"", def->name);
}

/* is_new: not to be run, but to be prepared, for what SQLite says against it. WHERE takes no
** aggregates, as a CHECK takes none. */
static char *checker_sql(checker *ck, const table_sql *def, int n_refs, bool is_new)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);

    sqlite3_str_appendall(sql, is_new ? "SELECT 1 FROM " : "SELECT CASE");
    if (is_new) {
        source_append(ck, def, n_refs, sql);
        sqlite3_str_appendall(sql, " WHERE CASE");
    }
    for (int i = 0; i < def->n_checks; i++) {
        sqlite3_str_appendf(sql, " WHEN ?%d AND NOT (", i + 2);
        expression_append(sql, def->checks[i].expression, is_new);
        sqlite3_str_appendf(sql, "\n) THEN %d", i); /* it may end in a comment */
    }
    sqlite3_str_appendall(sql, " END");
    if (!is_new) {
        sqlite3_str_appendall(sql, " FROM ");
        source_append(ck, def, n_refs, sql);
    }
    return sqlite3_str_finish(sql);
}

static void checker_free(checker *ck)
{
    if (!ck)
        return;
    sqlite3_finalize(ck->stmt);
    sqlite3_free(ck->is_due);
    sqlite3_free(ck->ref_end);
    sqlite3_free(ck->refs);
    sqlite3_free(ck->slots[0]);
    sqlite3_free(ck);
}

void check_free(vtable *t)
{
    checker_free(t->checker);
}

/* The columns that the expressions name are no more than the bytes of these. */
static int checker_alloc(checker *ck, const table_sql *def)
{
    size_t n_checks = (size_t)def->n_checks, n_columns = (size_t)def->n_columns, n_refs = 1;

    for (int i = 0; i < def->n_checks; i++)
        n_refs += strlen(def->checks[i].expression);
    ck->is_due = sqlite3_malloc64(n_checks * sizeof *ck->is_due);
    ck->ref_end = sqlite3_malloc64(n_checks * sizeof *ck->ref_end);
    ck->refs = sqlite3_malloc64(n_refs * sizeof *ck->refs);
    ck->slots[0] = sqlite3_malloc64(AFFINITIES * n_columns * sizeof **ck->slots);
    if (!ck->is_due || !ck->ref_end || !ck->refs || !ck->slots[0])
        return SQLITE_NOMEM;
    memset(ck->is_due, 0, n_checks * sizeof *ck->is_due);
    for (int i = 1; i < AFFINITIES; i++)
        ck->slots[i] = ck->slots[0] + (size_t)i * n_columns;
    return SQLITE_OK;
}

static int checker_prepare(checker *ck, vtable *t, int n_refs, bool is_new)
{
    sqlite3 *db = t->conn->db;
    char *sql = checker_sql(ck, t->def, n_refs, is_new);
    int rc;

    if (!sql)
        return SQLITE_NOMEM;
    for (int i = 0; i < AFFINITIES; i++) {
        if (ck->n_slots[i] > MAX_ROWS * SLOTS) {
            sqlite3_free(sql);
            return error_set(t, SQLITE_ERROR,
                             "the CHECKs name more than %d columns of one affinity",
                             MAX_ROWS * SLOTS);
        }
    }
    rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &ck->stmt, NULL);
    sqlite3_free(sql);
    if (!rc)
        rc = sqlite3_bind_pointer(ck->stmt, 1, ck, pointer_type, NULL);
    if (!rc || rc == SQLITE_NOMEM)
        return rc;
    return is_new ? error_set(t, rc, "%s", sqlite3_errmsg(db))
                  : error_text(t, rc, sqlite3_errmsg(db));
}

static int checker_new(vtable *t, bool is_new, checker **out)
{
    const table_sql *def = t->def;
    checker *ck = sqlite3_malloc(sizeof *ck);
    int n_refs = 0;
    int rc;

    if (!ck)
        return SQLITE_NOMEM;
    *ck = (checker){0};
    rc = checker_alloc(ck, def);
    for (int i = 0; !rc && i < def->n_checks; i++) {
        rc = refs_add(ck, def, &n_refs, def->checks[i].expression);
        ck->ref_end[i] = n_refs;
    }
    if (!rc)
        rc = checker_prepare(ck, t, n_refs, is_new);
    if (rc)
        checker_free(ck);
    else
        *out = ck;
    return rc;
}

int check_prepare(vtable *t)
{
    checker *ck;
    int rc;

    if (!t->def->n_checks)
        return SQLITE_OK;
    rc = checker_new(t, true, &ck);
    if (!rc)
        checker_free(ck);
    return rc;
}

/* ---------------------------------------------------------------- a row */

/* Tell the statement which CHECKs are due. */
static int checks_choose(vtable *t, const sdb_row *old, sqlite3_value **argv, bool *is_any)
{
    checker *ck = t->checker;
    bool has_moved = old && sdb_row_rowid(old) != ck->rowid;
    int rc = SQLITE_OK;

    *is_any = false;
    for (int i = 0, k = 0; !rc && i < t->def->n_checks; i++) {
        bool is_due = !old;
        for (; k < ck->ref_end[i]; k++)
            is_due |= ck->refs[k] == ROWID ? has_moved : !sqlite3_value_nochange(argv[ck->refs[k]]);
        *is_any |= is_due;
        if (is_due != ck->is_due[i])
            rc = sqlite3_bind_int(ck->stmt, i + 2, is_due);
        if (!rc)
            ck->is_due[i] = is_due;
    }
    return rc;
}

static bool is_ignored(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    bool is_on = false;

    if (sqlite3_prepare_v2(db, "PRAGMA ignore_check_constraints", -1, &stmt, NULL))
        return false;
    if (sqlite3_step(stmt) == SQLITE_ROW)
        is_on = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return is_on;
}

/* After a step of the statement: none fails; one does; or an error, in its own words. */
static int checks_answer(vtable *t, int rc)
{
    sqlite3 *db = t->conn->db;
    sqlite3_stmt *stmt = t->checker->stmt;

    if (rc == SQLITE_ROW && sqlite3_column_type(stmt, 0) == SQLITE_NULL)
        return SQLITE_OK;
    if (rc == SQLITE_NOMEM || (rc & 0xff) == SQLITE_ABORT)
        return rc;
    if (rc == SQLITE_ROW)
        rc = error_check(t, sqlite3_column_int(stmt, 0));
    else
        rc = error_text(t, sqlite3_extended_errcode(db), sqlite3_errmsg(db));
    return (rc & 0xff) == SQLITE_CONSTRAINT && is_ignored(db) ? SQLITE_OK : rc;
}

int check_row(vtable *t, int64_t rowid, const sdb_row *old, sqlite3_value **argv)
{
    bool is_any;
    int rc = SQLITE_OK;

    if (!t->checker) {
        for (int i = 0; !rc && i < t->def->n_checks; i++)
            rc = expression_check_functions(t, t->def->checks[i].expression);
        if (!rc)
            rc = checker_new(t, false, &t->checker);
    }
    if (rc)
        return rc;
    t->checker->values = t->row;
    t->checker->rowid = rowid;
    rc = checks_choose(t, old, argv, &is_any);
    if (rc || !is_any)
        return rc;
    rc = checks_answer(t, expression_step(t->store, t->checker->stmt));
    sqlite3_reset(t->checker->stmt);
    return rc;
}
