/* lpm.h - a persistent tree of prefixes that finds the longest one covering an address.
**
** The tree maps each prefix to a link that is the caller's (not 0): to a row, or to the root of
** another tree where several rows share a prefix. It follows the rules of radix.h: nodes above the
** floor of an edit are changed in place, others copied and retired, and what changes the tree
** allocates only what sdb_lpm_need said, out of what was reserved, so it cannot fail. No function
** recurses or takes memory: a tree is never deeper than SDB_LPM_DEPTH.
**
** A key is the family as a 32-bit number and the address, 160 bits at most. A node looks at five of
** them, from its POSITION on, and holds the prefixes that end one to five bits behind it: 62
** places, so that one word says which of them there are, and the covers of an address among them
** are one AND away. A prefix that ends exactly where a child begins is in the parent.
**
**   node   0  u64  kind:4 = 6 | words of path:3 | -:1 | position:8 | stamp:48
**          8  u64  prefixes: bit i stands for the i-th of the 62 in preorder: 0, 00, 000, .. 11111
**         16  u32  children: bit s stands for the child whose keys go on with the five bits s
**         20  u32  count of prefixes at and below this node
**         24  u32  path[], the children's links, the prefixes' links
**
**   leaf   0  u64  kind:4 = 7 | words of path:3 | -:1 | length of the key:8 | stamp:48
**          8  u32  link of the one prefix in this subtree
**         12  u32  path[]
**
** Every node holds two prefixes or children at least; a prefix alone below a slot is a leaf, and
** where keys do not part for five bits or more there is no node. The path holds what the levels left
** out would have compared: the words of the key from the one where the parent ends up to the
** position or length, whole, and zero behind it; sometimes more of them than needed, never fewer.
** Positions are 1 modulo 5, so that /24 and /64, which most prefixes of a routing table are, end
** where a node ends.
**
** Why five bits. The 1,062,046 prefixes of an Internet routing table, and 10,000 addresses:
**
**   bits   bytes a prefix   copied by a commit of one   IPv4 look-up   among 10,000
**   4      9.4              0.5 KB                      57 ns          17 ns
**   5      8.5              0.6 KB                      39 ns          16 ns
**   6      8.3              1.0 KB                      37 ns          13 ns
**   8      10.1             2.9 KB                      37 ns          10 ns          (as in BART) */
#ifndef SDB_LPM_H
#define SDB_LPM_H

#include "batch.h"
#include "prefix.h"

enum {
    SDB_LPM_STRIDE = 5,
    SDB_LPM_ROOT = 26,  /* no two keys differ before this position */
    SDB_LPM_DEPTH = 27, /* of positions 26, 31 .. 156 */
    SDB_LPM_NODE = 6,   /* kinds, in the place of radix nodes' (node.h) */
    SDB_LPM_LEAF = 7
};

typedef struct sdb_lpm_node {
    uint64_t head;
    uint64_t prefixes;
    uint32_t children;
    uint32_t count;
    uint32_t word[];
} sdb_lpm_node;

typedef struct sdb_lpm_leaf {
    uint64_t head;
    sdb_link link;
    uint32_t path[];
} sdb_lpm_leaf;

/* Bytes of a node or leaf, as they are given back to the arena. Its head tells it from a node of a
** radix tree: sdb_node_kind, sdb_node_stamp work on both. */
size_t sdb_lpm_size(const void *node);

/* The link of a prefix; of the longest prefix that covers it, itself included. Or 0. */
sdb_link sdb_lpm_get(const uint8_t *base, sdb_link root, const sdb_prefix *p);
sdb_link sdb_lpm_match(const uint8_t *base, sdb_link root, const sdb_prefix *p);

/* The second for n prefixes, at most SDB_GROUP, that wait for memory together; what the links lead to is
** being fetched when it returns. */
void sdb_lpm_match_all(const uint8_t *base, sdb_link root, const sdb_prefix *p, size_t n, sdb_link *out);

/* What one put or del may allocate, in bytes, and retire, in links. */
size_t sdb_lpm_need(const sdb_arena *a, const sdb_prefix *p);
size_t sdb_lpm_need_links(const sdb_prefix *p);

