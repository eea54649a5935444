/* like_sql.c - LIKE table: a definition that begins with that of another table.
**
**     definition = LIKE [schema "."] table { "," column | "," constraint | "," INDEX ... | "," option }
**
** The other is a statedb table or an ordinary one. The clause stands for the text of its columns, then
** of its constraints, and for the indexes it has now, each under the name NEWTABLE_INDEX; that is
** written in place of it, between the new columns and constraints, and parsed. The table in the store carries the text without the clause, and is asked for
** it when SQLite connects the table again. So it does not matter what becomes of the other one. */
#include "index_sql.h"
#include "view.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* A clause on its way to becoming a text. */
typedef struct like {
    conn *conn;
    const char *schema, *name; /* of the new table */
    char *clause;              /* as it is written, behind the word */
    char *from_schema;         /* of the other one: as written, or NULL; then as found */
    char *from_name;
    char *from_sql; /* in sqlite_schema */
    char *columns;  /* what it stands for */
    sqlite3_str *constraints;
    char **err;
} like;

static int like_error(like *k, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    sqlite3_free(*k->err);
    *k->err = text ? sqlite3_mprintf("statedb: %s: LIKE %s: %s", k->name, k->clause, text) : NULL;
    sqlite3_free(text);
    return *k->err ? SQLITE_ERROR : SQLITE_NOMEM;
}

/* ---------------------------------------------------------------- the clause */

/* The argument that is the clause: the first that is no option. -1: there is none. */
static int clause_find(int argc, const char *const *argv)
{
    int i = 3;
    sql_token t;

    while (i < argc && table_sql_is_option(argv[i]))
        i++;
    if (i == argc)
        return -1;
    t = (sql_token){.text = argv[i]};
    sql_token_next(&t);
    return sql_token_is(&t, "LIKE") ? i : -1;
}

static char *token_name(const sql_token *t)
{
    return sql_token_is_name(t) ? sql_dequote(t->text, t->length) : NULL;
}

static int clause_parse(like *k, const char *argument)
{
    sql_token t = {.text = argument};
    bool is_wrong;

    sql_token_next(&t);
    k->clause = sqlite3_mprintf("%s", t.text + t.length + strspn(t.text + t.length, " \t\n\v\f\r"));
    if (!k->clause)
        return SQLITE_NOMEM;
    sql_token_next(&t);
    is_wrong = !sql_token_is_name(&t);
    k->from_name = token_name(&t);
    sql_token_next(&t);
    if (t.kind == '.') {
        sql_token_next(&t);
        is_wrong |= !sql_token_is_name(&t);
        k->from_schema = k->from_name;
        k->from_name = token_name(&t);
        sql_token_next(&t);
    }
    if (is_wrong || t.kind != TOKEN_END)
        return like_error(k,
                          "the name of a table belongs behind the word, and nothing else; a column "
                          "named like needs quotes");
    return k->from_name ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---------------------------------------------------------------- the other table */

/* Look into one schema. *type is "table", "view" or NULL. The new table is there already, and is not
** what is meant. */
static int schema_look_up(like *k, const char *schema, char **type)
{
    char *sql =
        sqlite3_mprintf("SELECT type, name, sql FROM \"%w\".sqlite_schema "
                        "WHERE type IN ('table', 'view') AND name = %Q COLLATE NOCASE "
                        "AND NOT (%d AND name = %Q COLLATE NOCASE)",
                        schema, k->from_name, sqlite3_stricmp(schema, k->schema) == 0, k->name);
    sqlite3_stmt *stmt = NULL;
    int rc = sql ? sqlite3_prepare_v2(k->conn->db, sql, -1, &stmt, NULL) : SQLITE_NOMEM;
    int rc_end;

    sqlite3_free(sql);
    if (!rc && sqlite3_step(stmt) == SQLITE_ROW) {
        sqlite3_free(k->from_schema);
        sqlite3_free(k->from_name);
        *type = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 0));
        k->from_schema = sqlite3_mprintf("%s", schema);
        k->from_name = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 1));
        k->from_sql = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 2));
        if (!*type || !k->from_schema || !k->from_name || !k->from_sql)
            rc = SQLITE_NOMEM;
    }
    rc_end = sqlite3_finalize(stmt);
    return rc ? rc : rc_end;
}

