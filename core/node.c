/* node.c - changing and walking the six node kinds (see node.h for their layout). */
#include "node.h"

#include <assert.h>

static_assert(sizeof(sdb_n3) == 32, "N3");
static_assert(sizeof(sdb_n8) == 64, "N8");
static_assert(sizeof(sdb_n16) == 112, "N16");
static_assert(sizeof(sdb_nbits) == 64, "header and bitmap of N64, N128, N256 are one cache line");

const uint16_t sdb_node_size[SDB_NODE_KINDS] = {32, 64, 112, 320, 576, 1088};
const uint16_t sdb_node_room[SDB_NODE_KINDS] = {3, 8, 16, 64, 128, 256};

/* The packed key and child arrays of the three small kinds. */
typedef struct small {
    uint8_t *key;
    sdb_link *child;
} small;

static small small_of(const sdb_node *n)
{
    switch (sdb_node_kind(n)) {
    case SDB_N3:
        return (small){((sdb_n3 *)n)->key, ((sdb_n3 *)n)->child};
    case SDB_N8:
        return (small){((sdb_n8 *)n)->key, ((sdb_n8 *)n)->child};
    default:
        assert(sdb_node_kind(n) == SDB_N16);
        return (small){((sdb_n16 *)n)->key, ((sdb_n16 *)n)->child};
    }
}

static bool is_small(const sdb_node *n)
{
    return sdb_node_kind(n) <= SDB_N16;
}

static void set_children(sdb_node *n, unsigned children)
{
    n->head = (n->head & ~(uint64_t)0xff00) | (uint64_t)(children - 1) << 8;
}

/* ---------------------------------------------------------------- positions */

/* First set bit at or after `byte`, or -1. */
static int bits_next(const uint64_t *bitmap, unsigned byte)
{
    for (unsigned w = byte >> 6; byte < 256; byte = ++w << 6) {
        uint64_t bits = bitmap[w] & (~(uint64_t)0 << (byte & 63));
        if (bits)
            return (int)(w * 64 + (unsigned)__builtin_ctzll(bits));
    }
    return -1;
}

/* Last set bit at or before `byte`, or -1. */
static int bits_prev(const uint64_t *bitmap, int byte)
{
    for (int w = byte >> 6; w >= 0; byte = --w * 64 + 63) {
        uint64_t bits = bitmap[w] & (~(uint64_t)0 >> (63 - (byte & 63)));
        if (bits)
            return w * 64 + 63 - __builtin_clzll(bits);
    }
    return -1;
}

int sdb_node_lower_bound(const sdb_node *n, uint8_t byte, bool *hit)
{
    int children = (int)sdb_node_children(n);
    if (is_small(n)) {
        small s = small_of(n);
        int i = 0;
        while (i < children && s.key[i] < byte)
            i++;
        *hit = i < children && s.key[i] == byte;
        return i < children ? i : SDB_POS_NONE;
    }
    const sdb_nbits *p = (const sdb_nbits *)n;
    *hit = p->bitmap[byte >> 6] >> (byte & 63) & 1;
    if (sdb_node_kind(n) == SDB_N256) {
        int next = bits_next(p->bitmap, byte);
        return next < 0 ? SDB_POS_NONE : next;
    }
    int rank = (int)sdb_nbits_rank(p, byte);
    return rank < children ? rank : SDB_POS_NONE;
}

int sdb_node_last(const sdb_node *n)
{
    return sdb_node_kind(n) == SDB_N256 ? bits_prev(((const sdb_nbits *)n)->bitmap, 255)
                                        : (int)sdb_node_children(n) - 1;
}

int sdb_n256_next(const sdb_node *n, int pos)
{
    int next = bits_next(((const sdb_nbits *)n)->bitmap, (unsigned)(pos + 1));
    return next < 0 ? SDB_POS_NONE : next;
}

int sdb_n256_prev(const sdb_node *n, int pos)
{
    int prev = pos > 0 ? bits_prev(((const sdb_nbits *)n)->bitmap, pos - 1) : -1;
    return prev < 0 ? SDB_POS_NONE : prev;
}

uint8_t sdb_node_byte(const sdb_node *n, int pos)
{
    assert(pos >= 0);
    if (is_small(n))
        return small_of(n).key[pos];
    if (sdb_node_kind(n) == SDB_N256)
        return (uint8_t)pos;
    const sdb_nbits *p = (const sdb_nbits *)n;
    int byte = bits_next(p->bitmap, 0);
    while (pos--)
        byte = bits_next(p->bitmap, (unsigned)byte + 1);
    return (uint8_t)byte;
}

