/* ext.h - the private map of this folder: the objects its files share, and what each file offers.
**
**     statedb.c      entry points, registration
**     schema_sql.c   the arguments of CREATE VIRTUAL TABLE          (schema_sql.h)
**     index_sql.c    CREATE INDEX and DROP INDEX                    (index_sql.h)
**     sql_parser.c   what these two have in common                  (sql_parser.h)
**     like_sql.c     LIKE table, in these arguments
**     store.c        the stores of a connection, and those of the process that have names
**     module.c       create, connect, disconnect, destroy, rename; the sqlite3_module table
**     path.c         the ways to answer a query, and the best       (path.h)
**     plan.c         xBestIndex, and the plan it hands to the cursor (plan.h)
**     estimate.c     how many rows a range is going to have
**     lock.c         write locks of shared tables: when, and how long
**     witness.c      how the end of a transaction that only reads is learned
**     view.c         which version of a store is read               (view.h)
**     open.c         xOpen, xClose, and what a cursor is open on    (cursor.h)
**     cursor.c       xFilter .. xColumn
**     range.c        xFilter's values as a range of an index, and as a filter
**     distinct.c     rows that differ in some columns
**     ahead.c        what a join is going to look up
**     automatic.c    indexes that cursors make for themselves
**     write.c        xUpdate: rows and conflicts
**     expression.c   expressions of the definition
**     check.c        CHECK constraints of a row that is written
**     command.c      what is written to a table's command column
**     transaction.c  the transaction manager: SQLite's callbacks -> an sdb_txn for each store
**     value.c        sqlite3_value <-> sdb_value, affinity
**     error.c        result codes and messages
**     attach.c       statedb_attach(): all tables of a store become virtual tables
**     functions.c    other SQL functions, and which of them an index answers
**     prefix_sql.c   IP, MAC and bit prefixes in SQL
**     json_keys.c    the keys in JSON                               (json_keys.h)
**     multi_sql.c    indexes of several keys a row in SQL
**     refused.c      what is said of a value that an index refuses
**     listing.c      tables that are made up when they are read     (listing.h)
**     system_tables.c  statedb_tables, _indexes, _feeds, _locks, _stats
**     snapshot_sql.c snapshots with names
**     diff_sql.c     statedb_diff(): what differs between two moments
**     feed_vtab.c    feeds as tables
**     watch_sql.c    watches: statedb_watches, statedb_wait()
**
** Nothing that matters lives in an sqlite3_vtab: SQLite replaces those objects in the middle of
** transactions. All state belongs to the connection (struct conn), the store (core/statedb.h) and
** the counted table incarnation. A connection's objects are used under its own mutex only. */
#ifndef STATEDB_EXT_H
#define STATEDB_EXT_H

#include <sqlite3ext.h>
#if SQLITE_VERSION_NUMBER < 3038000
#error "statedb needs the headers of SQLite 3.38 or newer"
#endif

#include "../core/statedb.h"
#include "schema_sql.h"

#define STATEDB_VERSION "0.1.0"

typedef struct conn conn;
typedef struct store store;
typedef struct vtable vtable;
typedef struct cursor cursor;
typedef struct checker checker;
typedef struct watch watch;

/* Everything of one SQLite connection. Counted: by the module's client data and by each vtab
** object, because SQLite destroys the two in either order. */
struct conn {
    sqlite3 *db;
    int n_ref;
    store *stores;   /* all it has come across; the first is its own, the others have names */
    vtable *vtables; /* all there are */
    bool is_utf16;   /* the encoding of its databases */

    /* open.c */
    int n_open;       /* cursors open */
    int n_evaluating; /* DEFAULT and CHECK expressions being evaluated: nobody may write */
    uint64_t n_plans; /* ever made: the last one's id */
    bool has_lost;  /* a statement is planned anew, because its index is not there (open.c) */
    bool has_doubt; /* the next UPDATE planned is not to hope for a single row (cursor.c) */

    vtable *wanted; /* lock.c: tables to be locked by the statement that is running */

    /* witness.c */
    bool is_witnessed;       /* the end of this SQLite transaction, or statement, will be told */
    struct witness *witness; /* the file that does it, or NULL */
    sqlite3_stmt *call;      /* the SELECT that calls it */

    /* watch_sql.c */
    watch *watches;
    watch *arming; /* the one whose query is running, to find out what it reads; or NULL */

