/* watch_sql.c - watches: the table statedb_watches, and statedb_wait(), which waits until the result of a
** query may have changed; statedb_watch_fd() for those who wait elsewhere.
**
** A watch is armed by running its query, from the text, with c->arming set. Then each xFilter tells what
** it is going to read (watch_ranges, watch_prefix), and a watch of core is armed for just that, on the
** snapshot that it reads. As long as none of these fires the query would read the same rows again, and
** from the same rows comes the same result, whatever the query does with them: joins, subqueries, OR,
** aggregates. (Databases lock the same ranges against phantoms.) What a range was made of must be told
** as well: whether a column has texts that look like numbers, for instance (range.c).
**
** A watch that has fired is armed again before statedb_wait() returns. So a change that comes between
** that and the user's own reading ends the next wait: a wait may end for nothing, but never too late. One
** that cannot be armed, because its table has been dropped perhaps, ends one wait; the next ones try
** again, and say why they fail.
**
** Only the text of a query is kept: a statement would keep its connection from being closed. */
#include "cursor.h"
#include "listing.h"

#include "../core/wait.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    RANGES_MAX = 64, /* of a table; where there are more the whole table is watched */
    TURN_MS = 20,    /* between two questions whether to go on */
    TURN_MS_OF_MANY = 2 /* the same, waiting for changes of several stores in turn */
};

/* What a query has read of an index. */
typedef struct extent {
    struct extent *next;
    sdb_watch *watch;
    char *key; /* two of the same bytes are the same range */
    int n_key;
} extent;

/* A table that it has read. */
typedef struct source {
    struct source *next;
    store *store;
    sdb_table *table; /* counted */
    bool is_whole;    /* there is one range, of all rows */
    int n_ranges;
    extent *ranges;
} source;

struct watch {
    watch *next; /* of the connection */
    char *name;
    char *query;
    source *sources;
    bool is_armed;
    bool is_told; /* it has ended the last wait that it was part of */
    bool is_failed; /* because it could not be armed: the next wait says why */
    int fd[2];    /* sdb_fd_open's, raised when it fires, and while it is not armed; -1: not asked for */
};

/* ---------------------------------------------------------------- what a query reads */

typedef struct reading {
    int index;
    const sdb_range *range;  /* or NULL: */
    const sdb_value *prefix; /* of a prefix index */
    sdb_prefix_op op;
} reading;

static const sdb_range all_rows;
static const reading whole_table = {.index = SDB_BY_ROWID, .range = &all_rows};

static void ranges_free(source *s)
{
    for (extent *r; (r = s->ranges) != NULL;) {
        s->ranges = r->next;
        sdb_watch_free(r->watch);
        sqlite3_free(r->key);
        sqlite3_free(r);
    }
    s->n_ranges = 0;
}

static void sources_free(watch *w)
{
    for (source *s; (s = w->sources) != NULL;) {
        w->sources = s->next;
        ranges_free(s);
        sdb_table_unref(s->table);
        sqlite3_free(s);
    }
    w->is_armed = false;
}

/* NULL: no memory. */
static source *source_find(watch *w, store *of, sdb_table *table)
{
    source *s = w->sources;

    while (s && s->table != table)
        s = s->next;
    if (s || !(s = sqlite3_malloc(sizeof *s)))
        return s;
    *s = (source){.next = w->sources, .store = of, .table = sdb_table_ref(table)};
    w->sources = s;
    return s;
}

static void key_add_value(sqlite3_str *key, const sdb_value *v)
{
    sqlite3_str_appendchar(key, 1, v ? (char)('0' + v->type) : '-');
    if (!v || v->type == SDB_NULL)
        return;
    if (v->type != SDB_TEXT && v->type != SDB_BLOB) {
        sqlite3_str_append(key, (const char *)&v->u, sizeof v->u);
        return;
    }
    sqlite3_str_append(key, (const char *)&v->n, sizeof v->n);
    sqlite3_str_append(key, v->u.p, (int)v->n);
}

