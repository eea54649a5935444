/* fuzz_key.c - keys of two columns order as their values do, none is the beginning of another, and
** sdb_key_diff finds the first byte that differs. */
#include "fuzz.h"

#include "../core/key.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* ---------------------------------------------------------------- the input */

static int64_t input_integer(input *in)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | input_byte(in);
    return (int64_t)v;
}

/* A value; some are near `other`, since two that have nothing in common are soon compared. */
static sdb_value input_value(input *in, const sdb_value *other)
{
    uint8_t what = input_byte(in);
    sdb_value v = {.type = what % 5};
    if (what >= 128 && other->type == SDB_INTEGER) { /* the real next to it */
        v = (sdb_value){.type = SDB_REAL, .u.r = (double)other->u.i};
    } else if (what >= 128 && other->type == SDB_REAL && fabs(other->u.r) < 0x1p62) {
        v.type = SDB_INTEGER;
        v.u.i = (int64_t)other->u.r + (int8_t)input_byte(in);
    } else if (v.type == SDB_INTEGER) {
        v.u.i = what >= 64 ? (int8_t)input_byte(in) : input_integer(in);
    } else if (v.type == SDB_REAL) {
        int64_t bits = input_integer(in);
        memcpy(&v.u.r, &bits, sizeof bits);
    } else if (v.type != SDB_NULL) {
        size_t n = input_byte(in) % 24;
        v.u.p = in->n ? in->at : (const uint8_t *)"";
        v.n = (uint32_t)(n < in->n ? n : in->n);
        if (what < 128) { /* otherwise the next value begins with the same bytes */
            in->at += v.n;
            in->n -= v.n;
        }
    }
    return v;
}

/* ---------------------------------------------------------------- the order of values */

typedef struct order {
    sdb_collation collation;
    bool desc;
} order;

static int sign(double a, double b)
{
    return (a > b) - (a < b);
}

static int rank(const sdb_value *v)
{
    if (v->type == SDB_NULL || (v->type == SDB_REAL && isnan(v->u.r)))
        return 0;
    return v->type <= SDB_REAL ? 1 : (int)v->type;
}

/* A long double would do on x86 only: whole parts as integers, fractions as they are. */
static int compare_numbers(const sdb_value *a, const sdb_value *b)
{
    if (a->type == b->type)
        return a->type == SDB_REAL ? sign(a->u.r, b->u.r) : (a->u.i > b->u.i) - (a->u.i < b->u.i);
    if (a->type == SDB_REAL)
        return -compare_numbers(b, a);
    double r = b->u.r;
    if (r >= 0x1p63 || r < -0x1p63)
        return r > 0 ? -1 : 1;
    int64_t whole = (int64_t)r;
    return a->u.i != whole ? (a->u.i > whole) - (a->u.i < whole) : sign(0, r - (double)whole);
}

static int compare_bytes(const sdb_value *a, const sdb_value *b, sdb_collation collation)
{
    const uint8_t *p = a->u.p, *q = b->u.p;
    uint32_t n = a->n, m = b->n;
    bool is_nocase = a->type == SDB_TEXT && collation == SDB_NOCASE;
    if (a->type == SDB_TEXT && collation == SDB_RTRIM) {
        while (n && p[n - 1] == ' ')
            n--;
        while (m && q[m - 1] == ' ')
            m--;
    }
    for (uint32_t i = 0; i < n && i < m; i++) {
        int x = p[i], y = q[i];
        if (is_nocase) {
            x += x >= 'A' && x <= 'Z' ? 32 : 0;
            y += y >= 'A' && y <= 'Z' ? 32 : 0;
        }
        if (x != y)
            return x < y ? -1 : 1;
        if (is_nocase && !x) /* SQLite looks no further */
            break;
    }
    return (n > m) - (n < m);
}

static int compare_values(const sdb_value *a, const sdb_value *b, order o)
{
    int c = (rank(a) > rank(b)) - (rank(a) < rank(b));
    if (c == 0 && rank(a) == 1)
        c = compare_numbers(a, b);
    else if (c == 0 && rank(a) > 1)
        c = compare_bytes(a, b, o.collation);
    return o.desc ? -c : c;
}

