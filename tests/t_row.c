/* t_row.c - what goes into a row comes out of it. */
#include "../core/row.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* clang-format off */
#define INT(x) {.type = SDB_INTEGER, .u.i = (x)}
#define REAL(x) {.type = SDB_REAL, .u.r = (x)}
#define TEXT(s) {.type = SDB_TEXT, .n = sizeof(s) - 1, .u.p = (s)}
#define BLOB(s) {.type = SDB_BLOB, .n = sizeof(s) - 1, .u.p = (s)}
#define NIL {.type = SDB_NULL}

enum { ROWID = -42, REVISION = 7 };
static const uint64_t STAMP = UINT64_C(0xfedcba987654);

static const sdb_value mixed[] = {
    TEXT("abc"), INT(INT64_MIN), BLOB("\0\1\xff"), NIL, REAL(-0.0), TEXT(""), BLOB(""), INT(-1),
    REAL(INFINITY), TEXT("a\0b"), INT(INT64_MAX), TEXT("12345678"), REAL(1.5),
};
/* clang-format on */

enum { N_MIXED = sizeof mixed / sizeof *mixed };

/* In a block of exactly its size, so that the sanitizer sees an access beyond it. */
static sdb_row *row_new(const sdb_value *values, int n, int rowid_column)
{
    size_t size = sdb_row_measure(values, n, rowid_column);

    assert_true(size > 0 && size % 8 == 0);
    sdb_row *row = malloc(size);
    assert_non_null(row);
    memset(row, 0xa5, size);
    sdb_row_build(row, size, ROWID, values, n, rowid_column);
    assert_int_equal(sdb_row_stamp(row), 0);
    assert_int_equal(sdb_row_revision(row), 0);
    sdb_row_set_stamp(row, STAMP);
    row->revision = REVISION;
    assert_int_equal(sdb_row_size(row, n, rowid_column), size);
    return row;
}

static void assert_value_equal(sdb_value got, const sdb_value *want)
{
    assert_int_equal(got.type, want->type);
    if (want->type == SDB_NULL) {
        assert_int_equal(got.u.i, 0);
    } else if (want->type < SDB_TEXT) {
        assert_memory_equal(&got.u, &want->u, 8);
    } else {
        assert_int_equal(got.n, want->n);
        if (got.n > 0)
            assert_memory_equal(got.u.p, want->u.p, got.n);
        if (got.type == SDB_TEXT)
            assert_int_equal(((const char *)got.u.p)[got.n], 0);
    }
}

static void assert_round_trip(const sdb_value *values, int n, int rowid_column)
{
    const sdb_value rowid = INT(ROWID);
    sdb_row *row = row_new(values, n, rowid_column);

    assert_int_equal(sdb_row_rowid(row), ROWID);
    assert_int_equal(sdb_row_revision(row), REVISION);
    assert_int_equal(sdb_row_stamp(row), STAMP);
    for (int i = 0; i < n; i++) {
        const sdb_value *want = i == rowid_column ? &rowid : &values[i];
        assert_value_equal(sdb_row_get(row, i, n, rowid_column), want);
    }
    free(row);
}

static void test_round_trip_of_every_type(void **state)
{
    (void)state;
    for (int n = 1; n <= N_MIXED; n++) { /* each type comes last once */
        for (int rowid_column = -1; rowid_column < n; rowid_column++) {
            assert_round_trip(mixed, n, rowid_column);
        }
    }
}

static void test_a_row_of_its_rowid_alone_is_three_words(void **state)
{
    const sdb_value value = NIL;
    (void)state;

    assert_int_equal(sdb_row_measure(&value, 1, 0), 24);
    assert_round_trip(&value, 1, 0);
}

static void test_value_of_the_rowid_column_is_not_looked_at(void **state)
{
    const sdb_value values[] = {{.type = SDB_TEXT, .n = UINT32_MAX, .u.p = NULL}, INT(5)};
    (void)state;

    assert_int_equal(sdb_row_measure(values, 2, 0), 24 + 8);
    assert_round_trip(values, 2, 0);
}

static void test_layout_is_as_documented(void **state)
{
    const sdb_value values[] = {INT(258), NIL, TEXT("hello"), BLOB("xy")};
    sdb_row *row = row_new(values, 4, -1);
    const char *bytes = (const char *)row;
    (void)state;

    assert_int_equal(sdb_row_size(row, 4, -1), 48); /* 24 + 4 * 2 + 2 + 6 + 2, rounded up */
    assert_memory_equal(bytes + 24, "\1\0\3\4\42\42\50\52\2\1hello\0xy", 18);
    assert_ptr_equal(sdb_row_get(row, 2, 4, -1).u.p, bytes + 34);
    free(row);
}

