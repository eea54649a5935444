/* t_sql_json.c - reading the keys of JSON (ext/json_keys.c): what json_each gives, and what is no JSON. */
#include "../ext/statedb_static.h"

#include "json_each.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sqlite3 *db;
static sqlite3_stmt *stmt, *valid;

/* The extension has to be initialized for its files to reach SQLite. */
static int setup(void **state)
{
    char *err = NULL;

    (void)state;
    return sqlite3_open(":memory:", &db) || sqlite3_statedb_static_init(db, &err, NULL) ||
           sqlite3_prepare_v2(db, JSON_EACH_SQL, -1, &stmt, NULL) ||
           sqlite3_prepare_v2(db, JSON_VALID_SQL, -1, &valid, NULL);
}

static int teardown(void **state)
{
    (void)state;
    sqlite3_finalize(stmt);
    sqlite3_finalize(valid);
    return sqlite3_close(db);
}

/* In a block of just its size, so that the sanitizer sees who reads on. */
static void assert_as_json_each(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    const char *wrong;

    assert_non_null(copy);
    memcpy(copy, text, n);
    wrong = json_compare(stmt, valid, copy, n);
    if (wrong)
        fail_msg("%s: %s", text, wrong);
    free(copy);
}

static void test_as_json_each(void **state)
{
    static const char *const texts[] = {
        "[]",
        "{}",
        " [ ] ",
        "\t{\n}\r",
        "[1,2,3]",
        "[\"blue\",\"red\",\"blue\",\"\"]",
        "[true,false,null]",
        "{\"a\":1,\"b\":[2],\"a\":{\"c\":null},\"\":true}",
        "{\"a b\" : 1 , \"\\u0041\\n\" : 2}",
        "[0,-0,-1]",
        "[9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809]",
        "[18446744073709551615,18446744073709551616,123456789012345678901234567890]",
        "[0.5,-0.0,1.50,1e3,1E+3,1e-3,12.5e-1,1e400,-1e400,1e-400]",
        "[0.1,0.30000000000000004,1.7976931348623157e308,5e-324,2.2250738585072011e-308]",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
        "[\"\\u00e9\\u20ac\\ud83d\\ude00\\uD83D\",\"\\ud83d\\u0041\",\"\\ude00\",\"\\uD83Dx\"]",
        "[\"\xc3\xa9\",\"\xf0\x9f\x98\x80\",\"\xff\"]",
        "[[ ],{ },[ 1 , [2 ] ],{ \"k k\" : [ \"\\\" ]\" ] , \"l\":-1.50e+2 }]",
        "5",
        " -5.5 ",
        "\"blue\"",
        "\"bl\\u0075e\"",
        "null",
        "true",
        "false",
        /* not JSON */
        "",
        " ",
        "blue",
        "blue, red",
        "'blue'",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "[1] 2",
        "[1}",
        "{1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:2}",
        "[[1,]",
        "[[]",
        "[{]}",
        "[{\"a\":1]]",
        "[{\"a\":[}]",
        "{\"a\":[1}}",
        "[01]",
        "[-]",
        "[+1]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[1e+]",
        "[1.5.2]",
        "[1-2]",
        "[0x10]",
        "[NaN]",
        "[Infinity]",
        "[tru]",
        "[truex]",
        "[TRUE]",
        "[nul",
        "[\"]",
        "[\"\\\"]",
        "[\"a\tb\"]",
        "[\"\\x41\"]",
        "[\"\\u12\"]",
        "[\"\\u12g4\"]",
        "[\"\\u",
        "[\"\\",
        "[1\f]",
        "\xef\xbb\xbf[1]",
        "[1] /* one */",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_as_json_each(texts[i]);
}

/* ---------------------------------------------------------------- what json_each says otherwise */

static int key_copy(void *ctx, const sdb_value *key)
{
    sdb_value *out = ctx;

    *out = *key;
    if (key->type == SDB_TEXT)
        out->u.p = memcpy(malloc(key->n + 1u), key->u.p, key->n);
    return SDB_OK;
}

static void test_own(void **state)
{
    static const uint8_t nul[] = "[\"a\\u0000b\"]";
    sdb_value json = {.type = SDB_TEXT, .n = sizeof nul - 1, .u.p = nul}, key;

    (void)state;
    assert_int_equal(json_keys(&json, key_copy, &key), SDB_OK);
    assert_int_equal(key.n, 3);
    assert_memory_equal(key.u.p, "a\0b", 3);
    free((void *)(uintptr_t)key.u.p);
    json = (sdb_value){.type = SDB_TEXT, .n = 4, .u.p = "[1]\0"};
    assert_int_equal(json_keys(&json, key_copy, &key), SDB_NOTSET);
    json = (sdb_value){.type = SDB_BLOB, .n = 3, .u.p = "[1]"};
    assert_int_equal(json_keys(&json, key_copy, &key), SDB_NOTSET);
    json = (sdb_value){.type = SDB_REAL, .u.r = 0.5};
    assert_int_equal(json_keys(&json, key_copy, &key), SDB_OK);
    assert_true(key.type == SDB_REAL && key.u.r == 0.5);
    key = (sdb_value){.type = SDB_INTEGER, .u.i = 7};
    json = (sdb_value){.type = SDB_NULL};
    assert_int_equal(json_keys(&json, key_copy, &key), SDB_OK);
    assert_true(key.type == SDB_INTEGER && key.u.i == 7); /* it was not called */
}

/* A thousand levels, and not one more. */
static void test_depth(void **state)
{
    (void)state;
    for (size_t depth = 998; depth <= 1002; depth++) {
        for (int is_object = 0; is_object < 2; is_object++) {
            char text[8000];
            size_t n = 0;
            sdb_value json = {.type = SDB_TEXT, .u.p = text}, key = {.type = SDB_NULL};
            for (size_t i = 0; i < depth; i++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", is_object ? "{\"\":" : "[");
            text[n++] = '1';
            memset(text + n, is_object ? '}' : ']', depth);
            json.n = (uint32_t)(n + depth);
            assert_int_equal(json_keys(&json, key_copy, &key), depth <= 1000 ? SDB_OK : SDB_NOTSET);
            if (key.type == SDB_TEXT)
                free((void *)(uintptr_t)key.u.p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_json_each),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