/* ---------------------------------------------------------------- changes */

void sdb_node_init(sdb_node *n, sdb_kind kind, uint64_t stamp, const uint8_t *prefix, uint32_t len)
{
    memset(n, 0, kind == SDB_N64 || kind == SDB_N128 ? sizeof(sdb_nbits) : sdb_node_size[kind]);
    n->head = (uint64_t)kind | stamp << 16;
    sdb_node_set_prefix(n, prefix, len);
}

void sdb_node_set_prefix(sdb_node *n, const uint8_t *prefix, uint32_t len)
{
    bool is_n3 = sdb_node_kind(n) == SDB_N3;
    bool is_long = len > (is_n3 ? 1 : SDB_PREFIX_MAX) || (len > 0 && !prefix);
    uint8_t *at = is_n3 ? ((sdb_n3 *)n)->prefix : ((sdb_n8 *)n)->prefix;
    assert(!is_n3 || len <= 255);
    n->head = (n->head & ~(uint64_t)0xf0) | (uint64_t)(is_long ? SDB_PREFIX_LONG : len) << 4;
    if (is_long && is_n3)
        *at = (uint8_t)len;
    else if (is_long)
        memcpy(at, &len, sizeof len);
    else if (len)
        memmove(at, prefix, len);
}

sdb_kind sdb_node_fit(unsigned children, uint32_t prefix_len)
{
    sdb_kind kind = prefix_len > 255 ? SDB_N8 : SDB_N3;
    while (sdb_node_room[kind] < children)
        kind++;
    return kind;
}

void sdb_node_add(sdb_node *n, uint8_t byte, sdb_link child, bool first)
{
    unsigned children = first ? 0 : sdb_node_children(n);
    assert(children < sdb_node_room[sdb_node_kind(n)] && child);
    set_children(n, children + 1);
    if (is_small(n)) {
        small s = small_of(n);
        unsigned i = children;
        for (; i > 0 && s.key[i - 1] > byte; i--) {
            s.key[i] = s.key[i - 1];
            s.child[i] = s.child[i - 1];
        }
        s.key[i] = byte;
        s.child[i] = child;
        return;
    }
    sdb_nbits *p = (sdb_nbits *)n;
    unsigned w = byte >> 6, at = byte;
    if (sdb_node_kind(n) != SDB_N256) {
        at = sdb_nbits_rank(p, byte);
        if (at < children)
            memmove(p->child + at + 1, p->child + at, (children - at) * sizeof(sdb_link));
    }
    p->child[at] = child;
    p->bitmap[w] |= (uint64_t)1 << (byte & 63);
    while (++w < 4)
        p->rank[w]++;
}

void sdb_node_remove(sdb_node *n, uint8_t byte)
{
    unsigned children = sdb_node_children(n);
    assert(children > 1);
    set_children(n, children - 1);
    if (is_small(n)) {
        small s = small_of(n);
        unsigned i = 0;
        while (s.key[i] != byte)
            i++;
        memmove(s.key + i, s.key + i + 1, children - 1 - i);
        memmove(s.child + i, s.child + i + 1, (children - 1 - i) * sizeof(sdb_link));
        s.key[children - 1] = 0;
        s.child[children - 1] = 0;
        return;
    }
    sdb_nbits *p = (sdb_nbits *)n;
    unsigned w = byte >> 6;
    if (sdb_node_kind(n) == SDB_N256) {
        p->child[byte] = 0;
    } else {
        unsigned at = sdb_nbits_rank(p, byte);
        memmove(p->child + at, p->child + at + 1, (children - 1 - at) * sizeof(sdb_link));
    }
    p->bitmap[w] &= ~((uint64_t)1 << (byte & 63));
    while (++w < 4)
        p->rank[w]--;
}

void sdb_node_copy(sdb_node *to, const sdb_node *from)
{
    sdb_kind kind = sdb_node_kind(from);
    /* Beyond its children an N64 or N128 has nothing to copy. */
    memcpy(to, from, kind == SDB_N64 || kind == SDB_N128
                         ? sizeof(sdb_nbits) + sdb_node_children(from) * sizeof(sdb_link)
                         : sdb_node_size[kind]);
}

/* Child number i of a node under construction, behind those before it. */
static inline void append(sdb_node *n, unsigned i, unsigned byte, sdb_link child)
{
    if (is_small(n)) {
        small s = small_of(n);
        s.key[i] = (uint8_t)byte;
        s.child[i] = child;
        return;
    }
    sdb_nbits *p = (sdb_nbits *)n;
    p->child[sdb_node_kind(n) == SDB_N256 ? byte : i] = child;
    p->bitmap[byte >> 6] |= (uint64_t)1 << (byte & 63);
}

