/* node.h - the six kinds of inner node of the radix tree, with the same verbs for each.
**
**   header  0  u64  kind:4 | prefix length:4 | children-1:8 | stamp:48
**           8  u32  link to the leaf whose key ends at this node, or 0
**          12  u32  count of leaves at and below this node
**
**   N3      32 B   16 key[3]     19 prefix[1]                            20 child[3]
**   N8      64 B   16 prefix[8]  24 key[8]                               32 child[8]
**   N16    112 B   16 prefix[8]  24 -         32 key[16]                 48 child[16]
**   N64    320 B   16 prefix[8]  24 rank[4]   28 -  32 bitmap[4]         64 child[64]
**   N128   576 B   as N64, child[128]
**   N256  1088 B   as N64, child[256] indexed by the byte itself; its bitmap serves iteration
**
** Children are packed in order of their byte; in N64 and N128 a child's place is its rank in the
** bitmap, rank[w] being the number of bits before word w. Unused key and child slots of N3, N8 and
** N16 are zero, so a search needs no count and no branch: a wrong hit on an unused slot reads
** child 0, which means none. 32-byte, 64-byte and larger-than-64-byte nodes do not straddle a
** cache line they need not: header and bitmap are the first line, an N8 is one line.
**
** The prefix is what all keys below have in common behind the parent's byte. Up to 8 bytes of it
** (N3: 1) are stored in the node; of a LONG prefix only the length is (4 bytes in the prefix's place,
** N3: 1), since any leaf below knows the bytes. So a node always has two entries or more, however
** long the keys, and the many nodes of two or three entries are small.
** A node is demoted at three quarters of the smaller kind's room, so that a key that comes and
** goes at the edge does not rebuild the node each time.
**
** The stamp says which state of which transaction made the node: that state edits it in place,
** every other one clones it. Leis, Kemper, Neumann: The Adaptive Radix Tree, ICDE 2013; measured
** figures behind this layout are in core/README.md. */
#ifndef SDB_NODE_H
#define SDB_NODE_H

#include "arena.h"

#include <string.h>

/* SDB_SCALAR: as on a machine that has neither; "make frozen" is built so, and tests it. */
#if defined(SDB_SCALAR)
#elif defined(__SSE2__)
#define SDB_SSE2
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#define SDB_NEON
#include <arm_neon.h>
#endif

typedef enum { SDB_N3, SDB_N8, SDB_N16, SDB_N64, SDB_N128, SDB_N256, SDB_NODE_KINDS } sdb_kind;

enum { SDB_PREFIX_MAX = 8, SDB_PREFIX_LONG = 15 /* in the header's place for the length */,
       SDB_NODE_MAX = 1088 };

#define SDB_STAMP_MAX (((uint64_t)1 << 48) - 1)

typedef struct sdb_node {
    uint64_t head;
    sdb_link leaf;
    uint32_t count;
} sdb_node;

typedef struct sdb_n3 {
    sdb_node node;
    uint8_t key[3];
    uint8_t prefix[1];
    sdb_link child[3];
} sdb_n3;

typedef struct sdb_n8 {
    sdb_node node;
    uint8_t prefix[8];
    uint8_t key[8];
    sdb_link child[8];
} sdb_n8;

typedef struct sdb_n16 {
    sdb_node node;
    uint8_t prefix[8];
    uint8_t unused[8];
    uint8_t key[16];
    sdb_link child[16];
} sdb_n16;

typedef struct sdb_nbits { /* N64, N128, N256 */
    sdb_node node;
    uint8_t prefix[8];
    uint8_t rank[4];
    uint8_t unused[4];
    uint64_t bitmap[4];
    sdb_link child[];
} sdb_nbits;

extern const uint16_t sdb_node_size[SDB_NODE_KINDS];
extern const uint16_t sdb_node_room[SDB_NODE_KINDS]; /* children it can hold */

static inline sdb_kind sdb_node_kind(const sdb_node *n)
{
    return (sdb_kind)(n->head & 15);
}

static inline bool sdb_node_is_long(const sdb_node *n)
{
    return (n->head >> 4 & 15) == SDB_PREFIX_LONG;
}

static inline uint32_t sdb_node_prefix_len(const sdb_node *n)
{
    uint32_t len = (uint32_t)(n->head >> 4 & 15);
    if (__builtin_expect(len < SDB_PREFIX_LONG, 1))
        return len;
    if (sdb_node_kind(n) == SDB_N3)
        return ((const sdb_n3 *)n)->prefix[0];
    memcpy(&len, ((const sdb_n8 *)n)->prefix, sizeof len);
    return len;
}

