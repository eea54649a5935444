/* feed_vtab.c - a feed as a table: CREATE VIRTUAL TABLE host_feed USING statedb_feed(host).
**
** Its rows are what the feed of that name has not acknowledged (core/statedb.h), in the order of commits;
** DELETE acknowledges. A feed belongs to the table it follows, in the store, under the name of the virtual
** table: this object has nothing but those two names, looks them up with every use, and says so when one
** of them is not there any more.
**
** What is shown is committed. While the connection has a transaction of its own, core reads the moment
** from which that began, and leaves out what it has itself acknowledged. Reading a feed does not bind a
** transaction to that moment (view_ready): the reader could acknowledge nothing as soon as somebody else
** has written the table. */
#include "sql_parser.h"
#include "view.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

typedef struct feed {
    sqlite3_vtab base; /* must be first */
    conn *conn;
    char *name;
    char *of;     /* the table that it follows, as it is to be named in errors */
    store *store; /* that one's; NULL: there was no such table when SQLite connected this one */
    char *key;    /* its name there */
    char *sql;    /* its definition */
    int n_columns;
} feed;

typedef struct feed_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    sdb_changes *changes;
    sdb_snapshot *own; /* what is read in a transaction; made when it is first needed */
    bool on_snapshot;  /* of the store: counted in its n_standing */
    sdb_table *table;
    const sdb_row *row; /* NULL at the end */
    uint64_t last;      /* the largest revision to show */
} feed_cursor;

/* Columns behind those of the table. */
enum { REVISION, OP, ROWID };

/* idxNum: which conditions on _revision are xFilter's arguments, in this order. */
enum { REVISION_EQ = 1, REVISION_GT = 2, REVISION_GE = 4, REVISION_LT = 8, REVISION_LE = 16 };

/* ---------------------------------------------------------------- errors */

static int feed_error(feed *f, int rc, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    sqlite3_free(f->base.zErrMsg);
    f->base.zErrMsg = text ? sqlite3_mprintf("statedb: %s: %z", f->name, text) : NULL;
    return f->base.zErrMsg ? rc : SQLITE_NOMEM;
}

static int feed_error_core(feed *f, int core_rc)
{
    int rc = error_code(core_rc);

    if (rc == SQLITE_OK || rc == SQLITE_NOMEM || rc == SQLITE_INTERRUPT)
        return rc;
    return feed_error(f, rc, "%s", sdb_errmsg(core_rc));
}

static int feed_error_ended(feed *f)
{
    return feed_error(f, SQLITE_ERROR,
                      "the feed has been ended, in statedb_feeds or with the table %s; to begin anew, "
                      "drop %s and create it again",
                      f->of, f->name);
}

/* ---------------------------------------------------------------- the table that is followed */

static int feed_table(feed *f, view v, sdb_table **out)
{
    *out = f->store ? view_table(v, f->key) : NULL;
    if (!*out)
        return feed_error(f, SQLITE_ERROR,
                          "there is no table %s, which it follows: a feed ends with its table; where that "
                          "has been renamed, drop %s and create it with the new name, and it goes on",
                          f->of, f->name);
    if (!table_sql_is_same(sdb_table_sql(*out), f->sql))
        return feed_error(f, SQLITE_ERROR,
                          "the table %s, which it follows, has been made anew with other columns: drop %s "
                          "and create it again",
                          f->of, f->name);
    return SQLITE_OK;
}

/* To be changed, something of the feed's. */
static int feed_lock(feed *f, sdb_table **out)
{
    int rc = lock_take_named(f->store, f->key, f->name, out, &f->base.zErrMsg);

    return rc ? rc : feed_table(f, (view){.txn = f->store->txn}, out);
}

static bool feed_is_there(const feed *f, view v, const sdb_table *table)
{
    return (v.txn ? sdb_txn_find_feed(v.txn, table, f->name)
                  : sdb_snapshot_find_feed(v.snapshot, table, f->name)) >= 0;
}

/* `schema.table`, or a table alone: *schema is NULL then. Both to be freed, after an error too. */
static int argument_parse(feed *f, const char *text, char **schema, char **table)
{
    sql_token first = {.text = text}, t;

    sql_token_next(&first);
    t = first;
    sql_token_next(&t);
    if (sql_token_is_name(&first) && t.kind == '.') {
        *schema = sql_dequote(first.text, first.length);
        if (!*schema)
            return SQLITE_NOMEM;
        sql_token_next(&t);
        first = t;
        sql_token_next(&t);
    }
    if (!sql_token_is_name(&first) || t.kind != TOKEN_END)
        return feed_error(f, SQLITE_ERROR, "'%s' is not the name of a table to follow", text);
    *table = sql_dequote(first.text, first.length);
    return *table ? SQLITE_OK : SQLITE_NOMEM;
}

