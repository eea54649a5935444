/* sql_parser.c - see sql_parser.h. */
#include "sql_parser.h"

#include <sqlite3ext.h>
#include <stdarg.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

const char *const sql_collations[] = {"BINARY", "NOCASE", "RTRIM", NULL};

void parser_start(parser *p, table_sql *table, const char *text)
{
    p->table = table;
    p->token.text = text;
    parser_next(p);
}

void parser_nomem(parser *p)
{
    if (!p->rc)
        p->rc = SQLITE_NOMEM;
    p->token.kind = TOKEN_END;
}

void parser_error(parser *p, const char *format, ...)
{
    va_list ap;
    char *text;

    if (p->rc)
        return;
    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (text && p->index)
        text = sqlite3_mprintf("index %s: %z", p->index, text);
    if (text)
        p->error = sqlite3_mprintf("statedb: %s: %z", p->table->name, text);
    if (!p->error) {
        parser_nomem(p);
        return;
    }
    p->rc = SQLITE_ERROR;
    p->token.kind = TOKEN_END;
}

/* Behind the end of a table's definition SQLite would see the parenthesis that closes it. */
void parser_unexpected(parser *p)
{
    sql_token t = p->token;

    if (t.kind == TOKEN_END && p->is_command) {
        parser_error(p, "incomplete input");
        return;
    }
    if (t.kind == TOKEN_END) {
        t.text = ")";
        t.length = 1;
    }
    if (t.kind == TOKEN_ILLEGAL)
        parser_error(p, "unrecognized token: \"%.*s\"", t.length, t.text);
    else
        parser_error(p, "near \"%.*s\": syntax error", t.length, t.text);
}

void parser_next(parser *p)
{
    if (p->rc)
        return;
    p->end = p->token.text + p->token.length;
    sql_token_next(&p->token);
}

bool parser_accept(parser *p, int kind)
{
    if (p->token.kind != kind || kind == TOKEN_END)
        return false;
    parser_next(p);
    return true;
}

bool parser_accept_word(parser *p, const char *word)
{
    if (!sql_token_is(&p->token, word))
        return false;
    parser_next(p);
    return true;
}

void parser_expect(parser *p, int kind)
{
    if (!parser_accept(p, kind))
        parser_unexpected(p);
}

void parser_expect_word(parser *p, const char *word)
{
    if (!parser_accept_word(p, word))
        parser_unexpected(p);
}

char *parser_own(parser *p, char *text)
{
    if (!text)
        parser_nomem(p);
    return text;
}

void *parser_grow(parser *p, void *array, int n, size_t size)
{
    void *grown;

    if (n & (n - 1)) /* full at 0, 1, 2, 4, 8, ... */
        return array;
    grown = sqlite3_realloc64(array, (sqlite3_uint64)(n ? 2 * n : 1) * size);
    if (!grown)
        parser_nomem(p);
    return grown ? grown : array;
}

char *parser_name(parser *p)
{
    char *name;

    if (!sql_token_is_name(&p->token)) {
        parser_unexpected(p);
        return NULL;
    }
    name = parser_own(p, sql_dequote(p->token.text, p->token.length));
    if (name && !*name) {
        parser_error(p, "a name must not be empty");
        sqlite3_free(name);
        return NULL;
    }
    parser_next(p);
    return name;
}

void parser_check_name(parser *p, const char *name)
{
    if (strlen(name) > NAME_MAX_BYTES)
        parser_error(p, "the name of a table or index is longer than %d bytes", NAME_MAX_BYTES);
}

sdb_collation parser_collation(parser *p)
{
    char *name = parser_name(p);
    int i = 0;

    while (name && sql_collations[i] && sqlite3_stricmp(name, sql_collations[i]) != 0)
        i++;
    if (!sql_collations[i])
        parser_error(p, "no such collation sequence: %s (there are BINARY, NOCASE and RTRIM)",
                     name);
    sqlite3_free(name);
    return (sdb_collation)i;
}

bool parser_refuse(parser *p)
{
    static const char foreign_key[] = "foreign keys are not supported: SQLite enforces none on a "
                                      "virtual table; check in the application";
    static const char generated[] = "generated columns are not supported: SQLite forbids them in a "
                                    "virtual table; write a view";
    static const struct {
        const char *word;
        const char *sentence;
    } refused[] = {
        {"REFERENCES", foreign_key},
        {"FOREIGN", foreign_key},
        {"DEFERRABLE", foreign_key},
        {"GENERATED", generated},
        {"AS", generated},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (sql_token_is(&p->token, refused[i].word)) {
            parser_error(p, "%s", refused[i].sentence);
            return true;
        }
    }
    return false;
}
