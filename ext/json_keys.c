/* json_keys.c - see json_keys.h. */
#define _GNU_SOURCE /* strtod_l */
#include "json_keys.h"

#include <locale.h>
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

SQLITE_EXTENSION_INIT3

enum { DEPTH_MAX = 1000 };

typedef struct reader {
    const char *at, *end;
    char *room; /* as many bytes as the text has, and one; for what cannot be handed out in place */
    size_t size;
    json_each_key *each;
    void *ctx;
} reader;

/* ---------------------------------------------------------------- one token */

static int peek(const reader *r)
{
    return r->at < r->end ? (unsigned char)*r->at : -1;
}

static bool accept(reader *r, char c)
{
    bool is_here = peek(r) == c;

    r->at += is_here;
    return is_here;
}

static void skip_space(reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\n' || peek(r) == '\r' || peek(r) == '\t')
        r->at++;
}

static bool accept_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    bool is_here = (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0;

    r->at += is_here ? n : 0;
    return is_here;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool skip_digits(reader *r)
{
    bool has_one = is_digit(peek(r));

    while (is_digit(peek(r)))
        r->at++;
    return has_one;
}

static bool skip_number(reader *r, bool *is_real)
{
    *is_real = false;
    accept(r, '-');
    if (!accept(r, '0') && !skip_digits(r))
        return false;
    if (accept(r, '.')) {
        *is_real = true;
        if (!skip_digits(r))
            return false;
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        *is_real = true;
        if (!accept(r, '+'))
            accept(r, '-');
        return skip_digits(r);
    }
    return true;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex_value(const char *at, const char *end)
{
    int32_t value = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool skip_string(reader *r, bool *has_escape)
{
    *has_escape = false;
    if (!accept(r, '"'))
        return false;
    for (int c; (c = peek(r)) >= 0x20; r->at++) {
        if (c == '"') {
            r->at++;
            return true;
        }
        if (c != '\\')
            continue;
        *has_escape = true;
        r->at++;
        c = peek(r);
        if (c == 'u' ? hex_value(r->at + 1, r->end) < 0 : c < 0 || !strchr("\"\\/bfnrt", c) || !c)
            return false;
    }
    return false;
}

static bool skip_scalar(reader *r)
{
    bool is;

    switch (peek(r)) {
    case '"':
        return skip_string(r, &is);
    case 't':
        return accept_word(r, "true");
    case 'f':
        return accept_word(r, "false");
    case 'n':
        return accept_word(r, "null");
    default:
        return skip_number(r, &is);
    }
}

/* The name of a member, and the colon. */
static bool skip_name(reader *r)
{
    bool has_escape;

    skip_space(r);
    if (!skip_string(r, &has_escape))
        return false;
    skip_space(r);
    return accept(r, ':');
}

/* ---------------------------------------------------------------- arrays and objects within */

/* Which of the values that are open are objects. */
typedef struct nest {
    uint8_t is_object[DEPTH_MAX / 8];
    unsigned depth;
} nest;

static bool nest_open(nest *n, bool is_object)
{
    uint8_t *byte = &n->is_object[n->depth / 8], bit = (uint8_t)(1u << n->depth % 8);

    if (n->depth == DEPTH_MAX - 1) /* the one around them counts */
        return false;
    *byte = (uint8_t)(is_object ? *byte | bit : *byte & ~bit);
    n->depth++;
    return true;
}

static bool nest_is_object(const nest *n)
{
    return n->is_object[(n->depth - 1) / 8] >> (n->depth - 1) % 8 & 1;
}

/* Behind any value. */
static bool skip_value(reader *r)
{
    nest n = {.depth = 0};

    for (;;) { /* a value begins */
        skip_space(r);
        bool is_object = peek(r) == '{', is_empty = false;
        if (accept(r, '[') || accept(r, '{')) {
            if (!nest_open(&n, is_object))
                return false;
            skip_space(r);
            is_empty = accept(r, is_object ? '}' : ']');
            n.depth -= is_empty;
            if (!is_empty && is_object && !skip_name(r))
                return false;
            if (!is_empty)
                continue;
        } else if (!skip_scalar(r)) {
            return false;
        }
        for (;;) { /* a value has ended */
            if (n.depth == 0)
                return true;
            skip_space(r);
            if (accept(r, ','))
                break;
            if (!accept(r, nest_is_object(&n) ? '}' : ']'))
                return false;
            n.depth--;
        }
        if (nest_is_object(&n) && !skip_name(r))
            return false;
    }
}

/* ---------------------------------------------------------------- values */

static char *room_get(reader *r)
{
    if (!r->room)
        r->room = sqlite3_malloc64(r->size + 1);
    return r->room;
}

static int give_text(const reader *r, const char *at, size_t n)
{
    sdb_value v = {.type = SDB_TEXT, .n = (uint32_t)n, .u.p = at};
    return r->each(r->ctx, &v);
}

static char *utf8_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c >= 0x10000) {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    } else if (c >= 0x800) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        *out++ = (char)(0xc0 | c >> 6);
    }
    *out++ = (char)(0x80 | (c & 0x3f));
    return out;
}