/* Put a prefix in, or replace its link; returns the link it had, or 0. */
sdb_link sdb_lpm_put(sdb_edit *edit, sdb_link *root, const sdb_prefix *p, sdb_link link);

/* Take a prefix out; returns its link, or 0 when there is none (then nothing has been copied). */
sdb_link sdb_lpm_del(sdb_edit *edit, sdb_link *root, const sdb_prefix *p);

/* Number of prefixes; O(1). */
static inline uint64_t sdb_lpm_count(const uint8_t *base, sdb_link root)
{
    const sdb_lpm_node *n = root ? sdb_at(base, root) : NULL;
    return !n ? 0 : sdb_node_kind((const void *)n) == (sdb_kind)SDB_LPM_LEAF ? 1 : n->count;
}

/* Free the nodes of a tree that nobody sees any more and that were made after `floor`; and call
** `value`, unless NULL, for each prefix's link in them. */
void sdb_lpm_free(sdb_arena *a, sdb_link root, uint64_t floor,
                  void (*value)(void *ctx, sdb_link link), void *ctx);

/* Walk a tree: every node well-formed and needed, on its path, counts right, no stamp above its
** parent's or `stamp`. NULL when all is well, else what is wrong. *count: of prefixes. */
const char *sdb_lpm_check(const uint8_t *base, sdb_link root, uint64_t stamp, uint64_t *count);

/* ---------------------------------------------------------------- covering prefixes */

/* All prefixes that cover one, itself included. Each is handed out once, from whichever end. */
typedef struct sdb_lpm_covers {
    const uint8_t *base;
    int first, n;
    struct {
        const void *node;
        uint64_t left; /* of a leaf: 1 */
    } step[SDB_LPM_DEPTH];
} sdb_lpm_covers;

void sdb_lpm_covers_open(sdb_lpm_covers *c, const uint8_t *base, sdb_link root,
                         const sdb_prefix *p);
sdb_link sdb_lpm_covers_longest(sdb_lpm_covers *c); /* 0: no more */
sdb_link sdb_lpm_covers_shortest(sdb_lpm_covers *c);

/* ---------------------------------------------------------------- iteration */

/* A place in a tree, or none (link == 0): prefixes in the order of sdb_prefix_compare. The tree
** under it must not change. Holds no memory. */
typedef struct sdb_lpm_iter {
    const uint8_t *base;
    sdb_link root;
    sdb_link link;
    int lo, hi;      /* where in the root, a node, it begins and ends */
    sdb_prefix over; /* what all below the root begins with, as far as its path does not say it */
    const sdb_lpm_leaf *leaf; /* stands on it, or NULL: in the last step's node */
    int depth;
    struct {
        const sdb_lpm_node *node;
        int pos;
    } step[SDB_LPM_DEPTH];
} sdb_lpm_iter;

/* Over all prefixes, or those that p covers, itself included. */
void sdb_lpm_iter_open(sdb_lpm_iter *it, const uint8_t *base, sdb_link root);
void sdb_lpm_iter_within(sdb_lpm_iter *it, const uint8_t *base, sdb_link root, const sdb_prefix *p);

/* How many there are. O(depth). */
uint64_t sdb_lpm_iter_count(const sdb_lpm_iter *it);

/* To the first or last; of an iterator over all, to the first >= p, the last < p; to the
** neighbours. Returns its link, or 0 when there is none. */
sdb_link sdb_lpm_iter_first(sdb_lpm_iter *it);
sdb_link sdb_lpm_iter_last(sdb_lpm_iter *it);
sdb_link sdb_lpm_iter_seek(sdb_lpm_iter *it, const sdb_prefix *p);
sdb_link sdb_lpm_iter_seek_below(sdb_lpm_iter *it, const sdb_prefix *p);
sdb_link sdb_lpm_iter_next(sdb_lpm_iter *it);
sdb_link sdb_lpm_iter_prev(sdb_lpm_iter *it);

/* The prefix it stands on. */
void sdb_lpm_iter_prefix(const sdb_lpm_iter *it, sdb_prefix *out);

/* ---------------------------------------------------------------- inside: keys and heads */

typedef struct sdb_lpm_key {
    uint32_t word[6]; /* family, address, 0: five bits may be read from two words */
    unsigned len;     /* in bits; what is behind is zero */
} sdb_lpm_key;

