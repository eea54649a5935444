/* prefix.c - read, write and compare prefixes (see prefix.h). No libc: the same on every system. */
#include "prefix.h"

#include <assert.h>
#include <string.h>

static const char NO_PREFIX[] = "is not an address or prefix";
static const char NO_LENGTH[] = "has no length, which part of an address needs";
static const char LEADING_ZERO[] = "has a number with a leading zero";

unsigned sdb_family_bits(sdb_family family)
{
    static const uint8_t BITS[SDB_FAMILIES] = {32, 128, 48, 128};
    return BITS[family];
}

/* ---------------------------------------------------------------- order */

void sdb_prefix_cut(sdb_prefix *p, unsigned bits)
{
    if (bits >= p->bits)
        return;
    unsigned whole = bits / 8, rest = bits % 8;
    p->bits = (uint8_t)bits;
    p->addr[whole] &= (uint8_t)(0xff00 >> rest);
    memset(p->addr + whole + 1, 0, sizeof p->addr - whole - 1);
}

int sdb_prefix_compare(const sdb_prefix *a, const sdb_prefix *b)
{
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    int c = memcmp(a->addr, b->addr, sizeof a->addr);
    return c ? c : (int)a->bits - (int)b->bits;
}

bool sdb_prefix_covers(const sdb_prefix *a, const sdb_prefix *b)
{
    unsigned whole = a->bits / 8, rest = a->bits % 8;
    return a->family == b->family && a->bits <= b->bits && memcmp(a->addr, b->addr, whole) == 0 &&
           (!rest || (a->addr[whole] ^ b->addr[whole]) >> (8 - rest) == 0);
}

/* ---------------------------------------------------------------- numbers */

/* What is left of the text. */
typedef struct text {
    const char *p, *end;
} text;