    /* transaction.c */
    sqlite3_vtab *manager; /* the manager's object that takes part in this SQLite transaction, or a table's that
                           ** does for it */
    sqlite3_vtab *heir;    /* the manager's object that is to follow that */
    bool manager_is_young; /* it was created in this very transaction, and may vanish with it */
    int state;             /* for the asserts on the order of callbacks */
    sqlite3_stmt *enroll;  /* DELETE FROM temp.statedb_txn */
    int n_writable;        /* table objects by which something may be written */
    bool has_old_plans;    /* some statements are to be prepared again: indexes have changed, or a table
                            ** has outgrown its plan */
};

/* One store, as one connection uses it. */
struct store {
    conn *conn;
    store *next;
    char *name; /* or NULL: the connection's own */
    sdb_db *db; /* counted */

    sdb_txn *txn;           /* this SQLite transaction's writes; NULL until the first one */
    bool is_blank;          /* the txn has done nothing yet but lock */
    sdb_snapshot *snapshot; /* what reads outside of a txn see (view.c) */

    /* open.c */
    int n_standing;          /* cursors in use that are open on the snapshot */
    int64_t n_writes;        /* counts xUpdate calls: two cursors of equal count see the same rows */
    bool is_bound;          /* a table has been read by it: what is written next must have that moment */
    int64_t snapshot_writes; /* n_writes when the snapshot was taken */
    int64_t txn_writes;      /* n_writes when the txn began */
    cursor *open;            /* cursors in use */
    cursor *idle;            /* closed cursors, kept for the next xOpen */
    cursor *parked; /* closed, but holding rows that the running statement may still point to */

    sdb_watch_set *watched; /* watch_sql.c: what is being waited for; NULL: nothing */

    /* transaction.c */
    int level_base;  /* SQLite's savepoint levels below this one: the txn's beginning */
    int n_levels;    /* those from there on: level_base + i is savepoint i of the txn */
    int index_level; /* n_levels when the txn last changed a set of indexes, or -1 */
};

/* What an index is like (estimate.c): how many rows have the same first columns; 0: not known. */
typedef struct estimate {
    uint64_t indexes_id;
    int index, n_eq;
    double n_rows; /* that the table had */
    double same;
} estimate;

enum { ESTIMATES = 8 };

/* One virtual table object: an incarnation of a table, as one connection's schema knows it. */
struct vtable {
    sqlite3_vtab base; /* must be first */
    conn *conn;
    store *store;
    vtable *next, *prev; /* of the connection */
    vtable *next_wanted; /* in the connection's list of tables to be locked */
    bool is_wanted;      /* it is in that list */
    bool is_begun;       /* SQLite has called xBegin, and is going to call the other transaction methods */
    sdb_table *table;    /* counted */
    uint64_t read_revision; /* the table's when a cursor was opened on it last */
    bool is_in_file;        /* without storage=memory: its rows may not be written */
    table_sql *def;
    char *schema;   /* "main", "temp", ... */
    char *name;     /* of the virtual table */
    char *key;      /* the table's name in the store: "schema.name", in a shared one just the name */
    estimate estimates[ESTIMATES];
    sdb_value *row; /* room for one row of values, for write.c */
    sqlite3_stmt **defaults; /* write.c: prepared SELECT of a DEFAULT expression, per column, or NULL */
    checker *checker;        /* check.c: made at the first write of a table that has a CHECK */
};

/* ---------------------------------------------------------------- transaction.c */

/* Register the manager's module. */
int manager_register(conn *c);

/* Create temp.statedb_txn before it is needed, when all is registered. */
void manager_create_early(conn *c);

/* Before any write, create, destroy or rename of a statedb table, and never from xBegin: makes sure
** that the manager takes part in the present SQLite transaction and that s->txn is open. */
int txn_enroll(store *s, char **err);

/* The first half of that. */
int txn_join(conn *c, char **err);

/* The same before a row of a table is written: outside of BEGIN the table may do for the manager. */
int txn_enroll_table(vtable *t);

/* Whether a table does. */
bool txn_is_led(const conn *c);

/* The transaction methods of either. */
int txn_sync(sqlite3_vtab *vtab);
int txn_commit(sqlite3_vtab *vtab);
int txn_rollback(sqlite3_vtab *vtab);
int txn_savepoint(sqlite3_vtab *vtab, int level);
int txn_release(sqlite3_vtab *vtab, int level);
int txn_rollback_to(sqlite3_vtab *vtab, int level);

