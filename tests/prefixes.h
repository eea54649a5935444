/* prefixes.h - a routing table for tests and benchmarks: the real one of STATEDB_DATA, or of the place
** where it lies beside the checkout, or one that is made.
**
** The real one is bgp-prefixes.txt.gz, a million prefixes of the Internet in text, one a line. The one
** made has as many of each length, in proportion, within blocks as they are given to networks; it is the
** same in every run. */
#ifndef STATEDB_PREFIXES_H
#define STATEDB_PREFIXES_H

#include "../core/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIXES_REAL = 1062046 };

/* clang-format off */
static const uint32_t prefixes_v4[33] = {
    [8] = 16, 13, 38, 103, 299, 581, 1203, 2100,
    [16] = 13490, 8235, 13798, 24870, 42611, 50750, 108623, 96510,
    [24] = 537698, 20, 3, 11, 18, 17, 3, 3, 886,
};
static const uint32_t prefixes_v6[129] = {
    [16] = 1, [19] = 1, 16, 3, 7, 8, 30, 8, 15, 20, 193, 4371, 650, 284,
    [32] = 22548, 2926, 2603, 1043, 5996, 880, 1617, 1377, 13418, 903, 2301, 1001, 14365, 1553, 3039, 3153,
    [48] = 75488, 11, 3, [52] = 1, [55] = 1, 24, [58] = 20, [60] = 2, [64] = 184,
    [112] = 2, [122] = 1, [124] = 4, 9, 19, 42, 6,
};
/* clang-format on */

/* splitmix64 (Steele, Lea and Flood 2014) */
static inline uint64_t prefixes_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A prefix of that length: the first 16 bits of IPv4 and 32 of IPv6 are those of a block. */
static inline sdb_prefix prefixes_one(sdb_family family, unsigned bits, uint64_t blocks,
                                      uint64_t seed)
{
    bool is_v4 = family == SDB_IPV4;
    sdb_prefix p = {.family = (uint8_t)family, .bits = (uint8_t)sdb_family_bits(family)};
    uint64_t block = prefixes_mix(prefixes_mix(seed) % blocks + family);
    uint64_t first = prefixes_mix(seed + 1), second = prefixes_mix(seed + 2);

    for (unsigned i = 0; i < 8; i++) {
        p.addr[i] = (uint8_t)((i < (is_v4 ? 2 : 4) ? block : first) >> 8 * i);
        p.addr[i + 8] = (uint8_t)(is_v4 ? 0 : second >> 8 * i);
    }
    if (is_v4)
        memset(p.addr + 4, 0, 4);
    p.addr[0] = (uint8_t)(is_v4 ? 1 + p.addr[0] % 223 : 0x20 | (p.addr[0] & 0x1f));
    sdb_prefix_cut(&p, bits);
    return p;
}

static inline int prefixes_compare(const void *a, const void *b)
{
    return sdb_prefix_compare(a, b);
}

static inline size_t prefixes_sort(sdb_prefix *at, size_t n)
{
    size_t kept = 0;

    qsort(at, n, sizeof *at, prefixes_compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || sdb_prefix_compare(&at[kept - 1], &at[i]) != 0)
            at[kept++] = at[i];
    return kept;
}

static inline sdb_prefix *prefixes_made(size_t wanted, size_t *n)
{
    sdb_prefix *at = malloc((wanted + 256) * sizeof *at);
    uint64_t seed = 0;

    *n = 0;
    for (int family = SDB_IPV4; family <= SDB_IPV6; family++) {
        for (unsigned bits = 0; bits <= sdb_family_bits((sdb_family)family); bits++) {
            size_t real = family == SDB_IPV4 ? prefixes_v4[bits] : prefixes_v6[bits];
            size_t count = (real * wanted + PREFIXES_REAL - 1) / PREFIXES_REAL;
            for (size_t i = 0; i < count; i++, seed += 4)
                at[(*n)++] = prefixes_one((sdb_family)family, bits, wanted / 40 + 1, seed);
        }
    }
    *n = prefixes_sort(at, *n);
    return at;
}

/* In order, each once; to be freed. Of the real ones, all. */
static inline sdb_prefix *prefixes_get(size_t wanted, size_t *n)
{
    const char *dir = getenv("STATEDB_DATA");
    char command[1024], line[128];
    sdb_prefix *at = NULL;

    snprintf(command, sizeof command, "gzip -dc '%s/bgp-prefixes.txt.gz' 2>/dev/null",
             dir ? dir : "../shared/data");
    FILE *file = popen(command, "r");
    *n = 0;
    while (file && fgets(line, sizeof line, file)) {
        if ((*n & (*n - 1)) == 0)
            at = realloc(at, (*n ? *n * 2 : 1) * sizeof *at);
        line[strcspn(line, "\r\n")] = 0;
        if (sdb_prefix_parse(line, strlen(line), &at[*n]) != NULL) {
            fprintf(stderr, "bgp-prefixes.txt.gz: %s is no prefix\n", line);
            exit(1);
        }
        ++*n;
    }
    if (file)
        pclose(file);
    if (*n == 0)
        return prefixes_made(wanted, n);
    *n = prefixes_sort(at, *n);
    return at;
}

#endif