/* SQLite looks for a table in temp first, then in the order of the schemas. */
static int other_find(like *k)
{
    sqlite3_stmt *stmt;
    char *type = NULL;
    const char *schema;
    int rc_end;
    int rc =
        sqlite3_prepare_v2(k->conn->db,
                           "SELECT name FROM pragma_database_list WHERE ?1 IS NULL OR name = ?1 "
                           "COLLATE NOCASE ORDER BY name <> 'temp', seq",
                           -1, &stmt, NULL);

    if (rc)
        return rc;
    rc = sqlite3_bind_text(stmt, 1, k->from_schema, -1, SQLITE_TRANSIENT);
    while (!rc && !type && sqlite3_step(stmt) == SQLITE_ROW) {
        schema = (const char *)sqlite3_column_text(stmt, 0);
        rc = schema ? schema_look_up(k, schema, &type) : SQLITE_NOMEM;
    }
    rc_end = sqlite3_finalize(stmt);
    if (!rc)
        rc = rc_end;
    if (!rc && !type)
        rc = like_error(k, "there is no such table");
    else if (!rc && strcmp(type, "view") == 0)
        rc = like_error(k, "that is a view, and has no definition of columns; write them out");
    sqlite3_free(type);
    return rc;
}

/* ---------------------------------------------------------------- texts */

/* Spaces in place of the INDEX entries of a definition, of the comma before one that stood alone, and
** of the table's name before a column's in a CHECK. */
static void text_blank(char *text)
{
    sql_token before = {.text = text}, t = before;

    sql_token_next(&t);
    while (t.kind != TOKEN_END) {
        sql_token first = t, comma = {.kind = TOKEN_END};
        if (before.kind == ',')
            comma = before;
        sql_token_next(&t);
        if (sql_token_is(&first, "UNIQUE") && sql_token_is(&t, "INDEX")) {
            sql_token_next(&t);
        } else if (sql_token_is_name(&first) && t.kind == '.') {
            memset(text + (first.text - text), ' ', (size_t)(t.text + 1 - first.text));
            sql_token_next(&t);
            before = first;
            continue;
        } else if (!sql_token_is(&first, "INDEX")) {
            before = first;
            continue;
        }
        for (int depth = 0; t.kind != TOKEN_END; sql_token_next(&t)) { /* its name, its parts */
            depth += (t.kind == '(') - (t.kind == ')');
            if (t.kind == ')' && depth == 0)
                break;
        }
        sql_token_next(&t);
        if (sql_token_is(&t, "USING")) {
            sql_token_next(&t);
            sql_token_next(&t);
        }
        memset(text + (first.text - text), ' ', (size_t)(t.text - first.text));
        if (comma.kind == ',' && (t.kind == ',' || t.kind == TOKEN_END))
            memset(text + (comma.text - text), ' ', 1);
    }
}

static void index_append(like *k, const table_sql *def, const sdb_index_def *index)
{
    static const char *const kinds[] = {"radix", "lpm", "multi"};
    sqlite3_str *sql = k->constraints;

    sqlite3_str_appendf(sql, "%s%sINDEX \"%w_%w\"(", sqlite3_str_length(sql) ? ", " : "",
                        index->unique ? "UNIQUE " : "", k->name, index->name);
    for (int i = 0; i < index->n_parts; i++) {
        const sdb_part *part = &index->parts[i];
        sqlite3_str_appendf(sql, "%s\"%w\"", i ? ", " : "", part_name(def, part));
        if (index->kind == SDB_RADIX && part->column != SDB_REVISION_COLUMN) /* others know no collation */
            sqlite3_str_appendf(sql, " COLLATE %s", sql_collations[part->collation]);
        sqlite3_str_appendall(sql, part->desc ? " DESC" : "");
    }
    sqlite3_str_appendf(sql, ") USING %s", kinds[index->kind]);
}

