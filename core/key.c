/* key.c - the bytes of key.h: written (put), and compared without being written (diff).
**
** Both handle eight bytes at a time as one big-endian word, in which the first byte of interest is
** the most significant one that is not zero. A descending column is `flip` = all ones, xored in
** last. */
#include "key.h"

#include <assert.h>

enum { TAG_NULL = 0x10, TAG_NUMBER = 0x20, TAG_TEXT = 0x30, TAG_BLOB = 0x40 };

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* ---------------------------------------------------------------- words */

/* The swap, if this machine needs one, is its own inverse. */
static inline uint8_t *word_store(uint8_t *out, uint64_t word)
{
    word = sdb_key_word((const uint8_t *)&word);
    memcpy(out, &word, 8);
    return out + 8;
}

/* As many of p[i..n) as a word takes, then zeros; there are one at least, and n is 8 or more. */
static inline uint64_t word_load_from(const uint8_t *p, size_t n, size_t i)
{
    return n - i >= 8 ? sdb_key_word(p + i) : sdb_key_word(p + n - 8) << (64 - 8 * (n - i));
}

/* How many zero bytes stand before the first other one: 0..8. */
static inline unsigned word_zeros(uint64_t word)
{
    return word ? (unsigned)__builtin_clzll(word) / 8 : 8;
}

/* 0x80 for each byte that is 00 or 01, 0 for the others. No carry crosses a byte. */
static inline uint64_t word_escapes(uint64_t word)
{
    return ~(((word & EACH_BYTE(0x7f)) + EACH_BYTE(0x7e)) | word) & EACH_BYTE(0x80);
}

/* Each byte of A-Z in lower case: bit 7 of the two sums says "at least A" and "beyond Z". */
static inline uint64_t word_lower(uint64_t word)
{
    uint64_t low = word & EACH_BYTE(0x7f);
    uint64_t is_upper = (low + EACH_BYTE(0x80 - 'A')) ^ (low + EACH_BYTE(0x7f - 'Z'));

    return word | (is_upper & ~word & EACH_BYTE(0x80)) >> 2;
}

/* ---------------------------------------------------------------- comparing */

/* Whether `c` stands at key[at]; *byte as sdb_key_diff leaves it. */
static inline bool byte_meets(const uint8_t *key, size_t len, size_t at, uint8_t c, int *byte)
{
    bool is_same = at < len && key[at] == c;

    *byte = is_same ? -1 : c;
    return is_same;
}

/* sdb_key_diff for the eight bytes of a word. */
static inline size_t word_diff(const uint8_t *key, size_t len, size_t at, uint64_t word, int *byte)
{
    if (len - at >= 8) {
        unsigned same = word_zeros(sdb_key_word(key + at) ^ word);
        *byte = same < 8 ? (uint8_t)(word >> (56 - 8 * same)) : -1;
        return at + same;
    }
    while (byte_meets(key, len, at, (uint8_t)(word >> 56), byte)) {
        at++;
        word <<= 8;
    }
    return at;
}

/* ---------------------------------------------------------------- values */

static inline uint8_t value_tag(const sdb_value *value)
{
    static const uint8_t tags[] = {
        [SDB_NULL] = TAG_NULL, [SDB_INTEGER] = TAG_NUMBER, [SDB_REAL] = TAG_NUMBER,
        [SDB_TEXT] = TAG_TEXT, [SDB_BLOB] = TAG_BLOB,
    };
    bool is_nan = value->type == SDB_REAL && value->u.r != value->u.r;

    return is_nan ? TAG_NULL : tags[value->type];
}

typedef struct number {
    uint64_t word; /* the double, ordered as an unsigned integer */
    uint16_t rest; /* what the double lacks */
    bool has_rest;
} number;

static inline number number_of(const sdb_value *value)
{
    bool is_integer = value->type == SDB_INTEGER;
    double d = is_integer ? (double)value->u.i : value->u.r;
    number x = {.rest = 0x8000, .has_rest = d >= 0x1p53 || d <= -0x1p53};

    if (is_integer && x.has_rest) { /* modulo 2^64, for 2^63 is not an int64_t */
        uint64_t whole = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
        x.rest = (uint16_t)(x.rest + ((uint64_t)value->u.i - whole));
    }
    d += 0.0; /* -0.0 becomes 0.0 */
    memcpy(&x.word, &d, sizeof d);
    x.word ^= x.word >> 63 ? UINT64_MAX : UINT64_C(1) << 63;
    return x;
}

/* Text or blob, as far as the key holds it. Folded text is compared up to its first NUL and then by
** its length, as SQLite's NOCASE does: behind a NUL every byte counts as one. */
typedef struct text {
    const uint8_t *p;
    size_t n;
    bool is_folded;
} text;

