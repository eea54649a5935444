/* listing.c - see listing.h.
**
** A cursor makes its rows up at xFilter and goes through them. DELETE reads first and deletes then, by
** rowid, perhaps when its cursor is closed: so no two rows ever have the same rowid, and the table
** keeps the listings of closed cursors until a cursor is opened while no other is. */
#include "listing.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

typedef struct cell {
    sdb_type type;
    int64_t i; /* or where the text begins */
    uint32_t n;
} cell;

struct listing {
    listing *next; /* of the table */
    const listing_module *module;
    bool is_open;
    bool has_failed; /* no memory */
    sqlite3_int64 first; /* the rowid of row 0 */
    int n_cells;
    int room;
    cell *cells;
    sqlite3_str *text;
};

typedef struct listing_table {
    sqlite3_vtab base; /* must be first */
    conn *conn;
    const listing_module *module;
    sqlite3_int64 next_rowid;
    listing *listings;
} listing_table;

typedef struct listing_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    listing *rows;
    int at;
} listing_cursor;

/* What the module needs of its connection. */
typedef struct client {
    conn *conn;
    const listing_module *module;
} client;

/* ---------------------------------------------------------------- rows */

static cell *cell_new(listing *l, sdb_type type)
{
    if (l->n_cells == l->room) {
        int room = l->room ? 2 * l->room : 64;
        cell *cells = sqlite3_realloc64(l->cells, (sqlite3_uint64)room * sizeof *cells);
        if (!cells) {
            l->has_failed = true;
            return NULL;
        }
        l->cells = cells;
        l->room = room;
    }
    l->cells[l->n_cells] = (cell){.type = type};
    return &l->cells[l->n_cells++];
}

void listing_null(listing *l)
{
    cell_new(l, SDB_NULL);
}

void listing_integer(listing *l, int64_t value)
{
    cell *c = cell_new(l, SDB_INTEGER);

    if (c)
        c->i = value;
}

void listing_text(listing *l, const char *value)
{
    cell *c = cell_new(l, value ? SDB_TEXT : SDB_NULL);

    if (!c || !value)
        return;
    c->n = (uint32_t)strlen(value);
    c->i = sqlite3_str_length(l->text);
    sqlite3_str_append(l->text, value, (int)c->n + 1);
}

void listing_text_take(listing *l, char *value)
{
    if (!value)
        l->has_failed = true;
    listing_text(l, value);
    sqlite3_free(value);
}

sdb_value listing_value(const listing *l, int row, int column)
{
    const cell *c = &l->cells[row * l->module->n_columns + column];
    sdb_value v = {.type = c->type, .n = c->n};

    if (c->type == SDB_TEXT)
        v.u.p = sqlite3_str_value(l->text) + c->i;
    else
        v.u.i = c->i;
    return v;
}

static int n_rows(const listing *l)
{
    return l->n_cells / l->module->n_columns;
}

static void listing_free(listing *l)
{
    sqlite3_free(l->cells);
    sqlite3_free(sqlite3_str_finish(l->text));
    sqlite3_free(l);
}

/* Put into the table's list; NULL: no memory. */
static listing *listing_new(listing_table *t)
{
    listing *l = sqlite3_malloc(sizeof *l);

    if (!l)
        return NULL;
    *l = (listing){.next = t->listings, .module = t->module, .is_open = true};
    l->text = sqlite3_str_new(t->conn->db);
    t->listings = l;
    return l;
}

static void listings_forget(listing_table *t)
{
    for (const listing *l = t->listings; l; l = l->next)
        if (l->is_open)
            return;
    while (t->listings) {
        listing *l = t->listings;
        t->listings = l->next;
        listing_free(l);
    }
}

/* ---------------------------------------------------------------- the table */

static int listing_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                           sqlite3_vtab **out, char **err)
{
    const client *of = aux;
    listing_table *t;
    char *sql = sqlite3_mprintf("CREATE TABLE x(%s)", of->module->columns);
    int rc = sql ? sqlite3_declare_vtab(db, sql) : SQLITE_NOMEM;

    (void)argc;
    (void)argv;
    (void)err;
    sqlite3_free(sql);
    if (!rc && of->module->is_harmless)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    if (!rc && of->module->is_direct)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    t = rc ? NULL : sqlite3_malloc(sizeof *t);
    if (!t)
        return rc ? rc : SQLITE_NOMEM;
    *t = (listing_table){.conn = conn_ref(of->conn), .module = of->module};
    txn_object_come(of->conn);
    *out = &t->base;
    return SQLITE_OK;
}

static int listing_disconnect(sqlite3_vtab *vtab)
{
    listing_table *t = (listing_table *)vtab;

    listings_forget(t);
    txn_object_gone(t->conn);
    conn_unref(t->conn);
    sqlite3_free(t);
    return SQLITE_OK;
}

static int listing_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    info->estimatedCost = 1000;
    info->estimatedRows = 100;
    return SQLITE_OK;
}