/* NULL: no memory. */
static char *key_make(const reading *r, int *n)
{
    sqlite3_str *key = sqlite3_str_new(NULL);
    int rc;

    if (r->range) {
        sqlite3_str_appendf(key, "%d,%d,%d%d,", r->index, r->range->n_eq, r->range->lower_open,
                            r->range->upper_open);
        for (int i = 0; i < r->range->n_eq; i++)
            key_add_value(key, &r->range->eq[i]);
        key_add_value(key, r->range->lower);
        key_add_value(key, r->range->upper);
    } else {
        sqlite3_str_appendf(key, "%d,prefix,%d,", r->index, r->op);
        key_add_value(key, r->prefix);
    }
    *n = sqlite3_str_length(key);
    rc = sqlite3_str_errcode(key);
    char *text = sqlite3_str_finish(key);
    if (!rc)
        return text;
    sqlite3_free(text);
    return NULL;
}

static bool range_is_there(const source *s, const char *key, int n)
{
    const extent *r = s->ranges;

    while (r && (r->n_key != n || memcmp(r->key, key, (size_t)n) != 0))
        r = r->next;
    return r != NULL;
}

/* Takes the key. An SDB_ code. */
static int range_add(const watch *w, source *s, const reading *r, char *key, int n)
{
    extent *new = sqlite3_malloc(sizeof *new);
    int rc = new ? sdb_watch_new(s->store->db, &new->watch) : SDB_NOMEM;

    if (rc) {
        sqlite3_free(new);
        sqlite3_free(key);
        return rc;
    }
    new->key = key;
    new->n_key = n;
    new->next = s->ranges;
    s->ranges = new;
    s->n_ranges++;
    sdb_watch_tell(new->watch, w->fd[1]);
    return r->range ? sdb_watch_arm(new->watch, s->store->snapshot, s->table, r->index, r->range)
                    : sdb_watch_arm_prefix(new->watch, s->store->snapshot, s->table, r->index, r->op,
                                           r->prefix);
}

/* What an index of the cursor's own tells of, automatic.c, no index of the table does. */
static int watch_reading(cursor *cur, const reading *of)
{
    vtable *t = cursor_vtable(cur);
    const reading *r = cur->sorted ? &whole_table : of;
    watch *w = t->conn->arming;
    source *s;
    char *key;
    int n;

    if (cur->past)
        return SQLITE_OK; /* that never changes */
    if (!cur->on_snapshot)
        return error_set(t, SQLITE_ERROR,
                         "a watch is of what is committed, but what is read here is older or newer: "
                         "end the statements and transactions that are open");
    s = source_find(w, t->store, cur->table);
    if (!s)
        return SQLITE_NOMEM;
    if (s->is_whole)
        return SQLITE_OK;
    if (!(key = key_make(r, &n)))
        return SQLITE_NOMEM;
    if (range_is_there(s, key, n)) {
        sqlite3_free(key);
        return SQLITE_OK;
    }
    s->is_whole = s->n_ranges == RANGES_MAX;
    if (s->is_whole) {
        ranges_free(s);
        r = &whole_table;
    }
    return error_core(t, range_add(w, s, r, key, n));
}

int watch_range(cursor *cur, const sdb_range *range)
{
    return watch_reading(cur, &(reading){.index = cur->index, .range = range});
}

int watch_prefix(cursor *cur, sdb_prefix_op op, const sdb_value *prefix)
{
    return watch_reading(cur, &(reading){.index = cur->index, .op = op, .prefix = prefix});
}

int watch_ranges(cursor *cur)
{
    int rc = SQLITE_OK;

    if (!cur->n_list)
        return watch_range(cur, &cur->range);
    for (int i = 0; i < cur->n_list && rc == SQLITE_OK; i++) {
        cur->eq[cur->list_term] = cur->list[i];
        rc = watch_range(cur, &cur->range);
    }
    return rc;
}