/* Abort a txn that has done nothing, and begin another one. */
bool txn_restart(store *s);

/* Before a read: when the manager is young, finds out whether SQLite has undone it, and our
** transaction with it. Cheap otherwise. */
int txn_verify(conn *c);

/* After an index was created or dropped in s->txn: statements are to be prepared again, at once when
** one may use an index that is no more. */
void txn_indexes_changed(store *s, bool at_once);

/* How many statements are running that write, the one that calls us among them. */
int txn_count_writing(conn *c);

/* Whether no other statement of the connection runs than the one that called us. */
bool txn_is_alone(conn *c);

/* Whether the statement that calls us may be begun again: it has not returned a row, for it returns none. */
bool txn_can_restart(conn *c);

/* Where statements are to be prepared again, and no more than so many of them are running, have it
** done. */
void txn_expire_plans(conn *c, int n_running);

/* A table object by which something may be written has come, or goes: with the last one go the cached
** statements, which would keep the connection from being closed. */
void txn_object_come(conn *c);
void txn_object_gone(conn *c);

/* At the end of the connection: abort what is left. */
void txn_close(conn *c);

/* ---------------------------------------------------------------- store.c */

conn *conn_new(sqlite3 *db, int *rc);
conn *conn_ref(conn *c);
void conn_unref(void *c); /* sqlite3_create_module_v2's destructor */

/* The connection's own store (NULL), or that of a name, which is made where the process has none yet.
** The connection keeps it to its end. */
int store_open(conn *c, const char *name, store **out);

/* The same, among those that the connection keeps already; NULL: it is none of them. */
store *store_find(conn *c, const char *name);

static inline store *store_own(conn *c)
{
    return c->stores;
}

/* Whether sqlite3_interrupt() has been called: for loops that SQLite does not see. It takes 0.1 us. */
bool conn_is_interrupted(conn *c);

/* The same, for calls of core. */
sdb_stop conn_stop(conn *c);

/* ---------------------------------------------------------------- lock.c */

int lock_want(sqlite3_vtab *vtab);   /* xBegin: SQLite is going to write the table */
int lock_unwant(sqlite3_vtab *vtab); /* xCommit, xRollback, and when the object goes */

/* Lock what is wanted: at the beginning of each xFilter and xUpdate. An error is told by `teller`,
** whose method it is. */
int lock_wanted_now(vtable *teller);
static inline int lock_wanted(vtable *teller)
{
    return teller->conn->wanted ? lock_wanted_now(teller) : SQLITE_OK;
}

/* Take part in the transaction and lock the table; wait for it as long as busy_timeout says. */
int lock_take(vtable *t);

/* The same for a table of this name in the store, in order to change something that belongs to it: NULL,
** there is none. *err is a sentence about `who`. */
int lock_take_named(store *s, const char *name, const char *who, sdb_table **out, char **err);

/* After SDB_BUSY or SDB_STALE from the creation of a table, of which others know already: whether to
** look again what is there. Waits a little; *waited_ms is the sum. */
bool lock_makes_way(vtable *t, int core_rc, int *waited_ms);

/* ---------------------------------------------------------------- witness.c */

/* Before a shared store is read: make sure that the end of the SQLite transaction will be told
** (view_end_all), or that of the statement, where one is running that writes. */
int witness_call(conn *c, char **err);
bool witness_is_there(conn *c); /* it has been called in this transaction */
void witness_forget_statement(conn *c);

/* ---------------------------------------------------------------- module.c */

extern const sqlite3_module *const statedb_module;

/* Find the table by its name in what the connection sees now, and set t->table. For when it has gone
** from there: in a shared store, dropped or renamed by somebody and perhaps created anew, or else an
** error; in the connection's own made together with its object, in a transaction that has been undone
** since, and then it is made once more, empty. */
int vtable_find(vtable *t);

/* The object of the statedb table of that name, which is connected if it is not yet; NULL: it is another
** kind of table. schema NULL: where SQLite finds the name first. When there is no such table SQLite's
** error, its text in sqlite3_errmsg. It is valid until SQLite is called again. */
int vtable_named(conn *c, const char *schema, const char *name, vtable **out);

/* The name that a table of t's schema has in t's store. NULL: no memory. */
char *vtable_key(const vtable *t, const char *name);

