/* index_sql.h - an index as SQL writes it: within CREATE VIRTUAL TABLE, and in the commands
**
**     command = CREATE [UNIQUE] INDEX [IF NOT EXISTS] [schema "."] name ON table parts [USING kind]
**             | DROP INDEX [IF EXISTS] [schema "."] name
**     parts   = "(" (name [COLLATE name] | _revision) [ASC | DESC] { "," ... } ")"
**     kind    = radix | lpm | multi */
#ifndef STATEDB_INDEX_SQL_H
#define STATEDB_INDEX_SQL_H

#include "json_keys.h"
#include "sql_parser.h"

typedef struct index_command {
    bool is_drop;
    bool has_if;     /* IF NOT EXISTS, IF EXISTS */
    char *schema;    /* or NULL */
    index_sql index; /* its name; of CREATE the rest, too */
} index_command;

/* Parse a command to the table; it begins with CREATE or DROP. SQLITE_OK and *out, to be freed by
** index_command_fini; SQLITE_ERROR and *err as table_sql_parse says it; SQLITE_NOMEM. */
int index_command_parse(table_sql *table, const char *text, index_command *out, char **err);
void index_command_fini(index_command *command);

/* As core wants it; borrowed. */
static inline sdb_index_def index_core_def(const index_sql *index)
{
    return (sdb_index_def){.name = index->name,
                           .unique = index->unique,
                           .n_parts = (uint16_t)index->n_parts,
                           .parts = index->parts,
                           .kind = (uint8_t)index->kind,
                           .extract = index->kind == SDB_MULTI ? json_extract : NULL};
}

/* For schema_sql.c. */
int column_find(const table_sql *table, const char *name); /* -1: none */
void index_part_add(parser *p, index_sql *index, int column, int collation, bool desc);
void index_parts_parse(parser *p, index_sql *index);
void index_body_parse(parser *p, index_sql *index); /* all behind the name, which it has */
void index_fini(index_sql *index);

#endif
