/* schema_sql.h - the arguments of CREATE VIRTUAL TABLE ... USING statedb(...), parsed.
**
** The arguments are the column definitions and table constraints of SQLite's CREATE TABLE, in its
** own grammar (quoted names, keywords as names, comments, nested parentheses, string literals),
** plus [UNIQUE] INDEX name (column [COLLATE c] [ASC|DESC], ...) [USING radix|lpm|multi], plus key=value
** options. SQLite hands them over cut at top-level commas. */
#ifndef STATEDB_SCHEMA_SQL_H
#define STATEDB_SCHEMA_SQL_H

#include "../core/statedb.h"

/* SQLite's five affinities (sqlite.org/datatype3.html, 3.1), by its own letters. */
typedef enum {
    AFFINITY_BLOB = 'A',
    AFFINITY_TEXT = 'B',
    AFFINITY_NUMERIC = 'C',
    AFFINITY_INTEGER = 'D',
    AFFINITY_REAL = 'E'
} affinity;

typedef struct column_sql {
    char *name; /* without quotes */
    char *type; /* as SQLite keeps it: as written, inner comments too; "" when there is none */
    affinity affinity;
    sdb_collation collation;
    bool not_null;
    uint8_t not_null_conflict; /* its ON CONFLICT: SQLITE_ABORT, SQLITE_REPLACE, or 0 for none */
    char *default_sql; /* for SELECT; whether (expr) can be evaluated is not checked; or NULL */
} column_sql;

typedef struct index_sql {
    char *name; /* as written; for constraints sqlite_autoindex_TABLE_N, as SQLite names them */
    bool unique;
    bool is_primary; /* made by PRIMARY KEY (other than INTEGER PRIMARY KEY) */
    uint8_t conflict; /* of its constraint, as above */
    sdb_index_kind kind;
    int n_parts;
    sdb_part *parts;
} index_sql;

typedef struct check_sql {
    char *name;       /* as SQLite names it: the constraint's, or its text */
    char *expression; /* what is between the parentheses; not looked into but for what a CHECK may
                      ** not have: subqueries and parameters */
} check_sql;

typedef struct table_sql {
    char *name; /* the virtual table's name */
    int n_columns;
    column_sql *columns;
    int rowid_column; /* of INTEGER PRIMARY KEY, or -1 */
    bool has_sequence; /* it is AUTOINCREMENT */
    uint8_t rowid_conflict;
    int n_indexes;    /* constraints as SQLite makes and numbers them, but for UNIQUE(rowid column)
                      ** which needs none; then INDEX entries as they are written */
    index_sql *indexes;
    bool has_replace; /* one of them has the clause REPLACE */
    int n_checks;
    check_sql *checks;   /* in the order in which they are written */
    bool storage_memory; /* storage=memory was given */
    char *store;         /* of store=NAME, or NULL */
    char *sql;     /* the arguments but for options, joined by ", ": what the table carries as its
                   ** definition; "" with a store: there are no columns, those are the store's table's */
    char *declare; /* for sqlite3_declare_vtab: see below */
    int n_hidden;  /* hidden columns in `declare`, after the n_columns real ones */
} table_sql;

/* Parse argv[3..argc) of xCreate/xConnect for the table argv[2]. Returns SQLITE_OK and *out, or
** SQLITE_ERROR / SQLITE_NOMEM and *err, a sentence from sqlite3_mprintf that starts with
** "statedb: " and the table's name, says what is wrong, where, and what to write instead.
**
** `declare` is "CREATE TABLE x(...)" with each column's name, type, collation (not for the rowid
** column: SQLite ignores it there) and NOT NULL (also for the rowid column), and then the hidden
** columns: the command column, named as the table (or "_command" where a column has that name
** already), "_revision" INTEGER and "_snapshot" TEXT. No column may have the name of one of these. */
int table_sql_parse(int argc, const char *const *argv, table_sql **out, char **err);
void table_sql_free(table_sql *def); /* accepts NULL */

/* The name of a column of an index. */
static inline const char *part_name(const table_sql *def, const sdb_part *part)
{
    return part->column == SDB_REVISION_COLUMN ? "_revision" : def->columns[part->column].name;
}

/* Whether an argument is key=value. */
bool table_sql_is_option(const char *argument);

/* Whether here begins a constraint or an INDEX, and not a column. */
bool table_sql_is_constraint(const char *text);

/* Whether two definitions (table_sql.sql) are the same but for white space, comments and the case of
** words. */
bool table_sql_is_same(const char *a, const char *b);

#endif