static int listing_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    listing_cursor *cur = sqlite3_malloc(sizeof *cur);

    if (!cur)
        return SQLITE_NOMEM;
    listings_forget((listing_table *)vtab);
    *cur = (listing_cursor){0};
    *out = &cur->base;
    return SQLITE_OK;
}

static int listing_close(sqlite3_vtab_cursor *base)
{
    listing_cursor *cur = (listing_cursor *)base;

    if (cur->rows)
        cur->rows->is_open = false;
    sqlite3_free(cur);
    return SQLITE_OK;
}

/* err, a sentence or NULL, becomes the table's. */
static int listing_error(sqlite3_vtab *vtab, int rc, char *err)
{
    if (err) {
        sqlite3_free(vtab->zErrMsg);
        vtab->zErrMsg = err;
    }
    return rc;
}

static int listing_filter(sqlite3_vtab_cursor *base, int idx_num, const char *idx_str, int argc,
                          sqlite3_value **argv)
{
    listing_cursor *cur = (listing_cursor *)base;
    listing_table *t = (listing_table *)base->pVtab;
    char *err = NULL;
    listing *l;
    int rc;

    (void)idx_num;
    (void)idx_str;
    (void)argc;
    (void)argv;
    if (cur->rows)
        cur->rows->is_open = false;
    cur->at = 0;
    cur->rows = l = listing_new(t);
    if (!l)
        return SQLITE_NOMEM;
    rc = t->module->fill(t->conn, l, &err);
    if (!rc && (l->has_failed || sqlite3_str_errcode(l->text)))
        rc = SQLITE_NOMEM;
    if (rc) {
        l->n_cells = 0;
        return listing_error(base->pVtab, rc, err);
    }
    l->first = t->next_rowid;
    t->next_rowid += n_rows(l);
    return SQLITE_OK;
}

static int listing_next(sqlite3_vtab_cursor *base)
{
    ((listing_cursor *)base)->at++;
    return SQLITE_OK;
}

static int listing_eof(sqlite3_vtab_cursor *base)
{
    const listing_cursor *cur = (listing_cursor *)base;

    return cur->at >= n_rows(cur->rows);
}

static int listing_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const listing_cursor *cur = (listing_cursor *)base;
    sdb_value v = listing_value(cur->rows, cur->at, column);

    if (v.type == SDB_TEXT)
        sqlite3_result_text(ctx, v.u.p, (int)v.n, SQLITE_TRANSIENT);
    else if (v.type == SDB_INTEGER)
        sqlite3_result_int64(ctx, v.u.i);
    return SQLITE_OK;
}

static int listing_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const listing_cursor *cur = (listing_cursor *)base;

    *out = cur->rows->first + cur->at;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- writing */

static int row_remove(listing_table *t, sqlite3_int64 rowid, char **err)
{
    for (const listing *l = t->listings; l; l = l->next)
        if (rowid >= l->first && rowid < l->first + n_rows(l))
            return t->module->remove(t->conn, l, (int)(rowid - l->first), err);
    return SQLITE_OK;
}

static int listing_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    listing_table *t = (listing_table *)vtab;
    char *err = NULL;
    int rc = SQLITE_READONLY;

    if (argc == 1 && t->module->remove)
        rc = row_remove(t, sqlite3_value_int64(argv[0]), &err);
    else if (argc > 1 && sqlite3_value_type(argv[0]) == SQLITE_NULL && t->module->insert)
        rc = t->module->insert(t->conn, argv + 2, &err);
    else if (t->module->insert)
        err = sqlite3_mprintf("statedb: %s cannot be updated: delete the row and insert another",
                              t->module->name);
    else
        err = sqlite3_mprintf("statedb: %s shows what there is: its rows can be deleted, and nothing else",
                              t->module->name);
    *rowid = sqlite3_last_insert_rowid(t->conn->db); /* as it was */
    return listing_error(vtab, rc, err);
}

/* ---------------------------------------------------------------- modules */

/* Without xCreate: the table is there by itself, and there only. */
#define LISTING_METHODS                                                                            \
    .iVersion = 2, .xConnect = listing_connect, .xBestIndex = listing_best_index,                  \
    .xDisconnect = listing_disconnect, .xOpen = listing_open, .xClose = listing_close,             \
    .xFilter = listing_filter, .xNext = listing_next, .xEof = listing_eof,                         \
    .xColumn = listing_column, .xRowid = listing_rowid

static const sqlite3_module read_module = {LISTING_METHODS};
static const sqlite3_module write_module = {LISTING_METHODS, .xUpdate = listing_update};

static void client_free(void *p)
{
    client *old = p;

    conn_unref(old->conn);
    sqlite3_free(old);
}

int listing_register(conn *c, const listing_module *module)
{
    const sqlite3_module *methods = module->insert || module->remove ? &write_module : &read_module;
    client *new = sqlite3_malloc(sizeof *new);

    if (!new)
        return SQLITE_NOMEM;
    *new = (client){.conn = conn_ref(c), .module = module};
    return sqlite3_create_module_v2(c->db, module->name, methods, new, client_free);
}
