/* value.c - values between SQLite and the store, and the affinity a column gives them. */
#include "ext.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- from SQLite */

/* Text that was bound with a length has no NUL behind it, and sqlite3_value_text() would copy it for
** one; we need none. The length first: for it SQLite makes the text UTF-8, if it is not. */
static int text_get(sqlite3_value *in, sdb_value *out)
{
    int n = sqlite3_value_bytes(in);
    const void *text = n > 0 ? sqlite3_value_blob(in) : sqlite3_value_text(in);

    if (!text)
        return SQLITE_NOMEM;
    *out = (sdb_value){.type = SDB_TEXT, .n = (uint32_t)n, .u.p = text};
    return SQLITE_OK;
}

/* A number as text. (sqlite3_value_blob() would leave it marked as a blob.) */
static int number_get_text(sqlite3_value *in, sdb_value *out)
{
    const unsigned char *text = sqlite3_value_text(in);

    if (!text)
        return SQLITE_NOMEM;
    *out = (sdb_value){.type = SDB_TEXT, .n = (uint32_t)sqlite3_value_bytes(in), .u.p = text};
    return SQLITE_OK;
}

static int blob_get(sqlite3_value *in, sdb_value *out)
{
    const void *blob = sqlite3_value_blob(in);
    int n = sqlite3_value_bytes(in);

    if (!blob && n > 0)
        return SQLITE_NOMEM;
    *out = (sdb_value){.type = SDB_BLOB, .n = (uint32_t)n, .u.p = blob ? blob : ""};
    return SQLITE_OK;
}

int value_get(sqlite3_value *in, sdb_value *out)
{
    return value_get_affinity(in, AFFINITY_BLOB, out);
}

/* A real that is an integer becomes one, but for the two that may stand for anything beyond them. So
** does SQLite for every numeric affinity; in a REAL column, which gives a real back, -0.0 is 0.0. */
static void real_to_integer(sdb_value *value)
{
    double r = value->u.r;

    if (r <= (double)INT64_MIN || r >= (double)INT64_MAX)
        return;
    int64_t i = (int64_t)r;
    if ((double)i == r)
        *value = (sdb_value){.type = SDB_INTEGER, .u.i = i};
}

int value_get_affinity(sqlite3_value *in, affinity aff, sdb_value *out)
{
    int type = sqlite3_value_type(in);

    if (aff >= AFFINITY_NUMERIC && type == SQLITE_TEXT)
        type = sqlite3_value_numeric_type(in);
    switch (type) {
    case SQLITE_INTEGER:
        if (aff == AFFINITY_TEXT)
            return number_get_text(in, out);
        *out = (sdb_value){.type = SDB_INTEGER, .u.i = sqlite3_value_int64(in)};
        break;
    case SQLITE_FLOAT:
        if (aff == AFFINITY_TEXT)
            return number_get_text(in, out);
        *out = (sdb_value){.type = SDB_REAL, .u.r = sqlite3_value_double(in)};
        if (aff >= AFFINITY_NUMERIC)
            real_to_integer(out);
        break;
    case SQLITE_TEXT:
        return text_get(in, out);
    case SQLITE_BLOB:
        return blob_get(in, out);
    default:
        *out = (sdb_value){.type = SDB_NULL};
        return SQLITE_OK;
    }
    if (aff == AFFINITY_REAL && out->type == SDB_INTEGER)
        *out = (sdb_value){.type = SDB_REAL, .u.r = (double)out->u.i};
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- to SQLite */

void value_result(sqlite3_context *ctx, const sdb_value *value)
{
    switch (value->type) {
    case SDB_NULL:
        break; /* what a context begins with */
    case SDB_INTEGER:
        sqlite3_result_int64(ctx, value->u.i);
        break;
    case SDB_REAL:
        sqlite3_result_double(ctx, value->u.r);
        break;
    case SDB_TEXT:
        /* Only of text whose length it has found itself does SQLite know that a NUL follows;
        ** other text it copies before sqlite3_column_text() can return it. */
        sqlite3_result_text(ctx, value->u.p, memchr(value->u.p, 0, value->n) ? (int)value->n : -1,
                            SQLITE_STATIC);
        break;
    case SDB_BLOB:
        if (value->n > 0)
            sqlite3_result_blob(ctx, value->u.p, (int)value->n, SQLITE_STATIC);
        else
            sqlite3_result_zeroblob(ctx, 0);
        break;
    }
}

/* ---------------------------------------------------------------- comparison */

static int integer_compare_real(int64_t i, double r)
{
    if (r >= 9223372036854775808.0)
        return -1;
    if (r < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)r; /* towards zero, exactly */
    if (i != whole)
        return i < whole ? -1 : 1;
    double rest = r - (double)whole;
    return (rest < 0) - (rest > 0);
}

static int number_compare(const sdb_value *a, const sdb_value *b)
{
    if (a->type == SDB_INTEGER && b->type == SDB_INTEGER)
        return (a->u.i > b->u.i) - (a->u.i < b->u.i);
    if (a->type == SDB_INTEGER)
        return integer_compare_real(a->u.i, b->u.r);
    if (b->type == SDB_INTEGER)
        return -integer_compare_real(b->u.i, a->u.r);
    return (a->u.r > b->u.r) - (a->u.r < b->u.r);
}

static int bytes_compare(const void *a, uint32_t n_a, const void *b, uint32_t n_b)
{
    int c = memcmp(a, b, n_a < n_b ? n_a : n_b);

    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static inline unsigned char fold(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

/* Where both texts have a NUL, SQLite's NOCASE looks no further: the longer one is the greater. */
static int nocase_compare(const sdb_value *a, const sdb_value *b)
{
    const unsigned char *p = a->u.p, *q = b->u.p;
    uint32_t n = a->n < b->n ? a->n : b->n;

    for (uint32_t i = 0; i < n; i++) {
        int c = fold(p[i]) - fold(q[i]);
        if (c)
            return c;
        if (!p[i])
            break;
    }
    return (a->n > b->n) - (a->n < b->n);
}

static uint32_t rtrim_length(const sdb_value *v)
{
    const char *p = v->u.p;
    uint32_t n = v->n;

    while (n > 0 && p[n - 1] == ' ')
        n--;
    return n;
}

static int text_compare(const sdb_value *a, const sdb_value *b, sdb_collation collation)
{
    switch (collation) {
    case SDB_NOCASE:
        return nocase_compare(a, b);
    case SDB_RTRIM:
        return bytes_compare(a->u.p, rtrim_length(a), b->u.p, rtrim_length(b));
    default:
        return bytes_compare(a->u.p, a->n, b->u.p, b->n);
    }
}

int value_compare(const sdb_value *a, const sdb_value *b, sdb_collation collation)
{
    /* Integers and reals are one class. */
    int class_a = a->type == SDB_REAL ? SDB_INTEGER : (int)a->type;
    int class_b = b->type == SDB_REAL ? SDB_INTEGER : (int)b->type;

    if (class_a != class_b)
        return class_a - class_b;
    switch (class_a) {
    case SDB_NULL:
        return 0;
    case SDB_INTEGER:
        return number_compare(a, b);
    case SDB_TEXT:
        return text_compare(a, b, collation);
    default:
        return bytes_compare(a->u.p, a->n, b->u.p, b->n);
    }
}