static inline text text_of(const sdb_value *value, sdb_collation collation)
{
    text t = {value->u.p, value->n, false};

    if (value->type == SDB_TEXT) {
        t.is_folded = collation == SDB_NOCASE;
        while (collation == SDB_RTRIM && t.n > 0 && t.p[t.n - 1] == ' ')
            t.n--;
    }
    return t;
}

static uint8_t *text_put(uint8_t *out, text t, uint64_t flip)
{
    bool has_ended = false;
    for (size_t i = 0; i < t.n;) {
        uint64_t word;
        if (t.n >= 8 && !has_ended) {
            word = word_load_from(t.p, t.n, i);
            if (t.is_folded)
                word = word_lower(word);
            word_store(out, word ^ flip);
            unsigned plain = word_zeros(word_escapes(word)); /* zeros behind the text are escapes */
            out += plain;
            i += plain;
            if (plain == 8 || i == t.n)
                continue;
        }
        word = has_ended ? 0 : t.is_folded ? word_lower(t.p[i]) : t.p[i];
        has_ended = t.is_folded && word == 0;
        i++;
        if (word <= 1) {
            *out++ = (uint8_t)(1 ^ flip);
            word++;
        }
        *out++ = (uint8_t)(word ^ flip);
    }
    *out++ = (uint8_t)flip;
    return out;
}

static size_t text_diff(const uint8_t *key, size_t len, size_t at, text t, uint64_t flip, int *byte)
{
    bool has_ended = false;
    for (size_t i = 0; i < t.n;) {
        uint64_t word;
        if (t.n >= 8 && len >= 8 && at < len && !has_ended) {
            word = word_load_from(t.p, t.n, i);
            if (t.is_folded)
                word = word_lower(word);
            uint64_t differ = word_load_from(key, len, at) ^ word ^ flip;
            size_t same = word_zeros(differ | word_escapes(word));
            same = same < len - at ? same : len - at;
            at += same;
            i += same;
            if (same == 8 || i == t.n)
                continue;
        }
        word = has_ended ? 0 : t.is_folded ? word_lower(t.p[i]) : t.p[i];
        has_ended = t.is_folded && word == 0;
        i++;
        if (word <= 1) {
            if (!byte_meets(key, len, at, (uint8_t)(1 ^ flip), byte))
                return at;
            at++;
            word++;
        }
        if (!byte_meets(key, len, at, (uint8_t)(word ^ flip), byte))
            return at;
        at++;
    }
    return at + byte_meets(key, len, at, (uint8_t)flip, byte);
}

/* ---------------------------------------------------------------- interface */

uint8_t *sdb_key_put(uint8_t *out, const sdb_value *value, sdb_collation collation, bool desc)
{
    uint64_t flip = desc ? UINT64_MAX : 0;
    uint8_t tag = value_tag(value);

    *out++ = (uint8_t)(tag ^ flip);
    if (tag == TAG_NULL)
        return out;
    if (tag != TAG_NUMBER)
        return text_put(out, text_of(value, collation), flip);

    number x = number_of(value);
    out = word_store(out, x.word ^ flip);
    if (x.has_rest) {
        *out++ = (uint8_t)(x.rest >> 8 ^ flip);
        *out++ = (uint8_t)(x.rest ^ flip);
    }
    return out;
}

size_t sdb_key_diff(const uint8_t *key, size_t len, size_t at, const sdb_value *value,
                    sdb_collation collation, bool desc, int *byte)
{
    uint64_t flip = desc ? UINT64_MAX : 0;
    uint8_t tag = value_tag(value);

    assert(at <= len);
    if (!byte_meets(key, len, at, (uint8_t)(tag ^ flip), byte))
        return at;
    at++;
    if (tag == TAG_NULL)
        return at;
    if (tag != TAG_NUMBER)
        return text_diff(key, len, at, text_of(value, collation), flip, byte);

    number x = number_of(value);
    at = word_diff(key, len, at, x.word ^ flip, byte);
    if (*byte >= 0 || !x.has_rest)
        return at;
    if (!byte_meets(key, len, at, (uint8_t)(x.rest >> 8 ^ flip), byte))
        return at;
    at++;
    return at + byte_meets(key, len, at, (uint8_t)(x.rest ^ flip), byte);
}

uint8_t *sdb_key_put_rowid(uint8_t *out, int64_t rowid)
{
    return word_store(out, (uint64_t)rowid ^ UINT64_C(1) << 63);
}

int64_t sdb_key_rowid(const uint8_t *key)
{
    return (int64_t)(sdb_key_word(key) ^ UINT64_C(1) << 63);
}

size_t sdb_key_diff_rowid(const uint8_t *key, size_t len, size_t at, int64_t rowid, int *byte)
{
    assert(at <= len);
    return word_diff(key, len, at, (uint64_t)rowid ^ UINT64_C(1) << 63, byte);
}