/* The refusal of a table in a database file. */
int vtable_refuse_file(vtable *t);

/* ---------------------------------------------------------------- like_sql.c */

/* table_sql_parse, and LIKE table. is_new: at CREATE, else for a table that SQLite has already, whose
** definition is what the store has of it. */
int like_parse(conn *c, int argc, const char *const *argv, bool is_new, table_sql **out, char **err);

/* ---------------------------------------------------------------- plan.c, open.c, cursor.c, write.c, command.c */

int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
int plan_find_function(sqlite3_vtab *vtab, int argc, const char *name,
                       void (**function)(sqlite3_context *, int, sqlite3_value **), void **arg);

int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out);
int cursor_close(sqlite3_vtab_cursor *cur);
int cursor_filter(sqlite3_vtab_cursor *cur, int idx_num, const char *idx_str, int argc,
                  sqlite3_value **argv);
int cursor_next(sqlite3_vtab_cursor *cur);
int cursor_eof(sqlite3_vtab_cursor *cur);
int cursor_column(sqlite3_vtab_cursor *cur, sqlite3_context *ctx, int column);
int cursor_rowid(sqlite3_vtab_cursor *cur, sqlite3_int64 *rowid);
void conn_close_cursor(conn *c); /* one of those that conn.n_open counts is no more */
void cursor_pool_free(store *s); /* frees idle and parked ones; none is open */

int write_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);
int write_begin(vtable *t); /* take part in the transaction and lock the table */
void write_defaults_free(vtable *t);

int command_run(vtable *t, sqlite3_value *command);

/* Check the whole store as the connection sees it. *out: what is wrong, to be freed with free(), or NULL.
** SQLITE_INTERRUPT, SQLITE_NOMEM. */
int store_check(store *s, char **out);

/* That no table and no index of the table's schema has this name, else SQLite's error. */
int command_check_name(vtable *t, const char *name);

/* The columns behind the real ones (schema_sql.h): command, revision, snapshot. */
static inline int column_command(const table_sql *def)
{
    return def->n_columns;
}
static inline int column_revision(const table_sql *def)
{
    return def->n_columns + 1;
}
static inline int column_snapshot(const table_sql *def)
{
    return def->n_columns + 2;
}

/* ---------------------------------------------------------------- expression.c, check.c */

/* Step a statement of a DEFAULT or CHECK, whose functions must not write to statedb tables meanwhile,
** nor roll back. SQLite's code. */
int expression_step(store *s, sqlite3_stmt *stmt);

/* That an expression calls no function that SQLite keeps from a schema, which somebody else may have
** written. In temp all are allowed, as in SQLite. */
int expression_check_functions(vtable *t, const char *expression);

/* At CREATE: whether SQLite can evaluate the CHECKs. */
int check_prepare(vtable *t);

/* Whether the row t->row of that rowid passes. old, argv: of an UPDATE, what it replaces, and the new
** values as they were given, from the first column's on. */
int check_row(vtable *t, int64_t rowid, const sdb_row *old, sqlite3_value **argv);
void check_free(vtable *t);

/* How the manager's table shows a row that is being checked: its columns, the first of which is the
** manager's own, and the methods of its cursors. */
int check_row_declare(sqlite3 *db);
int check_row_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
int check_row_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out);
int check_row_close(sqlite3_vtab_cursor *cur);
int check_row_filter(sqlite3_vtab_cursor *cur, int idx_num, const char *idx_str, int argc,
                     sqlite3_value **argv);
int check_row_next(sqlite3_vtab_cursor *cur);
int check_row_eof(sqlite3_vtab_cursor *cur);
int check_row_column(sqlite3_vtab_cursor *cur, sqlite3_context *ctx, int column);
int check_row_rowid(sqlite3_vtab_cursor *cur, sqlite3_int64 *rowid);

/* ---------------------------------------------------------------- value.c */

/* A value as it is; text and blob are borrowed from `in`, valid as long as it is not converted; no
** NUL need follow the text. SQLITE_NOMEM when SQLite cannot give the text. */
int value_get(sqlite3_value *in, sdb_value *out);

/* The value as a column of this affinity stores it; `in` is converted in place by SQLite's own
** routines (it is an argument of xUpdate or xFilter, never a copy). */
int value_get_affinity(sqlite3_value *in, affinity aff, sdb_value *out);

