/* index_sql.c - see index_sql.h. */
#include "index_sql.h"

#include <sqlite3ext.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- columns */

int column_find(const table_sql *table, const char *name)
{
    int i = table->n_columns - 1;

    while (i >= 0 && sqlite3_stricmp(table->columns[i].name, name) != 0)
        i--;
    return i;
}

static void column_missing(parser *p, const char *name)
{
    const table_sql *table = p->table;
    sqlite3_str *list = sqlite3_str_new(NULL);
    char *names;
    int i;

    for (i = 0; i < table->n_columns && sqlite3_str_length(list) < 200; i++)
        sqlite3_str_appendf(list, "%s%s", i ? ", " : "", table->columns[i].name);
    if (i < table->n_columns)
        sqlite3_str_appendall(list, ", ...");
    names = parser_own(p, sqlite3_str_finish(list));
    parser_error(p, "no such column: %s (columns are %s)", name, names);
    sqlite3_free(names);
}

void index_fini(index_sql *index)
{
    sqlite3_free(index->name);
    sqlite3_free(index->parts);
}

void index_part_add(parser *p, index_sql *index, int column, int collation, bool desc)
{
    if (index->n_parts == COLUMN_LIMIT)
        parser_error(p, "too many columns in index (at most %d)", COLUMN_LIMIT);
    if (!p->rc)
        index->parts = parser_grow(p, index->parts, index->n_parts, sizeof *index->parts);
    if (!p->rc)
        index->parts[index->n_parts++] =
            (sdb_part){.column = (uint16_t)column, .collation = (uint8_t)collation, .desc = desc};
}

/* What stands here neither is a column's name nor ends the part. */
static void part_unexpected(parser *p)
{
    parser_refuse(p);
    if (parser_accept_word(p, "NULLS"))
        parser_error(p, "unsupported use of NULLS %.*s", p->token.length, p->token.text);
    switch (p->token.kind) {
    case TOKEN_END:
    case TOKEN_WORD:
    case TOKEN_NAME:
    case TOKEN_ILLEGAL:
    case ',':
    case ')':
    case ';':
        parser_unexpected(p);
        break;
    default:
        parser_error(p, p->index ? "expressions in an index are not supported yet"
                                 : "expressions prohibited in PRIMARY KEY and UNIQUE constraints");
    }
}

/* The hidden column. Core has it in the key of a row without its being a column. */
static void part_add_revision(parser *p, index_sql *index, bool has_collation, bool desc)
{
    if (index->unique)
        parser_error(p, "UNIQUE has no meaning for _revision: each row has one of its own; write INDEX");
    else if (has_collation)
        parser_error(p, "COLLATE has no meaning for _revision: it is a number");
    else
        index_part_add(p, index, SDB_REVISION_COLUMN, SDB_BINARY, desc);
}

static void part_parse(parser *p, index_sql *index)
{
    const table_sql *table = p->table;
    int collation = -1;
    int column;
    bool desc;
    char *name;

    if (!sql_token_is_name(&p->token)) {
        part_unexpected(p);
        return;
    }
    name = parser_name(p);
    while (parser_accept_word(p, "COLLATE"))
        collation = (int)parser_collation(p);
    desc = parser_accept_word(p, "DESC");
    if (!desc)
        parser_accept_word(p, "ASC");
    if (p->token.kind != ',' && p->token.kind != ')' &&
        !(index->is_primary && sql_token_is(&p->token, "AUTOINCREMENT")))
        part_unexpected(p);
    if (!p->rc) {
        column = column_find(table, name);
        if (p->index && column < 0 && sqlite3_stricmp(name, "_revision") == 0)
            part_add_revision(p, index, collation >= 0, desc);
        else if (column < 0)
            column_missing(p, name);
        else
            index_part_add(p, index, column,
                           collation < 0 ? (int)table->columns[column].collation : collation, desc);
    }
    sqlite3_free(name);
}

void index_parts_parse(parser *p, index_sql *index)
{
    parser_expect(p, '(');
    do
        part_parse(p, index);
    while (parser_accept(p, ','));
    p->is_autoincrement = index->is_primary && parser_accept_word(p, "AUTOINCREMENT");
    parser_expect(p, ')');
}

