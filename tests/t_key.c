/* t_key.c - the order and the bytes of keys, against a comparison of the values themselves. */
#include "../core/key.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- values */

/* clang-format off */
#define INT(x) {.type = SDB_INTEGER, .u.i = (x)}
#define REAL(x) {.type = SDB_REAL, .u.r = (x)}
#define TEXT(s) {.type = SDB_TEXT, .n = sizeof(s) - 1, .u.p = (s)}
#define BLOB(s) {.type = SDB_BLOB, .n = sizeof(s) - 1, .u.p = (s)}
#define BYTES(s) TEXT(s), BLOB(s)

#define P53 (INT64_C(1) << 53)
#define P62 (INT64_C(1) << 62)

static const sdb_value edges[] = {
    {.type = SDB_NULL},
    REAL(NAN),
    INT(0), INT(1), INT(-1), INT(2), INT(255), INT(256), INT(-256), INT(INT32_MAX), INT(INT32_MIN),
    REAL(0.0), REAL(-0.0), REAL(1.0), REAL(-1.0), REAL(1.5), REAL(-1.5), REAL(0.5), REAL(2.0),
    INT(P53 - 2), INT(P53 - 1), INT(P53), INT(P53 + 1), INT(P53 + 2), INT(P53 + 3), INT(P53 + 4),
    REAL(0x1p53 - 1), REAL(0x1p53), REAL(0x1p53 + 2), REAL(0x1p53 + 4), REAL(0x1p52 + 0.5),
    INT(-P53 + 1), INT(-P53), INT(-P53 - 1), INT(-P53 - 2), INT(-P53 - 3), INT(-P53 - 4),
    REAL(-0x1p53 + 1), REAL(-0x1p53), REAL(-0x1p53 - 2), REAL(-0x1p53 - 4), REAL(-0x1p52 - 0.5),
    INT(P62 - 1), INT(P62 - 256), INT(P62 - 257), INT(P62), INT(P62 + 1), INT(P62 + 512),
    INT(P62 + 513), INT(P62 + 1024), REAL(0x1p62), REAL(0x1p62 + 1024), REAL(0x1p62 - 512),
    INT(-P62 + 1), INT(-P62), INT(-P62 - 1), INT(-P62 - 512), INT(-P62 - 513), REAL(-0x1p62),
    INT(INT64_MAX), INT(INT64_MAX - 1), INT(INT64_MAX - 511), INT(INT64_MAX - 512),
    INT(INT64_MAX - 1023), REAL(0x1p63), REAL(0x1p63 - 1024), REAL(0x1p63 + 2048),
    INT(INT64_MIN), INT(INT64_MIN + 1), INT(INT64_MIN + 512), INT(INT64_MIN + 513),
    REAL(-0x1p63), REAL(-0x1p63 + 1024), REAL(-0x1p63 - 2048),
    REAL(1e300), REAL(-1e300), REAL(DBL_MAX), REAL(-DBL_MAX), REAL(INFINITY), REAL(-INFINITY),
    REAL(DBL_MIN), REAL(-DBL_MIN), REAL(0x1p-1074), REAL(-0x1p-1074), REAL(0x1p-1060),
    BYTES(""), BYTES("a"), BYTES("A"), BYTES("b"), BYTES("B"), BYTES("z"), BYTES("Z"), BYTES("["),
    BYTES("@"), BYTES("`"), BYTES("{"), BYTES("_"), BYTES("\xc1"), BYTES("\xe1"), BYTES("\xda"),
    BYTES("a\0"), BYTES("a\0b"), BYTES("a\1"), BYTES("a\2"), BYTES("a\1\1"), BYTES("a\1\2"),
    BYTES("a\0\0"), BYTES("\0"), BYTES("\0\0"), BYTES("\1"), BYTES("\1\1"), BYTES("\2"),
    BYTES("ab"), BYTES("aB"), BYTES("AB"), BYTES("abc"), BYTES("ab "), BYTES("ab  "), BYTES(" "),
    BYTES("  "), BYTES("ab \0"), BYTES("ab\0 "), BYTES("ab\t"), BYTES("ab \1"), BYTES(" ab"),
    BYTES("\xff"), BYTES("\xff\xff"), BYTES("\xfe"), BYTES("\xff\0"), BYTES("\x7f"), BYTES("\x80"),
    BYTES("sevenby"), BYTES("eightbyt"), BYTES("EightBYT"), BYTES("ninebytes"), BYTES("NINEbytes"),
    BYTES("eightbyt\0"), BYTES("eightbyt\1"), BYTES("eightbyt "), BYTES("eightbyt        "),
    BYTES("eight\1yt"), BYTES("eight\0yt"), BYTES("eight\2yt"), BYTES("eightby\0"),
    BYTES("eightby\1"), BYTES("eightby\2"), BYTES("\0ightbyt"), BYTES("\2\1ghtbyt"),
    BYTES("sixteen bytes or"), BYTES("sixteen bytes oR"), BYTES("sixteen bytes os"),
    BYTES("sixteen bytes or so"), BYTES("sixteen\0bytes\1or so"), BYTES("SIXTEEN\xffyte\xc1 or so"),
    BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"), BYTES("\0\0\0\0\0\0\0\0\0"),
    BYTES("@[`{\x80\xc1\xda\xff"),
};
/* clang-format on */