static inline uint32_t sdb_lpm_word(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Word by word and in place: a key that is copied whole right after waits for its bytes. */
static inline void sdb_lpm_key_init(sdb_lpm_key *k, const sdb_prefix *p)
{
    k->word[0] = p->family;
    k->word[1] = sdb_lpm_word(p->addr);
    k->word[2] = sdb_lpm_word(p->addr + 4);
    k->word[3] = sdb_lpm_word(p->addr + 8);
    k->word[4] = sdb_lpm_word(p->addr + 12);
    k->word[5] = 0;
    k->len = 32u + p->bits;
}

/* The five bits from `pos` on. */
static inline unsigned sdb_lpm_slot(const sdb_lpm_key *k, unsigned pos)
{
    uint64_t two = (uint64_t)k->word[pos / 32] << 32 | k->word[pos / 32 + 1];
    return (unsigned)(two >> (64 - SDB_LPM_STRIDE - pos % 32)) & 31;
}

static inline void sdb_lpm_key_cut(sdb_lpm_key *k, unsigned len)
{
    for (unsigned i = len / 32; i < 5; i++)
        k->word[i] = i == len / 32 && len % 32 ? k->word[i] & ~(UINT32_MAX >> len % 32) : 0;
    k->len = len;
}

/* Replace what is behind `pos` by five bits, of which `len` count. */
static inline void sdb_lpm_key_set(sdb_lpm_key *k, unsigned pos, unsigned slot, unsigned len)
{
    sdb_lpm_key_cut(k, pos);
    uint64_t two = (uint64_t)slot << (64 - SDB_LPM_STRIDE - pos % 32);
    k->word[pos / 32] |= (uint32_t)(two >> 32);
    k->word[pos / 32 + 1] |= (uint32_t)two;
    k->len = pos + len;
}

static inline bool sdb_lpm_is_leaf(uint64_t head)
{
    return head & 1; /* kind 7, not 6 */
}

static inline unsigned sdb_lpm_words(uint64_t head)
{
    return (unsigned)(head >> 4 & 7);
}

/* The position of a node, the length of a leaf's key. */
static inline unsigned sdb_lpm_pos(uint64_t head)
{
    return (unsigned)(head >> 8 & 255);
}

static inline const uint32_t *sdb_lpm_path(const void *node)
{
    const sdb_lpm_node *n = node;
    return sdb_lpm_is_leaf(n->head) ? ((const sdb_lpm_leaf *)node)->path : n->word;
}

/* Where in the key the path begins. */
static inline unsigned sdb_lpm_path_first(uint64_t head)
{
    return (sdb_lpm_pos(head) - 1) / 32 + 1 - sdb_lpm_words(head);
}

/* Let a key that leads to a node or leaf go on along its path, up to its position. */
static inline void sdb_lpm_key_follow(sdb_lpm_key *k, const void *node)
{
    uint64_t head = ((const sdb_lpm_node *)node)->head;
    memcpy(k->word + sdb_lpm_path_first(head), sdb_lpm_path(node),
           sdb_lpm_words(head) * sizeof *k->word);
    k->len = sdb_lpm_pos(head);
}

/* The position of the node that looks at a bit. */
static inline unsigned sdb_lpm_level(unsigned bit)
{
    return bit - (bit - 1) % SDB_LPM_STRIDE;
}

/* How many words of path a node at `pos` needs below a parent that ends at `start`. */
static inline unsigned sdb_lpm_path_need(unsigned start, unsigned pos)
{
    return start == pos ? 0 : (pos - 1) / 32 + 1 - start / 32;
}

/* The first bit before `end`, at most its position, in which a node's path and a key differ; `end`
** when there is none. */
static inline unsigned sdb_lpm_fork(const void *node, uint64_t head, const sdb_lpm_key *k,
                                    unsigned end)
{
    const uint32_t *path = sdb_lpm_path(node), *word = k->word + sdb_lpm_path_first(head);
    for (unsigned i = 0, n = sdb_lpm_words(head); i < n; i++) {
        uint32_t differ = path[i] ^ word[i];
        if (differ) {
            unsigned bit = (unsigned)(word + i - k->word) * 32 + (unsigned)__builtin_clz(differ);
            return bit < end ? bit : end;
        }
    }
    return end;
}

#endif