static int columns_declare(feed *f, const table_sql *def)
{
    sqlite3_str *text = sqlite3_str_new(f->conn->db);
    char *sql;
    int rc;

    sqlite3_str_appendall(text, "CREATE TABLE x(");
    for (int i = 0; i < f->n_columns; i++)
        sqlite3_str_appendf(text, "\"%w\" \"%w\" COLLATE %s, ", def->columns[i].name, def->columns[i].type,
                            sql_collations[def->columns[i].collation]);
    sqlite3_str_appendall(text, "_revision INTEGER, _op TEXT, _rowid INTEGER HIDDEN)");
    sql = sqlite3_str_finish(text);
    rc = sql ? sqlite3_declare_vtab(f->conn->db, sql) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_ERROR)
        rc = feed_error(f, rc, "%s: a table with a column named _op or _rowid cannot be followed",
                        sqlite3_errmsg(f->conn->db));
    return rc;
}

/* Without the table the feed is there to be dropped; but it is not created. */
static int table_connect(feed *f, const char *schema, const char *name, bool is_new)
{
    vtable *t;
    int rc;

    f->of = schema ? sqlite3_mprintf("%s.%s", schema, name) : sqlite3_mprintf("%s", name);
    if (!f->of)
        return SQLITE_NOMEM;
    rc = vtable_named(f->conn, schema, name, &t);
    if (rc && rc != SQLITE_NOMEM && is_new)
        return feed_error(f, rc, "%s", sqlite3_errmsg(f->conn->db));
    if (rc && rc != SQLITE_ERROR)
        return rc;
    if (!t && is_new)
        return feed_error(f, SQLITE_ERROR, "%s is not a statedb table", f->of);
    if (!t)
        return columns_declare(f, NULL);
    f->store = t->store;
    f->n_columns = t->def->n_columns;
    f->key = sqlite3_mprintf("%s", t->key);
    f->sql = sqlite3_mprintf("%s", t->def->sql);
    return f->key && f->sql ? columns_declare(f, t->def) : SQLITE_NOMEM;
}

/* ---------------------------------------------------------------- create, drop */

static void feed_free(feed *f)
{
    txn_object_gone(f->conn);
    conn_unref(f->conn);
    sqlite3_free(f->base.zErrMsg);
    sqlite3_free(f->name);
    sqlite3_free(f->of);
    sqlite3_free(f->key);
    sqlite3_free(f->sql);
    sqlite3_free(f);
}

/* Join the feed of this name, or make one. */
static int feed_join(feed *f)
{
    store *s = f->store;
    sdb_table *table;
    bool is_there = false;
    view v;
    int rc = feed_error_core(f, view_begin(s, &v));

    if (rc)
        return rc;
    rc = feed_table(f, v, &table);
    if (!rc)
        is_there = feed_is_there(f, v, table);
    view_end(s, v);
    if (!rc && !is_there)
        rc = feed_lock(f, &table);
    if (rc || is_there)
        return rc;
    rc = sdb_txn_create_feed(s->txn, table, f->name);
    if (!rc)
        txn_indexes_changed(s, false); /* there may be revisions now */
    return rc == SDB_EXISTS ? SQLITE_OK : feed_error_core(f, rc);
}

static int feed_start(feed *f, int argc, const char *const *argv, bool is_new)
{
    const char *file = sqlite3_db_filename(f->conn->db, argv[1]);
    char *schema = NULL, *table = NULL;
    int rc = SQLITE_OK;

    if (is_new && file && *file)
        return feed_error(f, SQLITE_ERROR,
                          "schema %s is a database file, but where a feed stands is in memory, with the "
                          "table it follows: create it in temp, where it goes on if it is there already",
                          argv[1]);
    if (argc != 4)
        return feed_error(f, SQLITE_ERROR,
                          "statedb_feed has one argument, the table to follow: statedb_feed(host)");
    rc = argument_parse(f, argv[3], &schema, &table);
    if (!rc)
        rc = table_connect(f, schema, table, is_new);
    sqlite3_free(schema);
    sqlite3_free(table);
    if (!rc && is_new)
        rc = feed_join(f);
    return rc;
}