enum { N_EDGES = sizeof edges / sizeof *edges };

/* Every collation in both directions. */
typedef struct order {
    sdb_collation collation;
    bool desc;
} order;

static const order orders[] = {
    {SDB_BINARY, false}, {SDB_BINARY, true}, {SDB_NOCASE, false},
    {SDB_NOCASE, true},  {SDB_RTRIM, false}, {SDB_RTRIM, true},
};

enum { N_ORDERS = sizeof orders / sizeof *orders };

/* ---------------------------------------------------------------- model */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* 0: NULL, 1: number, 2: text, 3: blob. */
static int model_class(const sdb_value *v)
{
    if (v->type == SDB_NULL || (v->type == SDB_REAL && isnan(v->u.r)))
        return 0;
    return v->type == SDB_TEXT ? 2 : v->type == SDB_BLOB ? 3 : 1;
}

/* No step rounds: inside the range of int64_t, r is a whole part and a fraction, both exact. */
static int model_compare_mixed(int64_t i, double r)
{
    if (r >= 0x1p63)
        return -1;
    if (r < -0x1p63)
        return 1;
    int64_t whole = (int64_t)r;
    return i != whole ? COMPARE(i, whole) : COMPARE(0.0, r - (double)whole);
}

static int model_compare_numbers(const sdb_value *a, const sdb_value *b)
{
    if (a->type == SDB_INTEGER && b->type == SDB_INTEGER)
        return COMPARE(a->u.i, b->u.i);
    if (a->type == SDB_INTEGER)
        return model_compare_mixed(a->u.i, b->u.r);
    if (b->type == SDB_INTEGER)
        return -model_compare_mixed(b->u.i, a->u.r);
    return COMPARE(a->u.r, b->u.r);
}

/* Byte i of a text or blob under a collation, -1 behind its end. */
static int model_byte(const sdb_value *v, sdb_collation collation, uint32_t i)
{
    const unsigned char *p = v->u.p;
    uint32_t n = v->n;

    if (v->type == SDB_TEXT && collation == SDB_RTRIM) {
        while (n > 0 && p[n - 1] == ' ')
            n--;
    }
    if (i >= n)
        return -1;
    bool is_folded = v->type == SDB_TEXT && collation == SDB_NOCASE && p[i] >= 'A' && p[i] <= 'Z';
    return is_folded ? p[i] - 'A' + 'a' : p[i];
}

static int model_compare(const sdb_value *a, const sdb_value *b, order o)
{
    int class = model_class(a);
    int result = COMPARE(class, model_class(b));

    if (result == 0 && class == 1)
        result = model_compare_numbers(a, b);
    if (result == 0 && class > 1) {
        int x = 0;
        for (uint32_t i = 0; result == 0 && x >= 0; i++) {
            x = model_byte(a, o.collation, i);
            result = COMPARE(x, model_byte(b, o.collation, i));
            if (x == 0 && class == 2 && o.collation == SDB_NOCASE) /* SQLite looks no further */
                x = -1;
        }
        if (result == 0 && class == 2 && o.collation == SDB_NOCASE)
            result = COMPARE(a->n, b->n);
    }
    return o.desc ? -result : result;
}

/* ---------------------------------------------------------------- keys */

/* A key in a block of exactly its length, so that the sanitizer sees a read beyond it. */
typedef struct key {
    uint8_t *p;
    size_t n;
} key;

static key key_resize(key k, size_t n)
{
    k.p = realloc(k.p, n ? n : 1);
    assert_non_null(k.p);
    k.n = n;
    return k;
}

