/* sql_token.h - SQL text cut into tokens by SQLite's rules.
**
** SQLite has cut the text already when an extension gets to see it, so what it does not recognize
** (12ab, x'0') never comes here, and what later versions do (1_000) comes only from these. */
#ifndef STATEDB_SQL_TOKEN_H
#define STATEDB_SQL_TOKEN_H

#include <stdbool.h>

/* Kinds of tokens. Punctuation is its own character, one at a time: <= is two tokens. */
enum {
    TOKEN_END = 0,
    TOKEN_WORD = 256, /* a keyword or a name without quotes */
    TOKEN_NAME,       /* a name in quotes: "x", `x` or [x] */
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_BLOB,
    TOKEN_VARIABLE,
    TOKEN_ILLEGAL /* a quote without its end */
};

typedef struct sql_token {
    int kind;
    const char *text; /* in the NUL-terminated text that is being cut */
    int length;
} sql_token;

/* From a token to the next one. The first comes after {.text = the whole text}; behind the last
** one is TOKEN_END, again and again. White space and comments are passed over. */
void sql_token_next(sql_token *t);

/* Is it this word, or one of these (up to a NULL), in any case and without quotes? */
bool sql_token_is(const sql_token *t, const char *word);
bool sql_token_in(const sql_token *t, const char *const *words);

/* May it be the name of a column or table (`nm` in SQLite's grammar); a bare string after DEFAULT
** (`id`); a word of a type (`ids`)? They differ in strings and in keywords such as LEFT. */
bool sql_token_is_name(const sql_token *t);
bool sql_token_is_id(const sql_token *t);
bool sql_token_is_type(const sql_token *t);

/* A copy of n bytes of text, without the quotes if they begin with one. For sqlite3_free; NULL: no
** memory. */
char *sql_dequote(const char *text, int n);

#endif