static inline unsigned sdb_node_children(const sdb_node *n)
{
    return (unsigned)(n->head >> 8 & 255) + 1;
}

static inline uint64_t sdb_node_stamp(const sdb_node *n)
{
    return n->head >> 16;
}

static inline void sdb_node_set_stamp(sdb_node *n, uint64_t stamp)
{
    n->head = (n->head & 0xffff) | stamp << 16;
}

static inline const uint8_t *sdb_node_prefix(const sdb_node *n)
{
    return sdb_node_kind(n) == SDB_N3 ? ((const sdb_n3 *)n)->prefix : ((const sdb_n8 *)n)->prefix;
}

/* Bit i set: key[i] == byte, for 16 keys. */
static inline unsigned sdb_match16(const uint8_t *key, uint8_t byte)
{
#if defined(SDB_SSE2)
    __m128i eq = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)key),
                                _mm_set1_epi8((char)byte));
    return (unsigned)_mm_movemask_epi8(eq);
#elif defined(SDB_NEON)
    static const uint8_t BIT[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t eq = vandq_u8(vceqq_u8(vld1q_u8(key), vdupq_n_u8(byte)), vld1q_u8(BIT));
    return (unsigned)vaddv_u8(vget_low_u8(eq)) | (unsigned)vaddv_u8(vget_high_u8(eq)) << 8;
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; i++)
        bits |= (unsigned)(key[i] == byte) << i;
    return bits;
#endif
}

