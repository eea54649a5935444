/* schema.h - for tests of table definitions: parse one. */
#ifndef STATEDB_TEST_SCHEMA_H
#define STATEDB_TEST_SCHEMA_H

#include "sql_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

static inline int schema_parse(const char *name, const char *body, table_sql **out, char **err)
{
    const char *argv[] = {"statedb", "main", name, body};

    *out = NULL;
    *err = NULL;
    return table_sql_parse(4, argv, out, err);
}

static inline table_sql *schema_parsed(const char *body)
{
    table_sql *table;
    char *err;

    if (schema_parse("t", body, &table, &err) != SQLITE_OK)
        fail_msg("%s: %s", body, err);
    return table;
}

#endif
