/* fuzz_sql_json.c - the keys of any text in a multi index are what SQLite's json_each gives, and where
** it calls the text malformed, so do we. */
#include "fuzz.h"

#include "json_each.h"

#include <stdio.h>
#include <stdlib.h>

/* What SQLite reads in a way of its own: a NUL ends the text, before \u0000 a string ends (in old
** versions), and how deep it goes is another number. */
static bool is_apart(const char *text, size_t n)
{
    int n_open = 0;

    if (memchr(text, 0, n))
        return true;
    for (size_t i = 0; i < n; i++) {
        n_open += text[i] == '[' || text[i] == '{';
        if (n - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
            return true;
    }
    return n_open > 900;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static sqlite3_stmt *stmt, *valid;
    const char *wrong;
    char *text;

    if (!stmt) {
        sqlite3 *db;
        if (sqlite3_open(":memory:", &db) ||
            sqlite3_prepare_v2(db, JSON_EACH_SQL, -1, &stmt, NULL) ||
            sqlite3_prepare_v2(db, JSON_VALID_SQL, -1, &valid, NULL))
            abort();
    }
    text = malloc(size ? size : 1); /* who reads on behind it is found out */
    if (!text)
        return 0;
    memcpy(text, data, size);
    wrong = is_apart(text, size) ? NULL : json_compare(stmt, valid, text, size);
    if (wrong) {
        fprintf(stderr, "%s: %.*s\n", wrong, (int)size, text);
        abort();
    }
    free(text);
    return 0;
}