/* ---------------------------------------------------------------- the query */

/* Behind the first statement: nothing but white space, comments and semicolons. */
static bool is_last_statement(sqlite3 *db, const char *tail)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_OK;

    while (*tail && !rc && !stmt)
        rc = sqlite3_prepare_v2(db, tail, -1, &stmt, &tail);
    sqlite3_finalize(stmt);
    return !rc && !stmt;
}

/* What is wrong with a query, or NULL. */
static const char *query_wrong(sqlite3 *db, sqlite3_stmt *stmt, const char *tail, bool reads_ours)
{
    if (!stmt)
        return "the query is empty";
    if (!is_last_statement(db, tail))
        return "the query is more than one statement";
    if (sqlite3_column_count(stmt) == 0 || !sqlite3_stmt_readonly(stmt) || sqlite3_stmt_isexplain(stmt))
        return "the query is not a SELECT";
    if (sqlite3_bind_parameter_count(stmt) > 0)
        return "the query has parameters, of which a watch has no values";
    if (!reads_ours)
        return "the query reads no statedb table, and changes of other tables are not noticed";
    return NULL;
}

/* Run the query to its end. What is wrong with it, or with its result, is put into *wrong: a sentence
** of SQLite's or ours, from sqlite3_mprintf. */
static int query_run(conn *c, const char *query, char **wrong)
{
    uint64_t n_plans = c->n_plans;
    sqlite3_stmt *stmt = NULL;
    const char *tail, *text = NULL;
    int rc = sqlite3_prepare_v2(c->db, query, -1, &stmt, &tail);

    if (!rc)
        text = query_wrong(c->db, stmt, tail, c->n_plans != n_plans);
    while (!rc && !text && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
        rc = SQLITE_OK;
    if (rc == SQLITE_DONE)
        rc = SQLITE_OK;
    if (rc || text)
        *wrong = sqlite3_mprintf("%s", text ? text : sqlite3_errmsg(c->db));
    sqlite3_finalize(stmt);
    return rc ? rc : text ? SQLITE_ERROR : SQLITE_OK;
}

static int watch_arm(conn *c, watch *w, char **err)
{
    static const char ours[] = "statedb: ";
    char *wrong = NULL;
    int rc;

    sources_free(w);
    sdb_fd_clear(w->fd);
    c->arming = w;
    rc = query_run(c, w->query, &wrong);
    c->arming = NULL;
    w->is_armed = rc == SQLITE_OK;
    if (rc) {
        sources_free(w);
        sdb_fd_raise(w->fd[1]);
    }
    if (wrong) {
        bool has_ours = strncmp(wrong, ours, sizeof ours - 1) == 0;
        *err = sqlite3_mprintf("statedb: watch '%s': %s", w->name, wrong + (has_ours ? sizeof ours - 1 : 0));
    }
    sqlite3_free(wrong);
    return rc;
}

/* ---------------------------------------------------------------- watches */

static bool has_fired(const watch *w)
{
    for (const source *s = w->sources; s; s = s->next)
        for (const extent *r = s->ranges; r; r = r->next)
            if (sdb_watch_fired(r->watch))
                return true;
    return !w->is_armed;
}

static watch **watch_find(conn *c, const char *name)
{
    watch **p = &c->watches;

    while (*p && strcmp((*p)->name, name) != 0)
        p = &(*p)->next;
    return p;
}

static void watch_free(watch *w)
{
    if (!w)
        return;
    sources_free(w);
    sdb_fd_close(w->fd);
    sqlite3_free(w->name);
    sqlite3_free(w->query);
    sqlite3_free(w);
}

void watches_free(conn *c)
{
    for (watch *w; (w = c->watches) != NULL;) {
        c->watches = w->next;
        watch_free(w);
    }
}

/* NULL: no memory. */
static watch *watch_new(const char *name, const char *query)
{
    watch *w = sqlite3_malloc(sizeof *w);

    if (!w)
        return NULL;
    *w = (watch){.name = sqlite3_mprintf("%s", name), .query = sqlite3_mprintf("%s", query), .fd = {-1, -1}};
    if (w->name && w->query)
        return w;
    watch_free(w);
    return NULL;
}

/* ---------------------------------------------------------------- statedb_watches */

/* Columns. */
enum { NAME, QUERY, COLUMNS = 4 };

static int watches_fill(conn *c, listing *l, char **err)
{
    (void)err;
    for (const watch *w = c->watches; w; w = w->next) {
        int n_ranges = 0;
        for (const source *s = w->sources; s; s = s->next)
            n_ranges += s->n_ranges;
        listing_text(l, w->name);
        listing_text(l, w->query);
        listing_integer(l, w->is_told || has_fired(w));
        listing_integer(l, n_ranges);
    }
    return SQLITE_OK;
}

/* A query may call functions, and a function may run statements of its own. */
static bool is_arming(const conn *c, char **err)
{
    if (c->arming)
        *err = sqlite3_mprintf("statedb: the query of watch '%s' is running: it cannot wait, nor change "
                               "the watches", c->arming->name);
    return c->arming != NULL;
}

static bool has_written(const conn *c)
{
    const store *s = c->stores;

    while (s && !s->txn)
        s = s->next;
    return s != NULL;
}

static int watches_insert(conn *c, sqlite3_value **values, char **err)
{
    const char *name = (const char *)sqlite3_value_text(values[NAME]);
    const char *query = (const char *)sqlite3_value_text(values[QUERY]);
    watch *w, **place;
    int rc;

    for (int i = 0; i < COLUMNS && !*err; i++)
        if (i > QUERY && sqlite3_value_type(values[i]) != SQLITE_NULL)
            *err = sqlite3_mprintf("statedb: statedb_watches: only name and query are given");
    if (!*err && (!name || !query))
        *err = sqlite3_mprintf("statedb: statedb_watches: a watch needs a name and a query");
    if (!*err && has_written(c))
        *err = sqlite3_mprintf("statedb: statedb_watches: a watch is of what is committed; this "
                               "transaction has written: commit first");
    if (*err || is_arming(c, err))
        return SQLITE_ERROR;
    place = watch_find(c, name);
    if (*place) {
        *err = sqlite3_mprintf("statedb: statedb_watches: there is a watch '%s' already: delete it first",
                               name);
        return SQLITE_CONSTRAINT_UNIQUE;
    }
    w = watch_new(name, query);
    rc = w ? watch_arm(c, w, err) : SQLITE_NOMEM;
    if (rc)
        watch_free(w);
    else
        *place = w;
    return rc;
}

static int watches_remove(conn *c, const listing *l, int row, char **err)
{
    watch **place = watch_find(c, listing_value(l, row, NAME).u.p);
    watch *w = *place;

    if (is_arming(c, err))
        return SQLITE_ERROR;
    if (w) {
        *place = w->next;
        watch_free(w);
    }
    return SQLITE_OK;
}

/* From a trigger the text of a query might be a stranger's. */
static const listing_module watches_module = {
    .name = "statedb_watches",
    .columns = "name TEXT, query TEXT, fired INTEGER, ranges INTEGER",
    .n_columns = COLUMNS,
    .is_direct = true,
    .fill = watches_fill,
    .insert = watches_insert,
    .remove = watches_remove,
};

/* ---------------------------------------------------------------- waiting */

typedef struct waiting {
    conn *conn;
    watch *only; /* NULL: all of the connection's */
    int64_t deadline;
} waiting;

static watch *waiting_next(const waiting *on, const watch *after)
{
    if (on->only)
        return after ? NULL : on->only;
    return after ? after->next : on->conn->watches;
}

/* Arm those again that have fired. *out: there are some. What goes wrong then is told by the next wait,
** where this one has something else to tell. */
static int waiting_tell(const waiting *on, bool *out, char **err)
{
    for (watch *w = waiting_next(on, NULL); w; w = waiting_next(on, w)) {
        if (!has_fired(w))
            continue;
        int rc = watch_arm(on->conn, w, err);
        bool is_passing = rc == SQLITE_NOMEM || rc == SQLITE_INTERRUPT;
        if (rc && !*out && (is_passing || w->is_failed))
            return rc;
        w->is_failed = rc && !is_passing;
        sqlite3_free(*err);
        *err = NULL;
        w->is_told = true;
        *out = true;
    }
    return SQLITE_OK;
}

static void sets_clear(conn *c)
{
    for (store *s = c->stores; s; s = s->next) {
        sdb_watch_set_free(s->watched);
        s->watched = NULL;
    }
}

/* Put the ranges of each store into a set, to be waited for together. An SDB_ code. */
static int sets_fill(const waiting *on)
{
    int rc = SDB_OK;

    for (watch *w = waiting_next(on, NULL); w; w = waiting_next(on, w)) {
        for (const source *s = w->sources; s && !rc; s = s->next) {
            if (!s->store->watched)
                rc = sdb_watch_set_new(s->store->db, &s->store->watched);
            for (const extent *r = s->ranges; r && !rc; r = r->next)
                rc = sdb_watch_set_add(s->store->watched, r->watch);
        }
    }
    if (!rc && !on->conn->stores->watched) /* then an empty one, to let the time go by */
        rc = sdb_watch_set_new(on->conn->stores->db, &on->conn->stores->watched);
    return rc;
}

/* Wait a little: for all stores in turn. An SDB_ code. */
static int sets_wait(const waiting *on)
{
    const store *stores = on->conn->stores;
    int n_sets = 0, rc = SDB_DONE;

    for (const store *s = stores; s; s = s->next)
        n_sets += s->watched != NULL;
    for (const store *s = stores; s && rc == SDB_DONE; s = s->next) {
        int64_t left = (on->deadline - sdb_now()) / 1000000 + 1;
        int64_t turn = n_sets > 1 ? TURN_MS_OF_MANY : TURN_MS;
        sdb_watch *fired;
        int n;
        if (turn > left)
            turn = left > 0 ? left : 0; /* less than 0 would be for ever */
        if (s->watched)
            rc = sdb_watch_set_wait(s->watched, turn, 0, &fired, 1, &n);
    }
    return rc == SDB_DONE ? SDB_OK : rc;
}

static int waiting_wait(const waiting *on, bool *out, char **err)
{
    int rc = waiting_tell(on, out, err);

    if (rc || *out || on->deadline <= sdb_now())
        return rc;
    rc = error_code(sets_fill(on));
    while (!rc && !*out && on->deadline > sdb_now()) {
        rc = conn_is_interrupted(on->conn) ? SQLITE_INTERRUPT : error_code(sets_wait(on));
        if (!rc)
            rc = waiting_tell(on, out, err);
    }
    sets_clear(on->conn);
    return rc;
}

/* A transaction or a statement that has read goes on reading the same version: it would wait for what it
** cannot see, and hold that version as long. */
static int wait_check(conn *c, sqlite3_value *ms, char **err)
{
    if (is_arming(c, err))
        return SQLITE_ERROR;
    if (!sqlite3_get_autocommit(c->db) || has_written(c))
        *err = sqlite3_mprintf("statedb_wait: a transaction is open, which would not see what it waits "
                               "for: commit first");
    else if (c->n_open > 0)
        *err = sqlite3_mprintf("statedb_wait: a statement that reads a statedb table is running, and "
                               "would hold its version meanwhile: end it first");
    else if (sqlite3_value_type(ms) != SQLITE_NULL && sqlite3_value_numeric_type(ms) != SQLITE_INTEGER &&
             sqlite3_value_numeric_type(ms) != SQLITE_FLOAT)
        *err = sqlite3_mprintf("statedb_wait: the second argument is a number of milliseconds; NULL or a "
                               "negative one: for ever");
    return *err ? SQLITE_ERROR : SQLITE_OK;
}

/* The watch of that name, or NULL for all of them. */
static int argument_watch(conn *c, sqlite3_value *in, const char *function, watch **out, char **err)
{
    const char *name = (const char *)sqlite3_value_text(in);

    *out = NULL;
    if (!name && sqlite3_value_type(in) != SQLITE_NULL)
        return SQLITE_NOMEM;
    if (name)
        *out = *watch_find(c, name);
    if (name && !*out)
        *err = sqlite3_mprintf("%s: there is no watch '%s' (statedb_watches lists them)", function, name);
    else if (!c->watches)
        *err = sqlite3_mprintf("%s: this connection has no watches", function);
    return *err ? SQLITE_ERROR : SQLITE_OK;
}

static void result_failed(sqlite3_context *ctx, int rc, char *err)
{
    if (err)
        sqlite3_result_error(ctx, err, -1);
    sqlite3_result_error_code(ctx, rc);
    sqlite3_free(err);
}

/* statedb_wait(name, ms): 1 when the result of the watch's query may have changed, 0 after so many
** milliseconds. NULL: any watch; for ever. */
static void wait_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    conn *c = sqlite3_user_data(ctx);
    waiting on = {.conn = c};
    bool is_told = false;
    char *err = NULL;
    int rc = wait_check(c, argv[1], &err);

    (void)argc;
    if (!rc)
        rc = argument_watch(c, argv[0], "statedb_wait", &on.only, &err);
    if (!rc) {
        bool has_end = sqlite3_value_type(argv[1]) != SQLITE_NULL;
        on.deadline = sdb_deadline(has_end ? sqlite3_value_int64(argv[1]) : -1);
        for (watch *w = waiting_next(&on, NULL); w; w = waiting_next(&on, w))
            w->is_told = false;
        rc = waiting_wait(&on, &is_told, &err);
    }
    if (rc)
        result_failed(ctx, rc, err);
    else
        sqlite3_result_int(ctx, is_told);
}