static int feed_make(conn *c, int argc, const char *const *argv, bool is_new, sqlite3_vtab **out,
                     char **err)
{
    feed *f;
    int rc = txn_verify(c);

    f = rc ? NULL : sqlite3_malloc(sizeof *f);
    if (!f)
        return rc ? rc : SQLITE_NOMEM;
    *f = (feed){.conn = conn_ref(c)};
    txn_object_come(c);
    f->name = sqlite3_mprintf("%s", argv[2]);
    rc = f->name ? feed_start(f, argc, argv, is_new) : SQLITE_NOMEM;
    if (!rc)
        rc = sqlite3_vtab_config(c->db, SQLITE_VTAB_INNOCUOUS);
    if (rc) {
        *err = f->base.zErrMsg;
        f->base.zErrMsg = NULL;
        feed_free(f);
        return rc;
    }
    *out = &f->base;
    return SQLITE_OK;
}

static int feed_create(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                       char **err)
{
    (void)db;
    return feed_make(aux, argc, argv, true, out, err);
}

static int feed_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                        char **err)
{
    (void)db;
    return feed_make(aux, argc, argv, false, out, err);
}

static int feed_disconnect(sqlite3_vtab *vtab)
{
    feed_free((feed *)vtab);
    return SQLITE_OK;
}

static int feed_destroy(sqlite3_vtab *vtab)
{
    feed *f = (feed *)vtab;
    sdb_table *table = NULL;
    int rc = SQLITE_OK;

    if (f->store)
        rc = lock_take_named(f->store, f->key, f->name, &table, &vtab->zErrMsg);
    if (rc)
        return rc;
    rc = table ? sdb_txn_drop_feed(f->store->txn, table, f->name) : SDB_OK;
    if (rc < 0)
        return feed_error_core(f, rc);
    feed_free(f);
    return SQLITE_OK;
}

static int feed_rename(sqlite3_vtab *vtab, const char *name)
{
    feed *f = (feed *)vtab;

    return feed_error(f, SQLITE_ERROR,
                      "a feed cannot be renamed: by its name a reader finds where it was; drop it and "
                      "create %s, which begins with all rows",
                      name);
}

/* ---------------------------------------------------------------- plans */

typedef struct bounds {
    int eq, lower, upper; /* constraints, or -1 */
} bounds;

static bounds bounds_find(const feed *f, const sqlite3_index_info *info)
{
    bounds b = {-1, -1, -1};

    for (int k = 0; k < info->nConstraint; k++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[k];
        if (!c->usable || (c->iColumn >= 0 && c->iColumn != f->n_columns + REVISION))
            continue;
        if (c->op == SQLITE_INDEX_CONSTRAINT_EQ)
            b.eq = k;
        else if (c->op == SQLITE_INDEX_CONSTRAINT_GT || c->op == SQLITE_INDEX_CONSTRAINT_GE)
            b.lower = k;
        else if (c->op == SQLITE_INDEX_CONSTRAINT_LT || c->op == SQLITE_INDEX_CONSTRAINT_LE)
            b.upper = k;
    }
    if (b.eq >= 0)
        b.lower = b.upper = -1;
    return b;
}

/* The condition k becomes the next argument: "_revision>?". SQLite need not look again: both sides are
** numbers. */
static void bound_use(sqlite3_index_info *info, int k, int *n_args, sqlite3_str *text)
{
    static const struct {
        int op, bit;
        const char *says;
    } ops[] = {{SQLITE_INDEX_CONSTRAINT_EQ, REVISION_EQ, "="},
               {SQLITE_INDEX_CONSTRAINT_GT, REVISION_GT, ">"},
               {SQLITE_INDEX_CONSTRAINT_GE, REVISION_GE, ">="},
               {SQLITE_INDEX_CONSTRAINT_LT, REVISION_LT, "<"},
               {SQLITE_INDEX_CONSTRAINT_LE, REVISION_LE, "<="}};
    int i = 0;

    if (k < 0)
        return;
    while (ops[i].op != info->aConstraint[k].op)
        i++;
    info->idxNum |= ops[i].bit;
    sqlite3_str_appendf(text, "%s_revision%s?", *n_args ? " AND " : "(", ops[i].says);
    info->aConstraintUsage[k].argvIndex = ++*n_args;
    info->aConstraintUsage[k].omit = 1;
}

static int feed_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    feed *f = (feed *)vtab;
    bounds b = bounds_find(f, info);
    sqlite3_str *text = sqlite3_str_new(f->conn->db);
    int n_args = 0;

    info->idxNum = 0;
    sqlite3_str_appendall(text, "changes");
    bound_use(info, b.eq, &n_args, text);
    bound_use(info, b.lower, &n_args, text);
    bound_use(info, b.upper, &n_args, text);
    if (n_args)
        sqlite3_str_appendall(text, ")");
    info->estimatedRows = b.eq >= 0 ? 1 : n_args ? 256 / n_args : 1024;
    info->estimatedCost = 10 + 3.0 * (double)info->estimatedRows;
    info->idxFlags = b.eq >= 0 ? SQLITE_INDEX_SCAN_UNIQUE : 0;
    if (info->nOrderBy > 0) { /* no two have the same revision, so what follows does not matter */
        int column = info->aOrderBy[0].iColumn;
        info->orderByConsumed =
            (column < 0 || column == f->n_columns + REVISION) && !info->aOrderBy[0].desc;
    }
    info->idxStr = sqlite3_str_finish(text);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---------------------------------------------------------------- cursors */