/* ---------------------------------------------------------------- keys */

/* In a block of just its length, so that the sanitizer sees a byte too many. */
typedef struct key {
    uint8_t *at;
    size_t n, first; /* bytes in all, and of the first column */
} key;

static size_t value_put(key *k, const sdb_value *v, order o)
{
    size_t bound = sdb_key_bound(v);
    k->at = realloc(k->at, k->n + bound);
    k->n = (size_t)(sdb_key_put(k->at + k->n, v, o.collation, o.desc) - k->at);
    k->at = realloc(k->at, k->n);
    return k->n;
}

static void check_order(const sdb_value a[2], const sdb_value b[2], const order o[2], const key *x,
                        const key *y)
{
    size_t n = x->n < y->n ? x->n : y->n;
    int c = memcmp(x->at, y->at, n), want = compare_values(&a[0], &b[0], o[0]);
    if (want == 0)
        want = compare_values(&a[1], &b[1], o[1]);
    check(c != 0 || x->n == y->n, "no key is the beginning of another");
    check((c > 0) - (c < 0) == want, "keys order as their values");
}

/* The value whose key bytes are own[0..n) against the first len bytes of a key from `at` on. */
static void check_diff(const key *k, size_t len, size_t at, const sdb_value *v, order o,
                       const uint8_t *own, size_t n)
{
    uint8_t *cut = malloc(len ? len : 1);
    size_t same = 0;
    int byte = 0;
    memcpy(cut, k->at, len);
    while (same < n && at + same < len && cut[at + same] == own[same])
        same++;
    size_t end = sdb_key_diff(cut, len, at, v, o.collation, o.desc, &byte);
    check(end == at + same, "the first difference");
    check(byte == (same < n ? own[same] : -1), "the byte there");
    free(cut);
}

static void check_rowids(int64_t a, int64_t b, size_t len)
{
    uint8_t x[SDB_ROWID_KEY], y[SDB_ROWID_KEY];
    size_t same = 0;
    int byte = 0;
    sdb_key_put_rowid(x, a);
    sdb_key_put_rowid(y, b);
    int c = memcmp(x, y, sizeof x);
    check((c > 0) - (c < 0) == (a > b) - (a < b), "keys order as their rowids");
    while (same < len && x[same] == y[same])
        same++;
    check(sdb_key_diff_rowid(x, len, 0, b, &byte) == same, "the first difference of rowids");
    check(byte == (same < sizeof y ? y[same] : -1), "the byte there, of rowids");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t orders = input_byte(&in), cut = input_byte(&in);
    order o[2] = {{orders % 3, orders / 9 % 2}, {orders / 3 % 3, orders / 18 % 2}};
    sdb_value none = {.type = SDB_NULL}, a[2], b[2];
    key x = {0}, y = {0};
    for (int i = 0; i < 2; i++) {
        a[i] = input_value(&in, &none);
        b[i] = input_value(&in, &a[i]);
        size_t n = value_put(&x, &a[i], o[i]), m = value_put(&y, &b[i], o[i]);
        if (i == 0) {
            x.first = n;
            y.first = m;
        }
    }
    check_order(a, b, o, &x, &y);
    size_t len = cut % (x.n + 1);
    check_diff(&x, x.n, 0, &b[0], o[0], y.at, y.first);
    check_diff(&x, len, 0, &b[0], o[0], y.at, y.first);
    check_diff(&x, x.n, x.first, &b[1], o[1], y.at + y.first, y.n - y.first);
    if (len >= x.first)
        check_diff(&x, len, x.first, &b[1], o[1], y.at + y.first, y.n - y.first);
    check_rowids(a[0].type == SDB_INTEGER ? a[0].u.i : cut, b[0].type == SDB_INTEGER ? b[0].u.i : 0,
                 len % (SDB_ROWID_KEY + 1));
    free(x.at);
    free(y.at);
    return 0;
}