static bool text_skip(text *t, char c)
{
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

/* The value of a hexadecimal digit, or -1. */
static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Take up to `most` hexadecimal digits; returns how many there were. */
static unsigned text_hex(text *t, unsigned most, unsigned *out)
{
    unsigned n = 0;
    for (*out = 0; n < most && t->p < t->end && digit(*t->p) >= 0; n++)
        *out = *out * 16 + (unsigned)digit(*t->p++);
    return n;
}

/* Take a decimal number of up to three digits. */
static const char *text_number(text *t, unsigned *out)
{
    const char *from = t->p, *p = from, *end = t->end - from > 3 ? from + 3 : t->end;
    unsigned n = 0;
    for (unsigned d; p < end && (d = (unsigned)*p - '0') <= 9; p++)
        n = n * 10 + d;
    t->p = p;
    *out = n;
    return p == from ? NO_PREFIX : *from == '0' && p > from + 1 ? LEADING_ZERO : NULL;
}

/* ---------------------------------------------------------------- addresses, without a length */

static const char *read_ipv4(text *t, uint8_t addr[4])
{
    for (int i = 0; i < 4; i++) {
        unsigned n;
        if (i && !text_skip(t, '.'))
            return NO_PREFIX;
        const char *wrong = text_number(t, &n);
        if (wrong)
            return wrong;
        if (n > 255)
            return "has a number above 255";
        addr[i] = (uint8_t)n;
    }
    return NULL;
}

/* Groups of hexadecimal digits; at one place "::", for the groups that are missing and zero; the
** last two may be an IPv4 address. */
static const char *read_ipv6(text *t, uint8_t addr[16])
{
    enum { NO_GAP = 17 };
    unsigned n = 0, gap = NO_GAP; /* bytes read, and of these before "::" */
    if (text_skip(t, ':')) {
        if (!text_skip(t, ':'))
            return NO_PREFIX;
        gap = 0;
    }
    while (n < 16) {
        text group = *t;
        unsigned value;
        if (text_hex(t, 4, &value) == 0) {
            if (n != gap)
                return NO_PREFIX;
            break; /* "::" is the end */
        }
        if (t->p < t->end && *t->p == '.') {
            *t = group;
            const char *wrong = n <= 12 ? read_ipv4(t, addr + n) : NO_PREFIX;
            if (wrong)
                return wrong;
            n += 4;
            break;
        }
        addr[n++] = (uint8_t)(value >> 8);
        addr[n++] = (uint8_t)value;
        if (n == 16 || !text_skip(t, ':'))
            break;
        if (text_skip(t, ':')) {
            if (gap != NO_GAP)
                return NO_PREFIX;
            gap = n;
        }
    }
    if (t->p < t->end && *t->p == '%')
        return "has a zone, which a prefix cannot have";
    if ((n == 16) != (gap == NO_GAP)) /* "::" stands for one group at least */
        return NO_PREFIX;
    if (gap != NO_GAP) {
        memmove(addr + 16 - (n - gap), addr + gap, n - gap);
        memset(addr + gap, 0, 16 - n);
    }
    return NULL;
}

/* Two to six bytes as groups of two digits between ':' or '-', or of four between '.'. Returns how
** many there are, 0 when the text is something else. */
static unsigned read_mac(text t, uint8_t addr[16])
{
    unsigned width = 0, n = 0;
    char mark = 0;
    while (width < (unsigned)(t.end - t.p) && digit(t.p[width]) >= 0)
        width++;
    if ((width != 2 && width != 4) || width == (unsigned)(t.end - t.p))
        return 0;
    mark = t.p[width];
    if (width == 2 ? mark != ':' && mark != '-' : mark != '.')
        return 0;
    do {
        unsigned value;
        if (n == 6 || text_hex(&t, width, &value) != width)
            return 0;
        if (width == 4)
            addr[n++] = (uint8_t)(value >> 8);
        addr[n++] = (uint8_t)value;
    } while (text_skip(&t, mark));
    return t.p == t.end && n * 2 > width ? n : 0;
}

/* Hexadecimal digits, behind the 0x. */
static const char *read_bits(text *t, uint8_t addr[16], unsigned *bits)
{
    unsigned value;
    for (*bits = 0; text_hex(t, 1, &value); *bits += 4) {
        if (*bits == 128)
            return "has more than 128 bits";
        addr[*bits / 8] |= (uint8_t)(*bits % 8 ? value : value << 4);
    }
    return NULL;
}

/* ---------------------------------------------------------------- parse */

/* Read an address into a prefix of all its bits; *bits: how many the text has given. */
static const char *address_parse(text *t, sdb_prefix *out, unsigned *bits)
{
    const char *wrong = NULL;
    if (t->end - t->p >= 2 && t->p[0] == '0' && (t->p[1] | 0x20) == 'x') {
        t->p += 2;
        out->family = SDB_BITS;
        wrong = read_bits(t, out->addr, bits);
    } else if ((*bits = read_mac(*t, out->addr) * 8) != 0) {
        t->p = t->end;
        out->family = SDB_MAC;
    } else if (memchr(t->p, ':', (size_t)(t->end - t->p))) {
        out->family = SDB_IPV6;
        *bits = 128;
        memset(out->addr, 0, sizeof out->addr);
        wrong = read_ipv6(t, out->addr);
    } else {
        out->family = SDB_IPV4;
        *bits = 32;
        memset(out->addr, 0, sizeof out->addr);
        wrong = read_ipv4(t, out->addr);
    }
    return wrong ? wrong : t->p < t->end ? NO_PREFIX : NULL;
}

static const char *length_parse(text *t, unsigned most, unsigned *bits)
{
    const char *wrong = text_number(t, bits);
    if (wrong)
        return wrong;
    if (t->p < t->end)
        return NO_PREFIX;
    return *bits > most ? "has a length above the bits of its address" : NULL;
}

/* An IPv6 prefix that lies in ::ffff:0:0/96 is an IPv4 prefix. */
static void unmap(sdb_prefix *p)
{
    static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff};
    if (p->family != SDB_IPV6 || p->bits < 96 || memcmp(p->addr, MAPPED, 12) != 0)
        return;
    p->family = SDB_IPV4;
    p->bits -= 96;
    memmove(p->addr, p->addr + 12, 4);
    memset(p->addr + 4, 0, 12);
}

/* A number of up to three digits at *at; 1000: there is none, or it has a leading zero. */
static inline unsigned plain_number(const char **at, const char *end)
{
    const char *p = *at;
    unsigned n, d;
    if (p == end || (n = (unsigned)*p++ - '0') > 9)
        return 1000;
    if (p < end && (d = (unsigned)*p - '0') <= 9) {
        if (n == 0)
            return 1000;
        n = n * 10 + d;
        if (++p < end && (d = (unsigned)*p - '0') <= 9) {
            n = n * 10 + d;
            p++;
        }
    }
    *at = p;
    return n;
}

/* What most prefixes are, in few instructions: IPv4. False: it is something else, or wrong. */
static bool parse_plain(const char *p, const char *end, sdb_prefix *out, unsigned *bits)
{
    for (int i = 0; i < 4; i++) {
        if (i && (p == end || *p++ != '.'))
            return false;
        unsigned n = plain_number(&p, end);
        if (n > 255)
            return false;
        out->addr[i] = (uint8_t)n;
    }
    out->bits = 32;
    *bits = 32;
    if (p < end && *p == '/') {
        p++;
        *bits = plain_number(&p, end);
    }
    return p == end && *bits <= 32;
}