static int feed_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    feed *f = (feed *)vtab;
    feed_cursor *cur;
    int rc = txn_verify(f->conn);

    cur = rc ? NULL : sqlite3_malloc(sizeof *cur);
    if (!cur)
        return rc ? rc : SQLITE_NOMEM;
    *cur = (feed_cursor){0};
    f->conn->n_open++;
    *out = &cur->base;
    return SQLITE_OK;
}

static void cursor_leave(feed *f, feed_cursor *cur)
{
    if (cur->on_snapshot)
        f->store->n_standing--;
    cur->on_snapshot = false;
    cur->row = NULL;
    if (cur->own)
        sdb_snapshot_drop(cur->own);
}

static int feed_close(sqlite3_vtab_cursor *base)
{
    feed *f = (feed *)base->pVtab;
    feed_cursor *cur = (feed_cursor *)base;

    cursor_leave(f, cur);
    sdb_changes_free(cur->changes);
    sdb_snapshot_free(cur->own);
    sqlite3_free(cur);
    conn_close_cursor(f->conn);
    return SQLITE_OK;
}

/* Narrow [*first, *last] by a condition on _revision. Revisions begin at 1. */
static int bound_apply(int bit, sqlite3_value *in, uint64_t *first, uint64_t *last)
{
    enum { LOWER = REVISION_EQ | REVISION_GT | REVISION_GE };
    sdb_value v;
    uint64_t at = 0;         /* the largest revision that is not above the value */
    bool is_between = false; /* and it is not the value itself */
    int rc = value_get_affinity(in, AFFINITY_INTEGER, &v);

    if (rc)
        return rc;
    if (v.type == SDB_INTEGER) {
        at = v.u.i > 0 ? (uint64_t)v.u.i : 0;
        is_between = v.u.i < 0;
    } else {
        is_between = true;
        if (v.type == SDB_REAL && v.u.r < 9223372036854775808.0)
            at = v.u.r > 0 ? (uint64_t)v.u.r : 0;
        else if (v.type != SDB_NULL)
            at = INT64_MAX; /* text and blobs are above all numbers */
    }
    if (v.type == SDB_NULL || (bit == REVISION_EQ && is_between)) {
        *last = 0;
        return SQLITE_OK;
    }
    if (bit & LOWER) {
        at += bit == REVISION_GT || is_between;
        *first = at > *first ? at : *first;
        if (bit == REVISION_EQ)
            *last = at;
    } else {
        at -= bit == REVISION_LT && !is_between && at > 0;
        *last = at < *last ? at : *last;
    }
    return SQLITE_OK;
}

/* Open on what is to be read now. */
static int changes_open(feed *f, feed_cursor *cur, view v)
{
    int rc = feed_table(f, v, &cur->table);

    if (rc)
        return rc;
    if (!cur->changes)
        rc = sdb_changes_new(f->store->db, &cur->changes);
    if (!rc && v.txn && !cur->own)
        rc = sdb_snapshot_new(f->store->db, &cur->own);
    if (rc)
        return feed_error_core(f, rc);
    rc = v.txn ? sdb_changes_open_txn(cur->changes, v.txn, cur->own, cur->table, f->name)
               : sdb_changes_open(cur->changes, v.snapshot, cur->table, f->name);
    if (rc == SDB_MISUSE)
        return feed_error_ended(f);
    if (!rc && !v.txn) {
        f->store->n_standing++;
        cur->on_snapshot = true;
    }
    return feed_error_core(f, rc);
}

static int feed_next(sqlite3_vtab_cursor *base)
{
    feed_cursor *cur = (feed_cursor *)base;
    int rc = sdb_changes_next(cur->changes);

    cur->row = rc == SDB_OK ? sdb_changes_row(cur->changes) : NULL;
    if (cur->row && sdb_row_revision(cur->row) > cur->last)
        cur->row = NULL;
    return rc < 0 ? feed_error_core((feed *)base->pVtab, rc) : SQLITE_OK;
}