/* Hand a row's value to SQLite without copying: it lives until the statement ends. */
void value_result(sqlite3_context *ctx, const sdb_value *value);

/* Compare two values in SQL's order, text by a collation; exact between integers and reals. */
int value_compare(const sdb_value *a, const sdb_value *b, sdb_collation collation);

/* ---------------------------------------------------------------- error.c */

/* Set vtab->zErrMsg ("statedb: TABLE: ..."; the text is formatted by sqlite3_vmprintf) and return
** rc. */
int error_set(vtable *t, int rc, const char *format, ...);

/* The SQLite code of a core call's, if that has failed with its sentence in the vtab's message. */
int error_core_failed(vtable *t, int core_rc);
static inline int error_core(vtable *t, int core_rc)
{
    return core_rc == SDB_OK ? SQLITE_OK : error_core_failed(t, core_rc);
}
int error_code(int core_rc); /* the code alone */

/* `UNIQUE constraint failed: host.name` and friends, word for word as SQLite, with its extended
** code. index: of those the txn has now; 0 is the rowid. */
int error_unique(vtable *t, int index);
int error_unique_parts(vtable *t, int code, const sdb_part *parts, int n);
int error_not_null(vtable *t, int column);
int error_check(vtable *t, int check);

/* A message of SQLite's, as it is. */
int error_text(vtable *t, int rc, const char *text);

/* As error_set, of a value: "statedb: TABLE.COLUMN: ...". */
int error_column(vtable *t, int rc, int column, const char *format, ...);

/* ---------------------------------------------------------------- attach.c, functions.c */

int attach_register(conn *c);

/* What is asked of an index of SDB_MULTI. */
enum { MULTI_HAS, MULTI_HAS_PREFIX };

/* A function of two arguments that an index of some kind answers when the first one is its column, as
** a condition. xBestIndex gets it as the operator SQLITE_INDEX_CONSTRAINT_FUNCTION + its place here. */
typedef struct index_function {
    const char *name;    /* "statedb_covers"; in a plan "net covers ?" */
    sdb_index_kind kind; /* of the indexes */
    int op;              /* what is asked of them: of SDB_LPM, sdb_prefix_op; of SDB_MULTI above */
    int rows;            /* that are expected; 0: a part of the table */
    bool is_of_table;    /* the answer depends on all rows: index or not, xFilter has to find it */
    bool is_of_key;      /* the rows share a key: in a unique index there is one at most */
    void (*function)(sqlite3_context *, int, sqlite3_value **); /* for one row */
    int (*filter)(cursor *, sqlite3_value *); /* xFilter, with the second argument */
} index_function;

enum { INDEX_FUNCTIONS = 5 };
extern const index_function index_functions[INDEX_FUNCTIONS];

int functions_register(conn *c);

/* ---------------------------------------------------------------- system_tables.c */

int system_tables_register(conn *c);

/* ---------------------------------------------------------------- snapshot_sql.c, diff_sql.c */

int snapshots_register(conn *c);
int diff_register(conn *c);

/* ---------------------------------------------------------------- feed_vtab.c */

int feed_register(conn *c);

/* ---------------------------------------------------------------- watch_sql.c */

int watches_register(conn *c);
void watches_free(conn *c);

/* ---------------------------------------------------------------- prefix_sql.c */

void prefix_lpm(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void prefix_covers(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void prefix_within(sqlite3_context *ctx, int argc, sqlite3_value **argv);
int prefix_functions_register(sqlite3 *db);
int prefix_filter(cursor *cur, sqlite3_value *in);

/* ---------------------------------------------------------------- multi_sql.c */

void multi_function(sqlite3_context *ctx, int argc, sqlite3_value **argv);
int multi_filter(cursor *cur, sqlite3_value *in);

/* ---------------------------------------------------------------- refused.c */

/* "'10.0.0.300' has a number above 255"; and the same as a sentence of a function. NULL: no memory. */
char *value_complaint(const sdb_value *v, const char *wrong);
char *function_complaint(const index_function *f, const sdb_value *v, const char *wrong);
extern const char json_wrong[];

/* After SDB_NOTPREFIX or SDB_NOTSET from core: the error for the first value that is refused, in t->row,
** which was to be this row, or in the rows that an index was to be created on. */
int refused_row(vtable *t, int64_t rowid, int core_rc);
int refused_table(vtable *t, const sdb_index_def *def, int core_rc);

#endif