/* Read an address, of all its bits, and the length it is given. */
static const char *parse(const char *string, size_t n, sdb_prefix *p, unsigned *bits)
{
    *p = (sdb_prefix){.family = SDB_IPV4};
    if (n == 0)
        return NO_PREFIX;
    if (parse_plain(string, string + n, p, bits))
        return NULL;
    *p = (sdb_prefix){0};
    const char *slash = memchr(string, '/', n);
    text address = {string, slash ? slash : string + n};
    text length = {slash ? slash + 1 : string + n, string + n};
    unsigned given;
    const char *wrong = address_parse(&address, p, &given);
    if (wrong)
        return wrong;
    unsigned most = p->family == SDB_BITS ? given : sdb_family_bits(p->family);
    p->bits = (uint8_t)most;
    *bits = most;
    if (slash)
        return length_parse(&length, given, bits);
    return given < most ? NO_LENGTH : NULL;
}

const char *sdb_prefix_parse(const char *string, size_t n, sdb_prefix *out)
{
    sdb_prefix p;
    unsigned bits;
    const char *wrong = parse(string, n, &p, &bits);
    if (wrong)
        return wrong;
    sdb_prefix_cut(&p, bits);
    unmap(&p);
    *out = p;
    return NULL;
}

const char *sdb_prefix_parse_address(const char *string, size_t n, sdb_prefix *out)
{
    sdb_prefix p;
    unsigned bits;
    const char *wrong = parse(string, n, &p, &bits);
    if (wrong)
        return wrong;
    unmap(&p);
    *out = p;
    return NULL;
}

const char *sdb_prefix_from(const sdb_value *value, sdb_prefix *out)
{
    if (value->type == SDB_TEXT)
        return sdb_prefix_parse(value->u.p, value->n, out);
    if (value->type != SDB_BLOB)
        return NO_PREFIX;
    if (value->n > sizeof out->addr)
        return "has more than 128 bits";
    *out = (sdb_prefix){.family = SDB_BITS, .bits = (uint8_t)(value->n * 8)};
    if (value->n)
        memcpy(out->addr, value->u.p, value->n);
    return NULL;
}

/* ---------------------------------------------------------------- print */

static const char HEX[] = "0123456789abcdef";

static char *write_number(char *to, unsigned n)
{
    if (n >= 100)
        *to++ = HEX[n / 100];
    if (n >= 10)
        *to++ = HEX[n / 10 % 10];
    *to++ = HEX[n % 10];
    return to;
}

static char *write_byte(char *to, uint8_t byte)
{
    *to++ = HEX[byte >> 4];
    *to++ = HEX[byte & 15];
    return to;
}

static char *write_ipv4(char *to, const uint8_t *addr)
{
    for (int i = 0; i < 4; i++) {
        if (i)
            *to++ = '.';
        to = write_number(to, addr[i]);
    }
    return to;
}

static unsigned group_at(const uint8_t *addr, int i)
{
    return (unsigned)addr[2 * i] << 8 | addr[2 * i + 1];
}

/* RFC 5952: no leading zeros, small letters, "::" for the first of the longest runs of zero groups,
** but not for one group alone. */
static char *write_ipv6(char *to, const uint8_t *addr)
{
    int gap = 8, longest = 1;
    for (int i = 0, run = 0; i < 8; i++) {
        run = group_at(addr, i) ? 0 : run + 1;
        if (run > longest) {
            longest = run;
            gap = i + 1 - run;
        }
    }
    for (int i = 0; i < 8; i++) {
        if (i == gap) {
            *to++ = ':';
            i += longest - 1;
            if (i == 7)
                *to++ = ':';
            continue;
        }
        if (i)
            *to++ = ':';
        unsigned group = group_at(addr, i);
        for (int shift = 12; shift >= 0; shift -= 4)
            if (group >> shift || shift == 0)
                *to++ = HEX[group >> shift & 15];
    }
    return to;
}

/* As many bytes as the prefix reaches into, two at least, or they would not be read as a MAC. */
static char *write_mac(char *to, const uint8_t *addr, unsigned bits)
{
    for (unsigned i = 0; i < 2 || i * 8 < bits; i++) {
        if (i)
            *to++ = ':';
        to = write_byte(to, addr[i]);
    }
    return to;
}

static char *write_bits(char *to, const uint8_t *addr, unsigned bits)
{
    *to++ = '0';
    *to++ = 'x';
    for (unsigned i = 0; i * 8 < bits; i++)
        to = write_byte(to, addr[i]);
    return bits % 8 && bits % 8 <= 4 ? to - 1 : to;
}

size_t sdb_prefix_print(const sdb_prefix *p, char out[SDB_PREFIX_TEXT])
{
    char *to;
    switch (p->family) {
    case SDB_IPV4:
        to = write_ipv4(out, p->addr);
        break;
    case SDB_IPV6:
        to = write_ipv6(out, p->addr);
        break;
    case SDB_MAC:
        to = write_mac(out, p->addr, p->bits);
        break;
    default:
        assert(p->family == SDB_BITS);
        to = write_bits(out, p->addr, p->bits);
        break;
    }
    if (p->family == SDB_BITS || p->bits < sdb_family_bits(p->family)) {
        *to++ = '/';
        to = write_number(to, p->bits);
    }
    *to = 0;
    return (size_t)(to - out);
}