/* Place of the first of 8 keys that equals byte, or 8. Exact: a borrow can only spoil bytes above
** the first hit. */
static inline unsigned sdb_match8(const uint8_t *key, uint8_t byte)
{
    /* One load where the machine is little-endian; a loop would not become one. */
    uint64_t x = (uint64_t)key[0] | (uint64_t)key[1] << 8 | (uint64_t)key[2] << 16 |
                 (uint64_t)key[3] << 24 | (uint64_t)key[4] << 32 | (uint64_t)key[5] << 40 |
                 (uint64_t)key[6] << 48 | (uint64_t)key[7] << 56;
    x ^= 0x0101010101010101u * byte;
    x = (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;
    return x ? (unsigned)__builtin_ctzll(x) / 8 : 8;
}

static inline unsigned sdb_nbits_rank(const sdb_nbits *n, uint8_t byte)
{
    unsigned w = byte >> 6;
    return n->rank[w] + (unsigned)__builtin_popcountll(n->bitmap[w] &
                                                       (((uint64_t)1 << (byte & 63)) - 1));
}

/* Where the child under `byte` is linked, or NULL; an empty slot (link 0) also means none. The
** tree's hottest lines. */
static inline sdb_link *sdb_node_slot(sdb_node *n, uint8_t byte)
{
    switch (sdb_node_kind(n)) {
    case SDB_N3: {
        sdb_n3 *p = (sdb_n3 *)n;
        if (p->key[0] == byte)
            return &p->child[0];
        if (p->key[1] == byte)
            return &p->child[1];
        return p->key[2] == byte ? &p->child[2] : NULL;
    }
    case SDB_N8: {
        sdb_n8 *p = (sdb_n8 *)n;
        unsigned i = sdb_match8(p->key, byte);
        return i < 8 ? &p->child[i] : NULL;
    }
    case SDB_N16: {
        sdb_n16 *p = (sdb_n16 *)n;
        unsigned bits = sdb_match16(p->key, byte);
        return bits ? &p->child[__builtin_ctz(bits)] : NULL;
    }
    case SDB_N64:
    case SDB_N128: {
        sdb_nbits *p = (sdb_nbits *)n;
        return p->bitmap[byte >> 6] >> (byte & 63) & 1 ? &p->child[sdb_nbits_rank(p, byte)] : NULL;
    }
    default:
        return &((sdb_nbits *)n)->child[byte];
    }
}

/* Bring near where the child's link may be, while the header comes: among many rows both are far, and
** only the header tells the kind and the place. In an N16 or N64 that is one of the two lines behind
** it most often, in an N256 it is known. Where it is elsewhere this is in vain. */
static inline void sdb_node_expect(const sdb_node *n, uint8_t byte)
{
    __builtin_prefetch((const uint8_t *)n + 64);
    __builtin_prefetch((const uint8_t *)n + 128);
    __builtin_prefetch(&((const sdb_nbits *)n)->child[byte]);
}

/* The child under `byte`, or 0. */
static inline sdb_link sdb_node_find(const sdb_node *n, uint8_t byte)
{
    const sdb_link *slot = sdb_node_slot((sdb_node *)(uintptr_t)n, byte);
    return slot ? *slot : 0;
}

/* A position in a node: the place of a child (N256: its byte); SDB_POS_LEAF, the node's own leaf,
** stands before all children; SDB_POS_NONE, no such position. */
enum { SDB_POS_LEAF = -1, SDB_POS_NONE = -2 };

/* The first position whose byte is >= byte, or SDB_POS_NONE; *hit: it is equal. */
int sdb_node_lower_bound(const sdb_node *n, uint8_t byte, bool *hit);
int sdb_node_last(const sdb_node *n);
uint8_t sdb_node_byte(const sdb_node *n, int pos); /* of a child's position; slow in N64, N128 */

/* The neighbours of a position in an N256. */
int sdb_n256_next(const sdb_node *n, int pos);
int sdb_n256_prev(const sdb_node *n, int pos);

/* SDB_POS_LEAF gives the first child. */
static inline int sdb_node_next(const sdb_node *n, int pos)
{
    if (sdb_node_kind(n) == SDB_N256)
        return sdb_n256_next(n, pos);
    return pos + 1 < (int)sdb_node_children(n) ? pos + 1 : SDB_POS_NONE;
}

/* From the first child: SDB_POS_NONE. */
static inline int sdb_node_prev(const sdb_node *n, int pos)
{
    if (sdb_node_kind(n) == SDB_N256)
        return sdb_n256_prev(n, pos);
    return pos > 0 ? pos - 1 : SDB_POS_NONE;
}

/* The links of the children, by position; of an N256 some may be 0. */
static inline const sdb_link *sdb_node_links(const sdb_node *n)
{
    static const uint8_t first[SDB_NODE_KINDS] = {
        offsetof(sdb_n3, child),    offsetof(sdb_n8, child),    offsetof(sdb_n16, child),
        offsetof(sdb_nbits, child), offsetof(sdb_nbits, child), offsetof(sdb_nbits, child)};
    const uint8_t *at = (const uint8_t *)n + first[sdb_node_kind(n)];
    return (const sdb_link *)(const void *)at;
}

static inline const sdb_link *sdb_node_links_end(const sdb_node *n)
{
    return sdb_node_links(n) + (sdb_node_kind(n) == SDB_N256 ? 256 : sdb_node_children(n));
}

static inline sdb_link sdb_node_child(const sdb_node *n, int pos)
{
    return sdb_node_links(n)[pos];
}

/* The changes below are for nodes that nobody else can see yet. */

/* Make an empty-but-for-its-prefix node of a kind at memory of its size: no children yet, though
** its count of them reads 1; add must follow. For the prefix see sdb_node_set_prefix. */
void sdb_node_init(sdb_node *n, sdb_kind kind, uint64_t stamp, const uint8_t *prefix, uint32_t len);

/* The smallest kind for so many children and a prefix of that length. */
sdb_kind sdb_node_fit(unsigned children, uint32_t prefix_len);

/* Add a child under a byte that has none yet; there is room. `first`: it is the first one. */
void sdb_node_add(sdb_node *n, uint8_t byte, sdb_link child, bool first);

/* Remove the child under `byte`; at least one other is left. */
void sdb_node_remove(sdb_node *n, uint8_t byte);

/* Replace the prefix. It becomes a long one when it is longer than 8 (N3: than 1), or its bytes are
** not known (NULL). In an N3 it is at most 255. */
void sdb_node_set_prefix(sdb_node *n, const uint8_t *prefix, uint32_t len);

/* Copy a node, whole, into memory of its kind's size, or of another kind that has the room. */
void sdb_node_copy(sdb_node *to, const sdb_node *from);
void sdb_node_convert(sdb_node *to, sdb_kind kind, const sdb_node *from);

/* The kind that a node of this many children should be demoted to, or its own kind. */
sdb_kind sdb_node_shrunk(const sdb_node *n);

/* Remove any one child and return it; used to take a dead tree apart. 0 when none is left (the
** node then has no valid form any more). */
sdb_link sdb_node_take_apart(sdb_node *n);

/* NULL, or what is wrong within this node alone. */
const char *sdb_node_check(const sdb_node *n);

#endif