/* \uXXXX, two of them where they are a surrogate pair; at: behind the u. Returns behind it. */
static const char *unescape_unicode(const char *at, const char *end, char **out)
{
    uint32_t c = (uint32_t)hex_value(at, end);

    at += 4;
    if (c >> 10 == 0xd800 >> 10 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        uint32_t low = (uint32_t)hex_value(at + 2, end);
        if (low >> 10 == 0xdc00 >> 10) {
            c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
            at += 6;
        }
    }
    *out = utf8_put(*out, c);
    return at;
}

/* A string from its quotes, which has been found to be one. */
static int give_string(reader *r, const char *at, const char *end, bool has_escape)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *out;

    at++, end--;
    if (!has_escape)
        return give_text(r, at, (size_t)(end - at));
    out = room_get(r);
    if (!out)
        return SDB_NOMEM;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
        } else if (at[1] == 'u') {
            at = unescape_unicode(at + 2, end, &out);
        } else {
            *out++ = meant[strchr(escapes, at[1]) - escapes];
            at += 2;
        }
    }
    return give_text(r, r->room, (size_t)(out - r->room));
}

/* An array or object, without the space in it. */
static int give_nested(reader *r, const char *at, const char *end)
{
    bool in_string = false;
    char *out = room_get(r);

    if (!out)
        return SDB_NOMEM;
    for (; at < end; at++) {
        if (!in_string && strchr(" \n\r\t", *at))
            continue;
        if (in_string && *at == '\\')
            *out++ = *at++;
        else if (*at == '"')
            in_string = !in_string;
        *out++ = *at;
    }
    return give_text(r, r->room, (size_t)(out - r->room));
}

/* In the C locale, whatever the program's is. */
static double real_value(const char *text)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a static object: it is always there */
    double value = strtod_l(text, NULL, c);

    freelocale(c);
    return value;
}

static int give_number(reader *r, const char *at, const char *end, bool is_real)
{
    bool is_negative = *at == '-';
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + is_negative;
    sdb_value v = {.type = SDB_INTEGER};

    for (const char *p = at + is_negative; p < end && !is_real; p++) {
        unsigned digit = (unsigned)(*p - '0');
        is_real = value > (limit - digit) / 10;
        value = value * 10 + digit;
    }
    if (!is_real) {
        v.u.i = (int64_t)(is_negative ? -value : value);
        return r->each(r->ctx, &v);
    }
    char *text = room_get(r);
    if (!text)
        return SDB_NOMEM;
    memcpy(text, at, (size_t)(end - at));
    text[end - at] = 0;
    v.type = SDB_REAL;
    v.u.r = real_value(text);
    return r->each(r->ctx, &v);
}

/* Read a value and give it. */
static int give_value(reader *r)
{
    const char *start = r->at;
    sdb_value v = {.type = SDB_INTEGER};
    bool is;

    switch (peek(r)) {
    case '[':
    case '{':
        return skip_value(r) ? give_nested(r, start, r->at) : SDB_NOTSET;
    case '"':
        return skip_string(r, &is) ? give_string(r, start, r->at, is) : SDB_NOTSET;
    case 't':
    case 'f':
    case 'n':
        if (!skip_scalar(r))
            return SDB_NOTSET;
        v.u.i = *start == 't';
        v.type = *start == 'n' ? SDB_NULL : SDB_INTEGER;
        return r->each(r->ctx, &v);
    default:
        return skip_number(r, &is) ? give_number(r, start, r->at, is) : SDB_NOTSET;
    }
}

/* The name of a member, and behind its value. */
static int give_name(reader *r)
{
    const char *start = r->at;
    bool has_escape;
    int rc = skip_string(r, &has_escape) ? give_string(r, start, r->at, has_escape) : SDB_NOTSET;

    if (rc != SDB_OK)
        return rc;
    skip_space(r);
    return accept(r, ':') && skip_value(r) ? SDB_OK : SDB_NOTSET;
}

static int give_all(reader *r)
{
    bool is_object = peek(r) == '{';
    char end = is_object ? '}' : ']';
    int rc = SDB_OK;

    if (!accept(r, '[') && !accept(r, '{'))
        return give_value(r);
    skip_space(r);
    if (accept(r, end))
        return SDB_OK;
    do {
        skip_space(r);
        rc = is_object ? give_name(r) : give_value(r);
        skip_space(r);
    } while (rc == SDB_OK && accept(r, ','));
    return rc != SDB_OK || accept(r, end) ? rc : SDB_NOTSET;
}

/* ---------------------------------------------------------------- interface */

int json_keys(const sdb_value *json, json_each_key *each, void *ctx)
{
    reader r = {.at = json->u.p, .size = json->n, .each = each, .ctx = ctx};
    int rc;

    if (json->type == SDB_NULL)
        return SDB_OK;
    if (json->type == SDB_INTEGER || json->type == SDB_REAL)
        return each(ctx, json);
    if (json->type != SDB_TEXT)
        return SDB_NOTSET;
    r.end = r.at + r.size;
    skip_space(&r);
    rc = give_all(&r);
    skip_space(&r);
    if (rc == SDB_OK && r.at < r.end)
        rc = SDB_NOTSET;
    sqlite3_free(r.room);
    return rc;
}

static int key_add(void *ctx, const sdb_value *key)
{
    return sdb_key_set_add(ctx, key);
}

int json_extract(void *ctx, const sdb_value *json, sdb_key_set *keys)
{
    (void)ctx;
    return json_keys(json, key_add, keys);
}
