/* sql_parser.h - what the parsers of this folder (schema_sql.c, index_sql.c) have in common.
**
** An error ends the text: from then on the token is TOKEN_END, so that every loop ends by itself
** and the first error is the one reported. */
#ifndef STATEDB_SQL_PARSER_H
#define STATEDB_SQL_PARSER_H

#include "schema_sql.h"
#include "sql_token.h"

#include <stddef.h>

typedef struct parser {
    int rc;
    char *error;     /* the sentence when rc is SQLITE_ERROR */
    sql_token token; /* the one to be parsed next */
    const char *end; /* of the one before it */
    table_sql *table;
    const char *index; /* name of the index that errors are about, or NULL */
    bool is_command;   /* the text is a statement of its own */

    /* schema_sql.c */
    sql_token constraint; /* the name after CONSTRAINT, or no name */
    int n_constraints; /* of table->indexes, those made by constraints: the first ones */
    bool has_primary;
    bool is_autoincrement; /* the PRIMARY KEY that is being parsed */
    bool has_constraints; /* so no further column may follow */
} parser;

enum {
    COLUMN_LIMIT = 2000,  /* SQLite's default: of a table's columns, of an index's parts */
    NAME_MAX_BYTES = 4096 /* of an index's name, and of a table's with its schema's */
};

extern const char *const sql_collations[]; /* by sdb_collation, and a NULL */

/* Begin at the text's first token. */
void parser_start(parser *p, table_sql *table, const char *text);

void parser_nomem(parser *p);
void parser_error(parser *p, const char *format, ...);
void parser_unexpected(parser *p); /* the token is not one that may stand here */

void parser_next(parser *p);
bool parser_accept(parser *p, int kind);
bool parser_accept_word(parser *p, const char *word);
void parser_expect(parser *p, int kind);
void parser_expect_word(parser *p, const char *word);

/* A string that was just made, or NULL for want of memory. */
char *parser_own(parser *p, char *text);

/* Room for one element behind the n there are. The array stays as it is when there is none. */
void *parser_grow(parser *p, void *array, int n, size_t size);

/* A name without its quotes: the caller frees it; NULL after an error. */
char *parser_name(parser *p);
void parser_check_name(parser *p, const char *name); /* of a table or index */
sdb_collation parser_collation(parser *p);

/* Whether here begins something there is no support for: then that is the error. */
bool parser_refuse(parser *p);

#endif
