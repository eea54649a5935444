/* check.c - CHECK: SQLite evaluates the expressions over the row that is about to be written.
**
** One prepared statement for each table object does it:
**
**     SELECT CASE WHEN ?2 AND NOT (expression) THEN 0 WHEN ?3 AND NOT (...) THEN 1 ... END
**       FROM (SELECT r0.c1 COLLATE NOCASE AS "name", ... FROM statedb_row(?1, 0) AS r0)
**
** The answer is the first CHECK that fails. statedb_row is an eponymous table of one row, which is
** reached by the pointer ?1. Its columns are there for their affinities; a column of the table that
** an expression names takes the next one of its own affinity. SQLite takes the subquery apart, and
** compares with the names in it as with columns of that affinity and collation. The table itself
** cannot be read instead: it would not be disconnected before its own statement is gone.
**
** What an UPDATE does not touch is not checked again (?2, ?3 ...), as in SQLite. */
#include "ext.h"
#include "index_sql.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    AFFINITIES = AFFINITY_REAL - AFFINITY_BLOB + 1,
    SLOTS = 32, /* columns of each affinity; of more there are further statedb_rows in the join */
    HIDDEN_ROW = AFFINITIES * SLOTS,
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
    int16_t *slots[AFFINITIES]; /* the columns that stand in statedb_row's of that affinity */
};

static const char pointer_type[] = "statedb_row";

/* ---------------------------------------------------------------- the table statedb_row */

typedef struct row_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    checker *checker;         /* NULL: no row */
    int from;                 /* its columns begin with this slot of each affinity */
} row_cursor;

static int row_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **err)
{
    static const char *const types[] = {"BLOB", "TEXT", "NUMERIC", "INTEGER", "REAL"};
    sqlite3_str *sql = sqlite3_str_new(db);
    char *text;
    int rc;

    (void)aux;
    (void)argc;
    (void)argv;
    (void)err;
    sqlite3_str_appendall(sql, "CREATE TABLE x(");
    for (int i = 0; i < HIDDEN_ROW; i++)
        sqlite3_str_appendf(sql, "c%d %s, ", i, types[i / SLOTS]);
    sqlite3_str_appendall(sql, "row HIDDEN, \"from\" HIDDEN)");
    text = sqlite3_str_finish(sql);
    if (!text)
        return SQLITE_NOMEM;
    rc = sqlite3_declare_vtab(db, text);
    sqlite3_free(text);
    if (rc)
        return rc;
    *out = sqlite3_malloc(sizeof **out);
    if (!*out)
        return SQLITE_NOMEM;
    **out = (sqlite3_vtab){0};
    return SQLITE_OK;
}

static int row_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

/* idxNum: whether both arguments are there. */
static int row_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
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

static int row_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    row_cursor *cur = sqlite3_malloc(sizeof *cur);

    (void)vtab;
    if (!cur)
        return SQLITE_NOMEM;
    *cur = (row_cursor){0};
    *out = &cur->base;
    return SQLITE_OK;
}

static int row_close(sqlite3_vtab_cursor *cur)
{
    sqlite3_free(cur);
    return SQLITE_OK;
}

static int row_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
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

static int row_next(sqlite3_vtab_cursor *cur)
{
    ((row_cursor *)cur)->checker = NULL;
    return SQLITE_OK;
}

static int row_eof(sqlite3_vtab_cursor *cur)
{
    return !((row_cursor *)cur)->checker;
}

static int row_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const row_cursor *cur = (const row_cursor *)base;
    const checker *ck = cur->checker;
    int i = column / SLOTS, slot = cur->from + column % SLOTS;

    if (column < HIDDEN_ROW && slot < ck->n_slots[i])
        value_result(ctx, &ck->values[ck->slots[i][slot]]);
    return SQLITE_OK;
}

static int row_rowid(sqlite3_vtab_cursor *cur, sqlite3_int64 *rowid)
{
    *rowid = ((row_cursor *)cur)->checker->rowid;
    return SQLITE_OK;
}

static const sqlite3_module row_module = {
    .xConnect = row_connect,
    .xBestIndex = row_best_index,
    .xDisconnect = row_disconnect,
    .xOpen = row_open,
    .xClose = row_close,
    .xFilter = row_filter,
    .xNext = row_next,
    .xEof = row_eof,
    .xColumn = row_column,
    .xRowid = row_rowid,
};

int check_register(conn *c)
{
    return sqlite3_create_module_v2(c->db, "statedb_row", &row_module, NULL, NULL);
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
        sqlite3_str_appendf(sql, "%sstatedb_row(?1, %d) AS r%d", i ? ", " : "", i * SLOTS, i);
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

static int checker_new(vtable *t, bool is_new, checker **out)
{
    const table_sql *def = t->def;
    sqlite3 *db = t->conn->db;
    checker *ck = sqlite3_malloc(sizeof *ck);
    char *sql = NULL;
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
    if (!rc) {
        sql = checker_sql(ck, def, n_refs, is_new);
        rc = sql ? sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &ck->stmt, NULL)
                 : SQLITE_NOMEM;
    }
    sqlite3_free(sql);
    if (!rc)
        rc = sqlite3_bind_pointer(ck->stmt, 1, ck, pointer_type, NULL);
    if (rc && rc != SQLITE_NOMEM)
        rc = is_new ? error_set(t, rc, "%s", sqlite3_errmsg(db))
                    : error_text(t, rc, sqlite3_errmsg(db));
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
