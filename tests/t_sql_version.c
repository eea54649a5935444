/* t_sql_version.c - which SQLite the extension loads into: of an older one it says what it needs, and
** registers nothing. */
#include "../ext/statedb_static.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int number;
static const char *name;

/* These two stand before the library's own. */
int sqlite3_libversion_number(void)
{
    return number;
}

const char *sqlite3_libversion(void)
{
    return name;
}

static void check_load(int number_now, const char *name_now, const char *error)
{
    sqlite3 *db;
    char *err = NULL;

    number = number_now;
    name = name_now;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_statedb_static_init(db, &err, NULL), error ? SQLITE_ERROR : SQLITE_OK);
    if (error)
        assert_string_equal(err, error);
    else
        assert_null(err);
    sqlite3_free(err);
    assert_int_equal(sqlite3_exec(db, "SELECT statedb_version()", NULL, NULL, NULL),
                     error ? SQLITE_ERROR : SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE VIRTUAL TABLE t USING statedb(a)", NULL, NULL, NULL),
                     error ? SQLITE_ERROR : SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_versions(void **state)
{
    (void)state;
    check_load(3037002, "3.37.2", "statedb needs SQLite 3.38.2 or newer; this is 3.37.2");
    check_load(3038001, "3.38.1", "statedb needs SQLite 3.38.2 or newer; this is 3.38.1");
    check_load(3038002, "3.38.2", NULL);
    check_load(3054001, "3.54.1", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