static sdb_index_kind kind_parse(parser *p)
{
    sql_token *kind = &p->token;

    if (parser_accept_word(p, "RADIX"))
        return SDB_RADIX;
    if (parser_accept_word(p, "LPM"))
        return SDB_LPM;
    if (parser_accept_word(p, "MULTI"))
        return SDB_MULTI;
    if (sql_token_is_name(kind))
        parser_error(p, "unknown kind of index: %.*s (there are radix, lpm and multi)", kind->length,
                     kind->text);
    else
        parser_unexpected(p);
    return SDB_RADIX;
}

/* An index whose kind finds something else than values in their order is of one column, and what
** would say more about that order is not accepted and forgotten. */
static void kind_check(parser *p, index_sql *index, const char *kind, const char *values)
{
    const table_sql *table = p->table;
    sdb_part *part = index->parts;

    if (index->n_parts > 1)
        parser_error(p, "USING %s is for one column", kind);
    else if (part->column == SDB_REVISION_COLUMN)
        parser_error(p, "USING %s is for %s: _revision is a number", kind, values);
    else if (part->column == table->rowid_column)
        parser_error(p, "USING %s is for %s: %s is the rowid", kind, values,
                     table->columns[part->column].name);
    else if (part->desc || part->collation != table->columns[part->column].collation)
        parser_error(p, "%s has no meaning with USING %s", part->desc ? "DESC" : "COLLATE", kind);
    else
        part->collation = SDB_BINARY; /* the column's own is not for what is found in it */
}

void index_body_parse(parser *p, index_sql *index)
{
    p->index = index->name;
    index_parts_parse(p, index);
    if (parser_accept_word(p, "USING"))
        index->kind = kind_parse(p);
    if (!p->rc && index->kind == SDB_LPM)
        kind_check(p, index, "lpm", "text and blobs");
    if (!p->rc && index->kind == SDB_MULTI)
        kind_check(p, index, "multi", "JSON");
    if (sql_token_is(&p->token, "WHERE"))
        parser_error(p, "WHERE (a partial index) is not supported yet");
    p->index = NULL;
    if (!p->rc && sqlite3_strnicmp(index->name, "sqlite_", 7) == 0)
        parser_error(p, "object name reserved for internal use: %s", index->name);
}

/* ---------------------------------------------------------------- commands */

/* IF [NOT] EXISTS, where "if" may as well be the index's name. */
static bool command_if_parse(parser *p, bool is_drop)
{
    sql_token next = p->token;

    sql_token_next(&next);
    if (!sql_token_is(&p->token, "IF") || !sql_token_is(&next, is_drop ? "EXISTS" : "NOT"))
        return false;
    parser_next(p);
    if (!is_drop)
        parser_expect_word(p, "NOT");
    parser_expect_word(p, "EXISTS");
    return true;
}

static void command_on_parse(parser *p)
{
    char *name;

    parser_expect_word(p, "ON");
    name = parser_name(p);
    if (name && sqlite3_stricmp(name, p->table->name) != 0)
        parser_error(p,
                     "the index is to be on %s: give the command to that table, by INSERT INTO "
                     "%s(%s)",
                     name, name, name);
    sqlite3_free(name);
}

static void command_parse(parser *p, index_command *command)
{
    index_sql *index = &command->index;

    command->is_drop = parser_accept_word(p, "DROP");
    if (!command->is_drop) {
        parser_expect_word(p, "CREATE");
        index->unique = parser_accept_word(p, "UNIQUE");
    }
    parser_expect_word(p, "INDEX");
    command->has_if = command_if_parse(p, command->is_drop);
    index->name = parser_name(p);
    if (parser_accept(p, '.')) {
        command->schema = index->name;
        index->name = parser_name(p);
    }
    if (!command->is_drop) {
        command_on_parse(p);
        index_body_parse(p, index);
        if (!p->rc)
            parser_check_name(p, index->name);
    }
    parser_accept(p, ';');
    if (p->token.kind != TOKEN_END)
        parser_unexpected(p);
}

int index_command_parse(table_sql *table, const char *text, index_command *out, char **err)
{
    parser p = {.is_command = true};

    memset(out, 0, sizeof *out);
    parser_start(&p, table, text);
    command_parse(&p, out);
    if (p.rc) {
        index_command_fini(out);
        *err = p.error;
    }
    return p.rc;
}

void index_command_fini(index_command *command)
{
    sqlite3_free(command->schema);
    index_fini(&command->index);
}
