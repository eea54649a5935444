/* sql_token.c - SQL text cut into tokens: sqlite3GetToken of SQLite's tokenize.c, and the word
** classes of its parse.y, as far as a column definition needs them. */
#include "sql_token.h"

#include <sqlite3ext.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define DIGITS "0123456789_" /* SQLite 3.46 and later know 1_000 */
#define QUOTES "'\"`["

/* The keywords that name nothing unless they are quoted. */
static const char *const reserved_words[] = {
    "ADD",     "ALL",        "ALTER",       "AND",     "AS",       "AUTOINCREMENT",
    "BETWEEN", "CASE",       "CHECK",       "COLLATE", "COMMIT",   "CONSTRAINT",
    "CREATE",  "DEFAULT",    "DEFERRABLE",  "DELETE",  "DISTINCT", "DROP",
    "ELSE",    "ESCAPE",     "EXCEPT",      "EXISTS",  "FOREIGN",  "FROM",
    "GROUP",   "HAVING",     "IN",          "INDEX",   "INSERT",   "INTERSECT",
    "INTO",    "IS",         "ISNULL",      "JOIN",    "LIMIT",    "NOT",
    "NOTHING", "NOTNULL",    "NULL",        "ON",      "OR",       "ORDER",
    "PRIMARY", "REFERENCES", "RETURNING",   "SELECT",  "SET",      "TABLE",
    "THEN",    "TO",         "TRANSACTION", "UNION",   "UNIQUE",   "UPDATE",
    "USING",   "VALUES",     "WHEN",        "WHERE",   NULL};

/* Those that name columns and tables, but no types. */
static const char *const join_words[] = {"CROSS",   "FULL",  "INNER", "LEFT",
                                         "NATURAL", "OUTER", "RIGHT", NULL};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c & 0x80) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Behind white space, byte order marks and comments. */
static const char *space_end(const char *z)
{
    const char *start;

    do {
        start = z;
        if (*z != '\v') /* it goes on in white space, but does not begin it */
            z += strspn(z, " \t\n\v\f\r");
        if (strncmp(z, "\xEF\xBB\xBF", 3) == 0) {
            z += 3;
        } else if (strncmp(z, "--", 2) == 0) {
            z += strcspn(z, "\n");
        } else if (strncmp(z, "/*", 2) == 0) {
            z = strstr(z + 2, "*/");
            z = z ? z + 2 : strchr(start, 0);
        }
    } while (z > start);
    return z;
}

/* Behind the quoted text at z, or NULL when the quote does not end. */
static const char *quoted_end(const char *z)
{
    char quote = *z == '[' ? ']' : *z;

    do {
        z = strchr(z + 1, quote);
        if (!z)
            return NULL;
        z++;
    } while (quote != ']' && *z == quote);
    return z;
}

static const char *number_end(const char *z)
{
    const char *exponent;

    if (*z == '0' && (z[1] | 0x20) == 'x')
        return z + 2 + strspn(z + 2, DIGITS "abcdefABCDEF");
    z += strspn(z, DIGITS);
    if (*z == '.')
        z += 1 + strspn(z + 1, DIGITS);
    if ((*z | 0x20) == 'e') {
        exponent = z + 1 + (z[1] == '+' || z[1] == '-');
        if (is_digit(*exponent))
            z = exponent + strspn(exponent, DIGITS);
    }
    return z;
}

/* Behind the token at z, which is not white space; its kind in *kind. */
static const char *token_end(const char *z, int *kind)
{
    bool is_blob = (*z | 0x20) == 'x' && z[1] == '\'';
    const char *end;

    *kind = *z;
    if (!*z)
        return z;
    if (strchr(QUOTES, *z) || is_blob) {
        end = quoted_end(z + is_blob);
        *kind = !end         ? TOKEN_ILLEGAL
                : is_blob    ? TOKEN_BLOB
                : *z == '\'' ? TOKEN_STRING
                             : TOKEN_NAME;
        return end ? end : strchr(z, 0);
    }
    if (is_digit(*z) || (*z == '.' && is_digit(z[1]))) {
        *kind = TOKEN_NUMBER;
        return number_end(z);
    }
    end = z + 1;
    if (is_letter(*z))
        *kind = TOKEN_WORD;
    else if (strchr("?$@#:", *z))
        *kind = TOKEN_VARIABLE;
    else
        return end;
    while (is_letter(*end) || is_digit(*end) || *end == '$')
        end++;
    return end;
}

void sql_token_next(sql_token *t)
{
    t->text = space_end(t->text + t->length);
    t->length = (int)(token_end(t->text, &t->kind) - t->text);
}

bool sql_token_is(const sql_token *t, const char *word)
{
    return t->kind == TOKEN_WORD && (size_t)t->length == strlen(word) &&
           sqlite3_strnicmp(t->text, word, t->length) == 0;
}

bool sql_token_in(const sql_token *t, const char *const *words)
{
    while (*words && !sql_token_is(t, *words))
        words++;
    return *words != NULL;
}

bool sql_token_is_name(const sql_token *t)
{
    return t->kind == TOKEN_NAME || t->kind == TOKEN_STRING ||
           (t->kind == TOKEN_WORD && !sql_token_in(t, reserved_words));
}

bool sql_token_is_id(const sql_token *t)
{
    return t->kind != TOKEN_STRING && sql_token_is_name(t) && !sql_token_in(t, join_words);
}

bool sql_token_is_type(const sql_token *t)
{
    return t->kind == TOKEN_STRING || (sql_token_is_id(t) && !sql_token_is(t, "INDEXED"));
}

char *sql_dequote(const char *text, int n)
{
    char *copy = sqlite3_malloc64((sqlite3_uint64)n + 1);
    char quote = *text == '[' ? ']' : *text;
    int length = 0;

    if (!copy)
        return NULL;
    if (n > 0 && strchr(QUOTES, *text)) {
        for (int i = 1; i < n; i++) {
            if (text[i] == quote && (++i == n || text[i] != quote))
                break;
            copy[length++] = text[i];
        }
    } else {
        memcpy(copy, text, (size_t)n);
        length = n;
    }
    copy[length] = 0;
    return copy;
}