static int fd_open(watch *w)
{
    if (!sdb_fd_open(w->fd))
        return SQLITE_CANTOPEN;
    for (const source *s = w->sources; s; s = s->next)
        for (const extent *r = s->ranges; r; r = r->next)
            sdb_watch_tell(r->watch, w->fd[1]);
    if (!w->is_armed)
        sdb_fd_raise(w->fd[1]);
    return SQLITE_OK;
}

/* statedb_watch_fd(name): a descriptor that is readable when statedb_wait() would not wait. */
static void fd_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char *err = NULL;
    watch *w;
    int rc = argument_watch(sqlite3_user_data(ctx), argv[0], "statedb_watch_fd", &w, &err);

    (void)argc;
    if (!rc && !w) {
        err = sqlite3_mprintf("statedb_watch_fd: the argument is the name of a watch");
        rc = SQLITE_ERROR;
    }
    if (!rc && w->fd[0] < 0)
        rc = fd_open(w);
    if (rc)
        result_failed(ctx, rc, err);
    else
        sqlite3_result_int(ctx, w->fd[0]);
}

int watches_register(conn *c)
{
    int rc = listing_register(c, &watches_module);

    if (!rc)
        rc = sqlite3_create_function_v2(c->db, "statedb_wait", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                        conn_ref(c), wait_function, NULL, NULL, conn_unref);
    if (!rc)
        rc = sqlite3_create_function_v2(c->db, "statedb_watch_fd", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                        conn_ref(c), fd_function, NULL, NULL, conn_unref);
    return rc;
}