static key key_append(key k, const sdb_value *v, order o)
{
    size_t at = k.n;
    size_t bound = sdb_key_bound(v);

    k = key_resize(k, at + bound);
    uint8_t *end = sdb_key_put(k.p + at, v, o.collation, o.desc);
    assert_true(end > k.p + at && end <= k.p + at + bound);
    return key_resize(k, (size_t)(end - k.p));
}

static key key_of(const sdb_value *v, order o)
{
    return key_append((key){NULL, 0}, v, o);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int key_compare(key a, key b)
{
    int result = memcmp(a.p, b.p, min_size(a.n, b.n));

    return result ? COMPARE(result, 0) : COMPARE(a.n, b.n);
}

static bool key_is_prefix(key a, key b)
{
    return a.n < b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* sdb_key_diff of `v`, whose key is `own`, with the first len bytes of `k`, done the plain way. */
static void assert_diff(key k, size_t len, size_t at, const sdb_value *v, key own, order o)
{
    size_t same = 0;
    int byte = 0;
    key cut = key_resize((key){NULL, 0}, len);

    memcpy(cut.p, k.p, len);
    while (same < own.n && at + same < len && k.p[at + same] == own.p[same])
        same++;
    size_t end = sdb_key_diff(cut.p, len, at, v, o.collation, o.desc, &byte);
    assert_int_equal(end, at + same);
    assert_int_equal(byte, same < own.n ? own.p[same] : -1);
    free(cut.p);
}

/* ---------------------------------------------------------------- tests of edge values */

static void assert_bytes(sdb_value v, order o, const char *bytes, size_t n)
{
    key k = key_of(&v, o);

    assert_int_equal(k.n, n);
    assert_memory_equal(k.p, bytes, n);
    free(k.p);
}

#define ASSERT_BYTES(v, o, s) assert_bytes((sdb_value)v, o, s, sizeof(s) - 1)

static void test_bytes_are_as_documented(void **state)
{
    order plain = {SDB_BINARY, false};
    order nocase = {SDB_NOCASE, false};
    order rtrim = {SDB_RTRIM, false};
    order desc = {SDB_BINARY, true};
    (void)state;

    /* clang-format off */
    ASSERT_BYTES({.type = SDB_NULL}, plain, "\x10");
    ASSERT_BYTES(REAL(NAN), plain, "\x10");
    ASSERT_BYTES(INT(0), plain, "\x20\x80\0\0\0\0\0\0\0");
    ASSERT_BYTES(REAL(-0.0), plain, "\x20\x80\0\0\0\0\0\0\0");
    ASSERT_BYTES(REAL(1.5), plain, "\x20\xbf\xf8\0\0\0\0\0\0");
    ASSERT_BYTES(INT(-1), plain, "\x20\x40\x0f\xff\xff\xff\xff\xff\xff");
    ASSERT_BYTES(INT(P53 - 1), plain, "\x20\xc3\x3f\xff\xff\xff\xff\xff\xff");
    ASSERT_BYTES(INT(P53), plain, "\x20\xc3\x40\0\0\0\0\0\0\x80\0");
    ASSERT_BYTES(INT(P53 + 1), plain, "\x20\xc3\x40\0\0\0\0\0\0\x80\1");
    ASSERT_BYTES(INT(-P53 - 1), plain, "\x20\x3c\xbf\xff\xff\xff\xff\xff\xff\x7f\xff");
    ASSERT_BYTES(INT(INT64_MAX), plain, "\x20\xc3\xe0\0\0\0\0\0\0\x7f\xff");
    ASSERT_BYTES(INT(INT64_MIN), plain, "\x20\x3c\x1f\xff\xff\xff\xff\xff\xff\x80\0");
    ASSERT_BYTES(REAL(INFINITY), plain, "\x20\xff\xf0\0\0\0\0\0\0\x80\0");
    ASSERT_BYTES(TEXT(""), plain, "\x30\0");
    ASSERT_BYTES(TEXT("a\0b\1c\2 "), plain, "\x30" "a\1\1b\1\2c\2 \0");
    ASSERT_BYTES(TEXT("eight\1bytes"), plain, "\x30" "eight\1\2bytes\0");
    ASSERT_BYTES(TEXT("AZ@[\xc1  "), nocase, "\x30" "az@[\xc1  \0");
    ASSERT_BYTES(TEXT("A\0bC"), nocase, "\x30" "a\1\1\1\1\1\1\0");
    ASSERT_BYTES(TEXT(" Az  "), rtrim, "\x30 Az\0");
    ASSERT_BYTES(BLOB("A\0 "), nocase, "\x40" "A\1\1 \0");
    ASSERT_BYTES(BLOB("A\0 "), rtrim, "\x40" "A\1\1 \0");
    ASSERT_BYTES({.type = SDB_NULL}, desc, "\xef");
    ASSERT_BYTES(INT(P53 + 1), desc, "\xdf\x3c\xbf\xff\xff\xff\xff\xff\xff\x7f\xfe");
    ASSERT_BYTES(TEXT("a\0b\1"), desc, "\xcf\x9e\xfe\xfe\x9d\xfe\xfd\xff");
    /* clang-format on */
}

static void assert_pair(const sdb_value *a, const sdb_value *b, key x, key y, order o)
{
    assert_int_equal(key_compare(x, y), model_compare(a, b, o));
    assert_false(key_is_prefix(x, y));
}

static void test_order_is_that_of_the_values_and_prefix_free(void **state)
{
    static key keys[N_EDGES];
    (void)state;

    for (int k = 0; k < N_ORDERS; k++) {
        for (int i = 0; i < N_EDGES; i++)
            keys[i] = key_of(&edges[i], orders[k]);
        for (int i = 0; i < N_EDGES; i++) {
            for (int j = 0; j < N_EDGES; j++) {
                assert_pair(&edges[i], &edges[j], keys[i], keys[j], orders[k]);
            }
        }
        for (int i = 0; i < N_EDGES; i++)
            free(keys[i].p);
    }
}

/* Every seventh value, in each place of two columns that have any two orders. */
static void test_two_columns_order_as_the_pair(void **state)
{
    enum { STEP = 7, N = (N_EDGES + STEP - 1) / STEP };
    static key keys[N * N];
    (void)state;

    for (int k = 0; k < N_ORDERS * N_ORDERS; k++) {
        order first = orders[k / N_ORDERS];
        order second = orders[k % N_ORDERS];
        for (int i = 0; i < N * N; i++) {
            keys[i] = key_append(key_of(&edges[i / N * STEP], first), &edges[i % N * STEP], second);
        }
        for (int i = 0; i < N * N; i++) {
            for (int j = 0; j < N * N; j++) {
                int expect = model_compare(&edges[i / N * STEP], &edges[j / N * STEP], first);
                if (!expect) {
                    expect = model_compare(&edges[i % N * STEP], &edges[j % N * STEP], second);
                }
                assert_int_equal(key_compare(keys[i], keys[j]), expect);
            }
        }
        for (int i = 0; i < N * N; i++)
            free(keys[i].p);
    }
}

/* Each value's key is looked for in each other's, bare, and between a prefix and a suffix. */
static void test_diff_finds_the_first_byte_that_differs(void **state)
{
    static key keys[N_EDGES];
    static key framed[N_EDGES];
    const sdb_value frame = TEXT("frame");
    (void)state;

    for (int k = 0; k < N_ORDERS; k++) {
        order o = orders[k];
        key prefix = key_of(&frame, o);
        for (int i = 0; i < N_EDGES; i++) {
            keys[i] = key_of(&edges[i], o);
            framed[i] = key_append(key_append(key_of(&frame, o), &edges[i], o), &frame, o);
        }
        for (int i = 0; i < N_EDGES; i++) {
            for (int j = 0; j < N_EDGES; j++) {
                assert_diff(keys[i], keys[i].n, 0, &edges[j], keys[j], o);
                assert_diff(framed[i], framed[i].n, prefix.n, &edges[j], keys[j], o);
            }
        }
        for (int i = 0; i < N_EDGES; i++) {
            free(keys[i].p);
            free(framed[i].p);
        }
        free(prefix.p);
    }
}

static void test_diff_stops_at_the_end_of_a_truncated_key(void **state)
{
    const sdb_value frame = TEXT("frame");
    (void)state;

    for (int k = 0; k < N_ORDERS; k++) {
        order o = orders[k];
        key prefix = key_of(&frame, o);
        for (int i = 0; i < N_EDGES; i++) {
            key own = key_of(&edges[i], o);
            key framed = key_append(key_of(&frame, o), &edges[i], o);
            for (size_t len = 0; len <= own.n; len++) {
                assert_diff(own, len, 0, &edges[i], own, o);
                assert_diff(framed, prefix.n + len, prefix.n, &edges[i], own, o);
            }
            free(own.p);
            free(framed.p);
        }
        free(prefix.p);
    }
}

/* ---------------------------------------------------------------- rowids */

static void test_rowids(void **state)
{
    static const int64_t ids[] = {
        INT64_MIN, INT64_MIN + 1, -P53, -256,    -255,          -1,       0, 1,
        255,       256,           P53,  P53 + 1, INT64_MAX - 1, INT64_MAX};
    enum { N = sizeof ids / sizeof *ids };
    uint8_t keys[N][SDB_ROWID_KEY];
    (void)state;

    for (int i = 0; i < N; i++) {
        assert_ptr_equal(sdb_key_put_rowid(keys[i], ids[i]), keys[i] + SDB_ROWID_KEY);
    }
    assert_memory_equal(keys[7], "\x80\0\0\0\0\0\0\1", SDB_ROWID_KEY);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int order_of_bytes = memcmp(keys[i], keys[j], SDB_ROWID_KEY);
            assert_int_equal(COMPARE(order_of_bytes, 0), COMPARE(ids[i], ids[j]));
            for (size_t len = 0; len <= SDB_ROWID_KEY; len++) {
                int byte = 0;
                size_t same = 0;
                key framed = key_resize((key){NULL, 0}, 3 + len);
                memset(framed.p, 0x80, 3);
                memcpy(framed.p + 3, keys[i], len);
                while (same < len && keys[i][same] == keys[j][same])
                    same++;
                assert_int_equal(sdb_key_diff_rowid(framed.p, 3 + len, 3, ids[j], &byte), 3 + same);
                assert_int_equal(byte, same < SDB_ROWID_KEY ? keys[j][same] : -1);
                free(framed.p);
            }
        }
    }
}

