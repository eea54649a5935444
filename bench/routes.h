/* routes.h - a routing table of the Internet for the benchmarks: one prefix a line, read from the file
** that ROUTES in the environment names (1,062,046 of them are used); without it, made up.
**
** What is made up has as many prefixes of each length as a real table of 2025 had, 901,899 of IPv4 and
** 160,147 of IPv6, in as many /16 and /32 blocks, crowded in some and thin in most; in a tree they take
** as much memory as the real ones, within a tenth. */
#ifndef ROUTES_H
#define ROUTES_H

#include "bench.h"

#include "../core/prefix.h"

#include <string.h>

enum { ROUTES_N = 1062046 };

typedef struct routes {
    sdb_prefix *at;
    size_t n;
} routes;

/* ---------------------------------------------------------------- made up */

typedef struct routes_of {
    unsigned bits;
    int n;
} routes_of;

static const routes_of ROUTES_IPV4[] = {
    {8, 16},      {9, 13},      {10, 38},     {11, 103},    {12, 299},    {13, 581},   {14, 1203},
    {15, 2100},   {16, 13490},  {17, 8235},   {18, 13798},  {19, 24870},  {20, 42611}, {21, 50750},
    {22, 108623}, {23, 96510},  {24, 537698}, {25, 20},     {26, 3},      {27, 11},    {28, 18},
    {29, 17},     {30, 3},      {31, 3},      {32, 886},    {0, 0}};
static const routes_of ROUTES_IPV6[] = {
    {16, 1},    {19, 1},    {20, 16},   {21, 3},     {22, 7},    {23, 8},     {24, 30},
    {25, 8},    {26, 15},   {27, 20},   {28, 193},   {29, 4371}, {30, 650},   {31, 284},
    {32, 22548}, {33, 2926}, {34, 2603}, {35, 1043},  {36, 5996}, {37, 880},   {38, 1617},
    {39, 1377}, {40, 13418}, {41, 903}, {42, 2301},  {43, 1001}, {44, 14365}, {45, 1553},
    {46, 3039}, {47, 3153}, {48, 75488}, {49, 11},    {50, 3},    {52, 1},     {55, 1},
    {56, 24},   {58, 20},   {60, 2},    {64, 184},   {112, 2},   {122, 1},    {124, 4},
    {125, 9},   {126, 19},  {127, 42},  {128, 6},    {0, 0}};

enum { ROUTES_SEEN = 1 << 22 };

static inline uint64_t routes_mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

/* One of n blocks: the first ones often, most of them seldom. */
static inline uint64_t routes_block(uint64_t n)
{
    double u = (double)(rnd() >> 11) * 0x1p-53;
    return (uint64_t)((double)n * u * u);
}

static inline void routes_draw(sdb_prefix *p, sdb_family family, unsigned bits)
{
    uint64_t high, block;
    if (family == SDB_IPV4) { /* /20 in /16 in /8 */
        block = routes_block(120000);
        high = (routes_mix(block % 33000) % 220 + 1) << 56 |
               (routes_mix(block % 33000) >> 16 & 0xff) << 48 | (routes_mix(block) & 15) << 44 |
               (rnd() >> 52) << 32;
    } else { /* of 2000::/3: /44 in /32 in /24 in /16 */
        block = routes_block(30000);
        high = (0x2000 + routes_mix(block % 60) % 0x1000) << 48 |
               (routes_mix(block % 7200) & 0xff) << 40 | (routes_mix(block % 29000) & 0xff) << 32 |
               (routes_mix(block) & 0xfff) << 20 | (rnd() & 0xfffff);
    }
    *p = (sdb_prefix){.family = (uint8_t)family, .bits = (uint8_t)sdb_family_bits(family)};
    for (unsigned i = 0; i < 8u && (family == SDB_IPV6 || i < 4); i++)
        p->addr[i] = (uint8_t)(high >> (56 - 8 * i));
    for (unsigned i = 8; i < 16 && family == SDB_IPV6; i++)
        p->addr[i] = (uint8_t)rnd();
    sdb_prefix_cut(p, bits);
}

/* Whether a prefix has been drawn before; if not, it has now. */
static inline bool routes_is_seen(uint32_t *seen, const routes *r, const sdb_prefix *p)
{
    uint64_t at = 0;
    for (unsigned i = 0; i < 16; i++)
        at = routes_mix(at + p->addr[i]);
    for (at = routes_mix(at + p->bits) % ROUTES_SEEN; seen[at]; at = (at + 1) % ROUTES_SEEN)
        if (sdb_prefix_compare(&r->at[seen[at] - 1], p) == 0)
            return true;
    seen[at] = (uint32_t)r->n + 1;
    return false;
}

static inline routes routes_made(void)
{
    routes r = {malloc(ROUTES_N * sizeof *r.at), 0};
    uint32_t *seen = calloc(ROUTES_SEEN, sizeof *seen);
    MUST(r.at && seen ? 0 : SDB_NOMEM);
    for (int family = SDB_IPV4; family <= SDB_IPV6; family++) {
        for (const routes_of *of = family == SDB_IPV4 ? ROUTES_IPV4 : ROUTES_IPV6; of->n; of++) {
            for (int i = 0; i < of->n;) {
                routes_draw(&r.at[r.n], (sdb_family)family, of->bits);
                if (routes_is_seen(seen, &r, &r.at[r.n]))
                    continue;
                r.n++;
                i++;
            }
        }
    }
    free(seen);
    return r;
}

/* ---------------------------------------------------------------- read */

static inline routes routes_read(const char *path)
{
    routes r = {NULL, 0};
    char line[128];
    FILE *file = fopen(path, "r");
    MUST(file ? 0 : SDB_DONE);
    while (fgets(line, sizeof line, file)) {
        if ((r.n & (r.n - 1)) == 0)
            r.at = realloc(r.at, (r.n ? r.n * 2 : 1) * sizeof *r.at);
        MUST(r.at ? 0 : SDB_NOMEM);
        MUST(sdb_prefix_parse(line, strcspn(line, "\r\n"), &r.at[r.n++]) ? SDB_NOTPREFIX : SDB_OK);
    }
    fclose(file);
    MUST(r.n >= ROUTES_N ? SDB_OK : SDB_DONE);
    r.n = ROUTES_N;
    return r;
}

/* In random order. */
static inline routes routes_load(void)
{
    const char *path = getenv("ROUTES");
    routes r = path ? routes_read(path) : routes_made();
    for (size_t i = r.n - 1; i > 0; i--) {
        size_t j = rnd() % (i + 1);
        sdb_prefix p = r.at[i];
        r.at[i] = r.at[j];
        r.at[j] = p;
    }
    return r;
}

/* An address that a prefix covers. */
static inline sdb_prefix routes_address(const sdb_prefix *p)
{
    sdb_prefix a = *p;
    a.bits = (uint8_t)sdb_family_bits((sdb_family)p->family);
    for (unsigned bit = p->bits; bit < a.bits; bit++)
        a.addr[bit / 8] |= (uint8_t)((rnd() >> 40 & 1) << (7 - bit % 8));
    return a;
}

#endif