/* Ends of 1, 2 and 4 bytes; a row that is too long for one with them is too long for the next one
** without. */
static void test_width_of_ends(void **state)
{
    static const struct {
        uint32_t text, width;
    } wants[] = {
        {0, 1}, {216, 1}, {217, 2}, {65493, 2}, {65494, 4}, {1000000, 4},
    };
    char *letters = calloc(1, 1000001);
    (void)state;

    assert_non_null(letters);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const sdb_value values[] = {
            INT(-3), {.type = SDB_TEXT, .n = wants[i].text, .u.p = letters}, NIL};
        size_t head = 24 + 3 + 3 * wants[i].width;
        assert_int_equal(sdb_row_measure(values, 3, -1),
                         (head + 1 + wants[i].text + 1 + 7) / 8 * 8);
        assert_round_trip(values, 3, -1);
        assert_round_trip(values, 3, 2);
    }
    free(letters);
}

/* Around every power of two, of both signs: as few bytes as hold it. */
static void test_size_of_integers(void **state)
{
    (void)state;

    for (int bit = 0; bit < 64; bit++) {
        for (int off = -1; off <= 1; off++) {
            for (int sign = 0; sign < 2; sign++) {
                uint64_t u = (UINT64_C(1) << bit) + (uint64_t)(int64_t)off;
                int64_t i = (int64_t)(sign ? 0 - u : u);
                size_t size = 1;
                while (size < 8 && (i < -(INT64_C(1) << (8 * size - 1)) ||
                                    i >= INT64_C(1) << (8 * size - 1)))
                    size++;
                const sdb_value values[] = {INT(i), {.type = SDB_BLOB, .n = 4, .u.p = "abcd"}};
                assert_int_equal(sdb_row_measure(values, 2, -1), (24 + 4 + size + 4 + 7) / 8 * 8);
                assert_round_trip(values, 2, -1);
            }
        }
    }
}

static void test_sizes_around_a_multiple_of_8(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwx";
    (void)state;

    for (uint32_t n = 0; n < sizeof letters; n++) {
        const sdb_value text = {.type = SDB_TEXT, .n = n, .u.p = letters};
        const sdb_value blob = {.type = SDB_BLOB, .n = n, .u.p = letters};
        assert_int_equal(sdb_row_measure(&text, 1, -1), (24 + 2 + n + 1 + 7) / 8 * 8);
        assert_int_equal(sdb_row_measure(&blob, 1, -1), (24 + 2 + n + 7) / 8 * 8);
        assert_round_trip(&text, 1, -1);
        assert_round_trip(&blob, 1, -1);
    }
}

static void test_empty_text_and_blob_may_be_null_pointers(void **state)
{
    const sdb_value values[] = {{.type = SDB_TEXT}, {.type = SDB_BLOB}};
    sdb_row *row = row_new(values, 2, -1);
    sdb_value text = sdb_row_get(row, 0, 2, -1);
    (void)state;

    assert_int_equal(text.type, SDB_TEXT);
    assert_string_equal(text.u.p, "");
    assert_int_equal(sdb_row_get(row, 1, 2, -1).type, SDB_BLOB);
    free(row);
}

static void test_large_text(void **state)
{
    enum { N = 5000000 };
    char *letters = malloc(N);
    (void)state;

    assert_non_null(letters);
    for (int i = 0; i < N; i++)
        letters[i] = (char)(i * 31 % 251);
    const sdb_value values[] = {
        {.type = SDB_TEXT, .n = N, .u.p = letters},
        INT(1),
        {.type = SDB_BLOB, .n = N, .u.p = letters},
    };
    assert_round_trip(values, 3, -1);
    assert_round_trip(values, 3, 1);
    free(letters);
}

static void test_many_columns(void **state)
{
    sdb_value *values = calloc(SDB_MAX_COLUMNS, sizeof *values);
    (void)state;

    assert_non_null(values);
    for (int i = 0; i < SDB_MAX_COLUMNS; i++)
        values[i] = mixed[i % N_MIXED];
    assert_round_trip(values, SDB_MAX_COLUMNS, -1);
    assert_round_trip(values, SDB_MAX_COLUMNS, SDB_MAX_COLUMNS / 2);
    free(values);
}

static void test_a_real_that_is_no_number_is_null(void **state)
{
    const sdb_value values[] = {REAL(NAN), INT(3)};
    const sdb_value null = NIL;
    sdb_row *row = row_new(values, 2, -1);
    (void)state;

    assert_value_equal(sdb_row_get(row, 0, 2, -1), &null);
    free(row);
}