/* ---------------------------------------------------------------- random values */

static uint64_t seed = 20240229;

static uint64_t random_word(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static int64_t random_below(int64_t n)
{
    return (int64_t)(random_word() % (uint64_t)n);
}

/* Near a power of two, where integers and reals come closest to each other. */
static sdb_value random_number(void)
{
    uint64_t sum = (UINT64_C(1) << random_below(64)) + (uint64_t)(random_below(5) - 2);
    int64_t i = (int64_t)(random_below(2) ? sum : -sum);
    double steps = (double)(random_below(5) - 2);

    if (random_below(2))
        return (sdb_value)INT(i);
    double r = (double)i;
    return (sdb_value)REAL(r + steps * (random_below(2) ? 0.5 : fabs(r) * DBL_EPSILON));
}

/* Up to 20 bytes out of an alphabet of trouble, most of them the same. */
static sdb_value random_bytes(unsigned char room[20])
{
    static const unsigned char alphabet[] = "\0\1\2 aAzZ@[`{\x80\xc1\xfe\xff";
    sdb_value v = {.type = random_below(4) ? SDB_TEXT : SDB_BLOB, .n = (uint32_t)random_below(21)};

    memset(room, 'a', 20);
    for (int64_t i = random_below(4); i > 0; i--) {
        room[random_below(20)] = alphabet[random_below(sizeof alphabet - 1)];
    }
    v.u.p = room;
    return v;
}

static sdb_value random_value(unsigned char room[20])
{
    if (random_below(50) == 0)
        return (sdb_value){.type = SDB_NULL};
    return random_below(2) ? random_number() : random_bytes(room);
}

static void test_random_values(void **state)
{
    static unsigned char room[2][20];
    sdb_value value[2] = {{.type = SDB_NULL}, {.type = SDB_NULL}};
    int n_equal = 0;
    (void)state;

    for (int i = 0; i < 200000; i++) {
        int turn = i & 1; /* each value meets the one before and the one after it */
        order o = orders[random_below(N_ORDERS)];
        value[turn] = random_value(room[turn]);
        key a = key_of(&value[0], o);
        key b = key_of(&value[1], o);
        assert_pair(&value[0], &value[1], a, b, o);
        assert_pair(&value[1], &value[0], b, a, o);
        assert_diff(a, a.n, 0, &value[1], b, o);
        assert_diff(a, (size_t)random_below((int64_t)a.n + 1), 0, &value[0], a, o);
        n_equal += key_compare(a, b) == 0;
        free(a.p);
        free(b.p);
    }
    assert_in_range(n_equal, 500, 20000); /* collisions do happen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_as_documented),
        cmocka_unit_test(test_order_is_that_of_the_values_and_prefix_free),
        cmocka_unit_test(test_two_columns_order_as_the_pair),
        cmocka_unit_test(test_diff_finds_the_first_byte_that_differs),
        cmocka_unit_test(test_diff_stops_at_the_end_of_a_truncated_key),
        cmocka_unit_test(test_rowids),
        cmocka_unit_test(test_random_values),
    };
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