/* The columns and the constraints of a definition. */
static int body_append(like *k, const char *body)
{
    sql_token t;
    int depth = 0;

    k->columns = sqlite3_mprintf("%s", body);
    if (!k->columns)
        return SQLITE_NOMEM;
    text_blank(k->columns);
    t = (sql_token){.text = k->columns};
    for (sql_token_next(&t); t.kind != TOKEN_END; sql_token_next(&t)) {
        depth += (t.kind == '(') - (t.kind == ')');
        if (t.kind == ',' && depth == 0 && table_sql_is_constraint(t.text + 1)) {
            sqlite3_str_appendall(k->constraints, t.text + 1);
            k->columns[t.text - k->columns] = 0;
            break;
        }
    }
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- a statedb table */

static int statedb_append(like *k, const vtable *t)
{
    const sdb_table *table;
    view v;
    int rc = error_code(view_begin(t->store, &v));

    if (rc)
        return rc;
    table = view_table(v, t->key);
    if (table)
        rc = body_append(k, sdb_table_sql(table));
    else
        rc = like_error(k, "the table has been dropped from its store");
    for (int i = 1; !rc && i <= view_indexes(v, table); i++) {
        const sdb_index_def *index = view_index(v, table, i);
        if (sqlite3_strnicmp(index->name, "sqlite_", 7) != 0)
            index_append(k, t->def, index);
    }
    view_end(t->store, v);
    return rc;
}

static int virtual_append(like *k)
{
    vtable *t;
    int rc = vtable_named(k->conn, k->from_schema, k->from_name, &t);

    if (rc)
        return rc == SQLITE_NOMEM ? rc : like_error(k, "%s", sqlite3_errmsg(k->conn->db));
    return t ? statedb_append(k, t)
             : like_error(k, "that is a virtual table of another module; write out the columns");
}

/* ---------------------------------------------------------------- an ordinary table */

/* An error of the parser's, about the other table: "statedb: NAME: ..." */
static int other_error(like *k, char *text)
{
    size_t head = strlen("statedb: : ") + strlen(k->from_name);
    int rc = text ? like_error(k, "%s", text + head) : SQLITE_NOMEM;

    sqlite3_free(text);
    return rc;
}

static int indexes_append(like *k, table_sql *def)
{
    char *sql = sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_schema WHERE type = 'index' AND "
                                "tbl_name = %Q COLLATE NOCASE AND sql IS NOT NULL ORDER BY rowid",
                                k->from_schema, k->from_name);
    sqlite3_stmt *stmt = NULL;
    int rc_end;
    int rc = sql ? sqlite3_prepare_v2(k->conn->db, sql, -1, &stmt, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    while (!rc && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        index_command command;
        char *err = NULL;
        rc = text ? index_command_parse(def, text, &command, &err) : SQLITE_NOMEM;
        if (rc) {
            rc = rc == SQLITE_NOMEM ? rc : other_error(k, err);
        } else {
            sdb_index_def index = index_core_def(&command.index);
            index_append(k, def, &index);
            index_command_fini(&command);
        }
    }
    rc_end = sqlite3_finalize(stmt);
    return rc ? rc : rc_end;
}

/* CREATE TABLE name(body): so sqlite_schema has it. */
static int ordinary_append(like *k)
{
    sql_token t = {.text = k->from_sql};
    const char *body;
    const char *argv[] = {"statedb", k->from_schema, k->from_name, NULL};
    char *text, *err = NULL;
    table_sql *def;
    int depth = 0;
    int rc;

    do
        sql_token_next(&t);
    while (t.kind != '(' && t.kind != TOKEN_END);
    body = t.text + t.length;
    for (; t.kind != TOKEN_END; sql_token_next(&t)) {
        depth += (t.kind == '(') - (t.kind == ')');
        if (t.kind == ')' && depth == 0)
            break;
    }
    text = sqlite3_mprintf("%.*s", (int)(t.text - body), body);
    if (!text)
        return SQLITE_NOMEM;
    sql_token_next(&t);
    if (t.kind != TOKEN_END) {
        sqlite3_free(text);
        return like_error(k, "%s is not supported; write out the columns", t.text);
    }
    argv[3] = text;
    rc = table_sql_parse(4, argv, &def, &err);
    if (rc) {
        rc = rc == SQLITE_NOMEM ? rc : other_error(k, err);
    } else {
        rc = body_append(k, text);
        if (!rc)
            rc = indexes_append(k, def);
        table_sql_free(def);
    }
    sqlite3_free(text);
    return rc;
}

/* ---------------------------------------------------------------- the definition */

static int clause_expand(like *k, const char *argument, bool is_new)
{
    const char *file = sqlite3_db_filename(k->conn->db, k->schema);
    int rc = clause_parse(k, argument);

    if (!rc && is_new && file && *file)
        rc = like_error(k,
                        "schema %s is a database file, which may be opened where there is no such "
                        "table; write out the columns",
                        k->schema);
    if (!rc)
        rc = other_find(k);
    if (!rc)
        rc = sqlite3_strnicmp(k->from_sql, "CREATE VIRTUAL ", 15) == 0 ? virtual_append(k)
                                                                       : ordinary_append(k);
    return rc ? rc : sqlite3_str_errcode(k->constraints);
}

/* What stands in the store already, or NULL, with the options. */
static int definition_known(int argc, const char *const *argv, const char *text, table_sql **out,
                            char **err)
{
    const char **with = sqlite3_malloc64(((size_t)argc + 1) * sizeof *with);
    int n = 3;
    int rc;

    if (!with)
        return SQLITE_NOMEM;
    memcpy(with, argv, 3 * sizeof *with);
    if (text)
        with[n++] = text;
    for (int i = 3; i < argc; i++)
        if (table_sql_is_option(argv[i]))
            with[n++] = argv[i];
    rc = table_sql_parse(n, with, out, err);
    sqlite3_free(with);
    return rc;
}

/* Columns in place of the clause, and constraints before the first that follows it. */
static int definition_with(int argc, const char *const *argv, int at, const char *columns,
                           const char *constraints, table_sql **out, char **err)
{
    const char **with = sqlite3_malloc64(((size_t)argc + 1) * sizeof *with);
    int n = 0;
    int rc;

    if (!with)
        return SQLITE_NOMEM;
    for (int i = 0; i < argc; i++) {
        if (constraints && i > at && table_sql_is_constraint(argv[i])) {
            with[n++] = constraints;
            constraints = NULL;
        }
        with[n++] = i == at ? columns : argv[i];
    }
    if (constraints)
        with[n++] = constraints;
    rc = table_sql_parse(n, with, out, err);
    sqlite3_free(with);
    return rc;
}

static int definition_new(conn *c, int argc, const char *const *argv, int at, bool is_new,
                          table_sql **out, char **err)
{
    like k = {.conn = c,
              .schema = argv[1],
              .name = argv[2],
              .constraints = sqlite3_str_new(NULL),
              .err = err};
    int rc = clause_expand(&k, argv[at], is_new);
    char *constraints = sqlite3_str_finish(k.constraints);

    if (!rc)
        rc = definition_with(argc, argv, at, k.columns, constraints, out, err);
    sqlite3_free(constraints);
    sqlite3_free(k.columns);
    sqlite3_free(k.clause);
    sqlite3_free(k.from_schema);
    sqlite3_free(k.from_name);
    sqlite3_free(k.from_sql);
    return rc;
}

static int has_store(int argc, const char *const *argv, bool *out)
{
    *out = false;
    for (int i = 3; i < argc; i++) {
        sql_token t = {.text = argv[i]};
        char *name;
        if (!table_sql_is_option(argv[i]))
            continue;
        sql_token_next(&t);
        name = sql_dequote(t.text, t.length);
        if (!name)
            return SQLITE_NOMEM;
        *out |= sqlite3_stricmp(name, "store") == 0;
        sqlite3_free(name);
    }
    return SQLITE_OK;
}

int like_parse(conn *c, int argc, const char *const *argv, bool is_new, table_sql **out, char **err)
{
    int at = clause_find(argc, argv);
    const sdb_table *table;
    bool is_shared;
    char *key;
    view v;
    int rc;

    if (at < 0)
        return table_sql_parse(argc, argv, out, err);
    if (is_new)
        return definition_new(c, argc, argv, at, true, out, err);
    rc = has_store(argc, argv, &is_shared);
    if (rc)
        return rc;
    if (is_shared) /* its store has it, or nobody */
        return definition_known(argc, argv, NULL, out, err);
    key = sqlite3_mprintf("%s.%s", argv[1], argv[2]);
    rc = key ? error_code(view_begin(store_own(c), &v)) : SQLITE_NOMEM;
    if (rc) {
        sqlite3_free(key);
        return rc;
    }
    table = view_table(v, key);
    if (table)
        rc = definition_known(argc, argv, sdb_table_sql(table), out, err);
    view_end(store_own(c), v);
    sqlite3_free(key);
    return table ? rc : definition_new(c, argc, argv, at, false, out, err);
}