static void test_values_may_come_from_another_row(void **state)
{
    sdb_row *row = row_new(mixed, N_MIXED, -1);
    sdb_value values[N_MIXED];
    (void)state;

    for (int i = 0; i < N_MIXED; i++)
        values[i] = sdb_row_get(row, N_MIXED - 1 - i, N_MIXED, -1);
    assert_round_trip(values, N_MIXED, -1);
    free(row);
}

/* Only measured: the pointers lead nowhere. */
static void test_too_big_is_0(void **state)
{
    enum { HEAD = 24 + 1 + 4 };
    sdb_value *values = calloc(SDB_MAX_COLUMNS, sizeof *values);
    (void)state;

    assert_non_null(values);
    values[0] = (sdb_value){.type = SDB_BLOB, .n = SDB_MAX_ROW - HEAD};
    assert_int_equal(sdb_row_measure(values, 1, -1), SDB_MAX_ROW);
    values[0].n++;
    assert_int_equal(sdb_row_measure(values, 1, -1), 0);
    values[0] = (sdb_value){.type = SDB_TEXT, .n = SDB_MAX_ROW - HEAD - 1};
    assert_int_equal(sdb_row_measure(values, 1, -1), SDB_MAX_ROW);
    values[0].n++;
    assert_int_equal(sdb_row_measure(values, 1, -1), 0);
    for (int i = 0; i < SDB_MAX_COLUMNS; i++) {
        values[i] = (sdb_value){.type = SDB_TEXT, .n = UINT32_MAX};
    }
    for (int n = 1; n <= SDB_MAX_COLUMNS; n++) { /* sums that wrap around 2^32 at each step */
        assert_int_equal(sdb_row_measure(values, n, -1), 0);
        if (n > 4)
            n *= 2;
    }
    free(values);
}

/* As the values of both are, bit by bit. */
static void test_what_is_the_same_in_two_rows(void **state)
{
    static const sdb_value some[] = {NIL, INT(0), INT(1), INT(256), REAL(0.0), REAL(-0.0), REAL(1.0), TEXT(""),
                                     BLOB(""), BLOB("\0"), TEXT("a"), TEXT("b"), BLOB("a\0"), BLOB("a"),
                                     INT('a'), TEXT("a\0")};
    enum { N = sizeof some / sizeof *some };
    static char large[300];

    (void)state;
    for (int n = 1; n <= 3; n++) {
        for (int i = 0; i < N * N; i++) {
            sdb_value x[3] = {some[i / N], INT(7), {.type = SDB_TEXT, .n = sizeof large, .u.p = large}};
            sdb_value y[3] = {some[i % N], INT(7), TEXT("")};
            sdb_row *a = row_new(x, n, -1), *b = row_new(y, n, -1); /* of three: ends of two widths */
            assert_int_equal(sdb_row_is_same(a, b, 0, n, -1), i / N == i % N);
            if (n > 1)
                assert_true(sdb_row_is_same(a, b, 1, n, -1));
            if (n > 2)
                assert_false(sdb_row_is_same(a, b, 2, n, -1));
            free(a);
            free(b);
        }
    }
    sdb_value values[2] = {NIL, INT(1)};
    sdb_row *a = row_new(values, 2, 0), *b = row_new(values, 2, 0);
    assert_true(sdb_row_is_same(a, b, 0, 2, 0) && sdb_row_is_same(a, b, 1, 2, 0));
    b->rowid++;
    assert_true(!sdb_row_is_same(a, b, 0, 2, 0) && sdb_row_is_same(a, b, 1, 2, 0));
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_type),
        cmocka_unit_test(test_a_row_of_its_rowid_alone_is_three_words),
        cmocka_unit_test(test_value_of_the_rowid_column_is_not_looked_at),
        cmocka_unit_test(test_layout_is_as_documented),
        cmocka_unit_test(test_width_of_ends),
        cmocka_unit_test(test_size_of_integers),
        cmocka_unit_test(test_sizes_around_a_multiple_of_8),
        cmocka_unit_test(test_empty_text_and_blob_may_be_null_pointers),
        cmocka_unit_test(test_large_text),
        cmocka_unit_test(test_many_columns),
        cmocka_unit_test(test_a_real_that_is_no_number_is_null),
        cmocka_unit_test(test_values_may_come_from_another_row),
        cmocka_unit_test(test_too_big_is_0),
        cmocka_unit_test(test_what_is_the_same_in_two_rows),
    };
    return cmocka_run_group_tests_name("row", tests, NULL, NULL);
}