void sdb_node_convert(sdb_node *to, sdb_kind kind, const sdb_node *from)
{
    unsigned children = sdb_node_children(from), i = 0;
    assert(children <= sdb_node_room[kind]);
    sdb_node_init(to, kind, sdb_node_stamp(from),
                  sdb_node_is_long(from) ? NULL : sdb_node_prefix(from), sdb_node_prefix_len(from));
    to->leaf = from->leaf;
    to->count = from->count;
    set_children(to, children);
    if (is_small(from)) {
        small s = small_of(from);
        for (; i < children; i++)
            append(to, i, s.key[i], s.child[i]);
    } else {
        const sdb_nbits *p = (const sdb_nbits *)from;
        bool is_n256 = sdb_node_kind(from) == SDB_N256;
        for (unsigned w = 0; w < 4; w++) {
            for (uint64_t bits = p->bitmap[w]; bits; bits &= bits - 1, i++) {
                unsigned byte = w * 64 + (unsigned)__builtin_ctzll(bits);
                append(to, i, byte, p->child[is_n256 ? byte : i]);
            }
        }
    }
    if (!is_small(to)) {
        sdb_nbits *p = (sdb_nbits *)to;
        for (unsigned w = 1; w < 4; w++)
            p->rank[w] = (uint8_t)(p->rank[w - 1] + __builtin_popcountll(p->bitmap[w - 1]));
    }
}

sdb_kind sdb_node_shrunk(const sdb_node *n)
{
    sdb_kind kind = sdb_node_kind(n);
    if (kind == SDB_N3 || sdb_node_children(n) > sdb_node_room[kind - 1] * 3u / 4)
        return kind;
    return kind == SDB_N8 && sdb_node_prefix_len(n) > 255 ? kind : kind - 1;
}

sdb_link sdb_node_take_apart(sdb_node *n)
{
    if (sdb_node_kind(n) == SDB_N256) {
        sdb_nbits *p = (sdb_nbits *)n;
        int byte = bits_prev(p->bitmap, 255);
        if (byte < 0)
            return 0;
        p->bitmap[byte >> 6] &= ~((uint64_t)1 << (byte & 63));
        return p->child[byte];
    }
    sdb_link *child = is_small(n) ? small_of(n).child : ((sdb_nbits *)n)->child;
    unsigned last = sdb_node_children(n) - 1;
    sdb_link link = child[last];
    child[last] = 0;
    if (last > 0)
        set_children(n, last);
    return link;
}

/* ---------------------------------------------------------------- check */

const char *sdb_node_check(const sdb_node *n)
{
    sdb_kind kind = sdb_node_kind(n);
    if (kind >= SDB_NODE_KINDS)
        return "a node is of no kind";
    unsigned children = sdb_node_children(n);
    if (children > sdb_node_room[kind])
        return "a node has more children than room";
    if (children + (n->leaf != 0) < 2)
        return "a node has fewer than two entries";
    if (!sdb_node_is_long(n) && sdb_node_prefix_len(n) > (kind == SDB_N3 ? 1 : SDB_PREFIX_MAX))
        return "a node's prefix is longer than its room";
    if (is_small(n)) {
        small s = small_of(n);
        for (unsigned i = 0; i < sdb_node_room[kind]; i++) {
            if (i < children && (!s.child[i] || (i && s.key[i - 1] >= s.key[i])))
                return "a small node's children are out of order";
            if (i >= children && (s.child[i] || s.key[i]))
                return "a small node's unused slot is not zero";
        }
        return NULL;
    }
    const sdb_nbits *p = (const sdb_nbits *)n;
    unsigned bits = 0;
    for (unsigned w = 0; w < 4; w++) {
        if (p->rank[w] != (uint8_t)bits)
            return "a node's ranks do not fit its bitmap";
        bits += (unsigned)__builtin_popcountll(p->bitmap[w]);
    }
    if (bits != children)
        return "a node's bitmap does not fit its count of children";
    for (unsigned i = 0; i < sdb_node_room[kind]; i++) {
        bool is_used = kind == SDB_N256 ? p->bitmap[i >> 6] >> (i & 63) & 1 : i < children;
        if (is_used && !p->child[i])
            return "a node's child is missing";
        if (!is_used && kind == SDB_N256 && p->child[i])
            return "a node has a child that its bitmap does not know";
    }
    return NULL;
}
