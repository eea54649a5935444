/* listing.h - tables that no store has: rows that are made up when somebody reads them, like those of
** statedb_tables.
**
** Each is a table by itself in every connection, without CREATE (an eponymous virtual table). What is
** read is as it was when the cursor began. */
#ifndef STATEDB_LISTING_H
#define STATEDB_LISTING_H

#include "ext.h"

typedef struct listing listing; /* rows being made up, or read */

/* Add the next value of the row that is being made. Text is copied; NULL is NULL. Without memory for
** it the listing fails as a whole, whatever is added then. */
void listing_null(listing *l);
void listing_integer(listing *l, int64_t value);
void listing_text(listing *l, const char *value);
void listing_text_take(listing *l, char *value); /* from sqlite3_mprintf; NULL: it had no memory */

/* A value of a row that is to be deleted. A NUL follows text. */
sdb_value listing_value(const listing *l, int row, int column);

/* What fails returns an SQLite code, and *err where there is a sentence to say (sqlite3_mprintf). */
typedef struct listing_module {
    const char *name;    /* of the table */
    const char *columns; /* of its declaration: "name TEXT, rows INTEGER" */
    int n_columns;
    bool is_harmless; /* to be used in views and triggers that somebody else may have written */
    bool is_direct;   /* not to be used in any view or trigger */

    int (*fill)(conn *c, listing *l, char **err); /* n_columns values for each row */

    /* Of those that can be written; else NULL. The values of a row to be, by column. */
    int (*insert)(conn *c, sqlite3_value **values, char **err);
    int (*remove)(conn *c, const listing *l, int row, char **err);
} listing_module;

/* `module` lives as long as the process. */
int listing_register(conn *c, const listing_module *module);

#endif