static int feed_filter(sqlite3_vtab_cursor *base, int bits, const char *idx_str, int argc,
                       sqlite3_value **argv)
{
    feed *f = (feed *)base->pVtab;
    feed_cursor *cur = (feed_cursor *)base;
    uint64_t first = 1;
    view v = {0};
    int rc = SQLITE_OK;

    (void)idx_str;
    (void)argc;
    cursor_leave(f, cur);
    cur->last = INT64_MAX;
    for (int i = 0; !rc && bits >> i; i++)
        if (bits >> i & 1)
            rc = bound_apply(1 << i, *argv++, &first, &cur->last);
    if (!rc && f->store)
        rc = feed_error_core(f, view_begin(f->store, &v));
    if (rc)
        return rc;
    rc = changes_open(f, cur, v);
    if (f->store)
        view_end(f->store, v);
    if (rc || first > cur->last)
        return rc;
    rc = first > 1 ? feed_error_core(f, sdb_changes_seek(cur->changes, first - 1)) : SQLITE_OK;
    return rc ? rc : feed_next(base);
}

static int feed_eof(sqlite3_vtab_cursor *base)
{
    return !((feed_cursor *)base)->row;
}

/* Text and blobs are copied: SQLite may look at them when the cursor is closed, and the row gone. */
static void value_copy(sqlite3_context *ctx, const sdb_value *v)
{
    if (v->type == SDB_TEXT)
        sqlite3_result_text(ctx, v->u.p, (int)v->n, SQLITE_TRANSIENT);
    else if (v->type == SDB_BLOB && v->n > 0)
        sqlite3_result_blob(ctx, v->u.p, (int)v->n, SQLITE_TRANSIENT);
    else
        value_result(ctx, v);
}

static int feed_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const feed *f = (feed *)base->pVtab;
    const feed_cursor *cur = (feed_cursor *)base;
    sdb_value v;

    switch (column - f->n_columns) {
    case REVISION:
        sqlite3_result_int64(ctx, (sqlite3_int64)sdb_row_revision(cur->row));
        break;
    case OP:
        sqlite3_result_text(ctx, sdb_row_is_deleted(cur->row) ? "delete" : "upsert", -1, SQLITE_STATIC);
        break;
    case ROWID:
        sqlite3_result_int64(ctx, sdb_row_rowid(cur->row));
        break;
    default:
        v = sdb_row_value(cur->table, cur->row, column);
        value_copy(ctx, &v);
    }
    return SQLITE_OK;
}

static int feed_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)sdb_row_revision(((feed_cursor *)base)->row);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- acknowledging */

/* What was read may be older than the transaction, which acknowledges in the newest version. That is no
** harm: all up to this revision was there to be read, and what has been changed since comes again, later. */
static int acknowledge(feed *f, uint64_t revision)
{
    sdb_txn *txn;
    uint64_t first;
    sdb_table *table;
    int rc = feed_lock(f, &table);

    if (rc)
        return rc;
    txn = f->store->txn;
    rc = sdb_txn_next_change(txn, table, f->name, &first);
    if (rc == SDB_MISUSE)
        return feed_error_ended(f);
    if (rc == SDB_OK && first < revision)
        return feed_error(f, SQLITE_ERROR,
                          "change %lld cannot be acknowledged before change %lld: delete from the front, "
                          "WHERE _revision <= %lld",
                          (long long)revision, (long long)first, (long long)revision);
    if (rc == SDB_OK && first == revision)
        rc = sdb_txn_acknowledge(txn, table, f->name, revision);
    return rc < 0 ? feed_error_core(f, rc) : SQLITE_OK;
}

static int feed_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    feed *f = (feed *)vtab;

    (void)rowid;
    if (argc > 1)
        return feed_error(f, SQLITE_READONLY,
                          "a feed shows the changes of %s, and cannot be written to; DELETE acknowledges "
                          "them",
                          f->of);
    return acknowledge(f, (uint64_t)sqlite3_value_int64(argv[0]));
}

static const sqlite3_module feed_module = {
    .iVersion = 2,
    .xCreate = feed_create,
    .xConnect = feed_connect,
    .xBestIndex = feed_best_index,
    .xDisconnect = feed_disconnect,
    .xDestroy = feed_destroy,
    .xOpen = feed_open,
    .xClose = feed_close,
    .xFilter = feed_filter,
    .xNext = feed_next,
    .xEof = feed_eof,
    .xColumn = feed_column,
    .xRowid = feed_rowid,
    .xUpdate = feed_update,
    .xRename = feed_rename,
};

int feed_register(conn *c)
{
    return sqlite3_create_module_v2(c->db, "statedb_feed", &feed_module, conn_ref(c), conn_unref);
}
