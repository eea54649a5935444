/* radix.h - a persistent radix tree from byte strings to leaves.
**
** The tree is its root link: 0 (empty), a leaf, or an inner node. A change copies the nodes on its
** path and leaves every older root as it was; nodes that the same transaction state has made are
** changed in place instead (struct sdb_edit says which).
**
** A LEAF is any object in the arena that the caller can find the key of; the tree stores no keys.
** In a table's trees the leaves are the rows: an index entry costs its share of the inner nodes and
** no object of its own, a lookup through a secondary index meets the row as soon as it meets the
** leaf, and replacing a row allocates nothing in trees whose shape does not change. Where a search
** meets a leaf, struct sdb_leaves compares the leaf's key with the one looked for, without building
** it.
**
** A key may be any byte string: empty, a prefix of another, a megabyte long. No function recurses.
**
** Functions that change a tree allocate only what sdb_radix_need said, out of what was reserved
** (arena.h), so they cannot fail. They never free leaves: those belong to the caller. */
#ifndef SDB_RADIX_H
#define SDB_RADIX_H

#include "mem.h"
#include "node.h"

/* How to read the key of a leaf. `diff` compares a leaf's key with key[0..len): it returns the
** position of the first difference (at most len) and in *byte the leaf's byte there, -1 where the
** leaf's key ends. So they are equal exactly when it returns len with *byte -1. `key` builds it,
** behind what is in the buffer; SDB_NOMEM. Only validators need it. */
typedef struct sdb_leaves {
    size_t (*diff)(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte);
    int (*key)(const void *ctx, const void *leaf, sdb_buf *out);
    const void *ctx;
} sdb_leaves;

/* How many bytes of a node's prefix agree with key[at..len), given that all before does; where
** these are not all, *byte is the prefix's byte that does not. */
uint32_t sdb_radix_prefix_match(const sdb_leaves *leaves, const uint8_t *base, const sdb_node *n,
                                const uint8_t *key, size_t len, size_t at, int *byte);

/* A vector of links to objects that are dead in the newest version but may be seen by an older. */
typedef struct sdb_links {
    sdb_link *at;
    size_t n, room;
} sdb_links;

SDB_MUST int sdb_links_grow(sdb_links *v, size_t more);

/* Room for so many more. SDB_NOMEM. */
SDB_MUST static inline int sdb_links_reserve(sdb_links *v, size_t more)
{
    return v->room - v->n >= more ? SDB_OK : sdb_links_grow(v, more);
}

void sdb_links_fini(sdb_links *v);

static inline void sdb_links_push(sdb_links *v, sdb_link link)
{
    v->at[v->n++] = link;
}

/* One transaction's hold on the trees of one table. A node whose stamp is above `floor` was made by
** it and is seen by nobody else, not by a savepoint or cursor of its own either: it is edited in
** place, and freed at once when it dies. Every other node is copied, and retired when it dies. New
** nodes get `stamp`; it is above `floor`, and no node's stamp is above it. So along every path
** stamps never grow, and all new nodes hang together below the root. */
typedef struct sdb_edit {
    sdb_arena *arena;
    uint64_t stamp;
    uint64_t floor;
    sdb_links retired;
    const sdb_stop *stop; /* asked while an index is built, or NULL */
} sdb_edit;

/* Bring a leaf near that is about to be read: most have no more than two cache lines, and where the second
** is needed only the first tells. */
static inline void sdb_leaf_expect(const uint8_t *base, sdb_link leaf)
{
    enum { LINE = 64 };
    const uint8_t *p = sdb_at(base, leaf);
    __builtin_prefetch(p);
    __builtin_prefetch(p + LINE - 1);
}

/* The only leaf that may have a key, or 0: whether it has is for the caller to find out. */
static inline sdb_link sdb_radix_descend(const uint8_t *base, sdb_link link, const uint8_t *key,
                                         size_t len)
{
    size_t at = 0;
    while (link && !(link & SDB_LEAF)) {
        const sdb_node *n = sdb_at(base, link);
        if (__builtin_expect(at < len, 1))
            sdb_node_expect(n, key[at]);
        uint32_t prefix = sdb_node_prefix_len(n);
        if (__builtin_expect(prefix > 0, 0)) /* a branch: the child does not wait for the header */
            at += prefix;                    /* its bytes are compared with the rest, at the leaf */
        if (__builtin_expect(at >= len, 0))
            return at == len ? n->leaf : 0;
        link = sdb_node_find(n, key[at++]);
    }
    return link;
}

/* The leaf of a key, or 0. */
sdb_link sdb_radix_get(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                       const uint8_t *key, size_t len);

/* The leaf of the largest key, or 0. */
sdb_link sdb_radix_last(const uint8_t *base, sdb_link root);

/* A tree of so many leaves is near as a whole. SDB_EAGER: none is, so that tests of small tables go where
** those of large ones do; "make asan" is built so. */
#ifdef SDB_EAGER
enum { SDB_FEW = 1 };
#else
enum { SDB_FEW = 1 << 16 };
#endif

/* Ask for the memory that a change of this key will have to wait for, while there is something else to do:
** the first node on its way that is likely to be far. */
void sdb_radix_expect(const uint8_t *base, sdb_link root, const uint8_t *key, size_t len);

/* The same for n keys, at most SDB_TOGETHER, that lie one behind the other, key i up to keys[end[i]]: all that is
** on their ways, one step of each at a time. Of a small tree nothing is far, and nothing is asked for. */
enum { SDB_TOGETHER = 16 };
void sdb_radix_expect_all(const uint8_t *base, sdb_link root, const uint8_t *keys, const size_t *end,
                          size_t n);

/* A leaf whose key begins with these bytes, or 0. */
sdb_link sdb_radix_any(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                       const uint8_t *key, size_t len);

/* What one put or del may allocate, in bytes of nodes, and retire, in links; and what n of them may,
** one after the other, whose keys are `len` bytes in all. */
size_t sdb_radix_need(const sdb_arena *a, size_t len);
size_t sdb_radix_need_links(const sdb_arena *a, size_t len);
size_t sdb_radix_need_many(const sdb_arena *a, size_t len, size_t n);
size_t sdb_radix_need_links_many(const sdb_arena *a, size_t len, size_t n);

/* Where a key is in a tree, or would be: what a search for it has met. It holds until that tree changes;
** what may be edited in place may become more or less meanwhile. */
enum { SDB_PLACE_NODES = 12 };

typedef struct sdb_place {
    sdb_link leaf;   /* that has the key, or 0 */
    uint8_t meets;   /* what stands where the search ends (radix.c) */
    int byte;        /* of what stands there, where the key parts from it; -1: it ends there */
    size_t at, fork; /* the key's bytes on the way there; and up to where they part */
    sdb_link *link;  /* to what stands there: in the last of the nodes, or the root */
    size_t n;        /* nodes on the way */
    sdb_node *node[SDB_PLACE_NODES]; /* the first of these */
} sdb_place;

/* Find it; returns the leaf of the key, or 0. Then put a leaf there. */
sdb_link sdb_radix_find(const sdb_leaves *leaves, const uint8_t *base, const sdb_link *root,
                        const uint8_t *key, size_t len, sdb_place *out);
void sdb_radix_put_at(sdb_edit *edit, sdb_link *root, const uint8_t *key, size_t len,
                      const sdb_place *place, sdb_link leaf);

/* Put a leaf in; returns the leaf that had the key before, or 0. */
sdb_link sdb_radix_put(const sdb_leaves *leaves, sdb_edit *edit, sdb_link *root, const uint8_t *key,
                       size_t len, sdb_link leaf);

/* Put a leaf in the place of one that is in the tree, of the same key. */
void sdb_radix_replace(sdb_edit *edit, sdb_link *root, const uint8_t *key, size_t len, sdb_link old,
                       sdb_link leaf);

/* Take a leaf out that is in the tree, by its key. */
void sdb_radix_take(sdb_edit *edit, sdb_link *root, const uint8_t *key, size_t len, sdb_link leaf);

/* Take a key out; returns its leaf, or 0 when there is none (then nothing has been copied). */
sdb_link sdb_radix_del(const sdb_leaves *leaves, sdb_edit *edit, sdb_link *root, const uint8_t *key,
                       size_t len);

/* Drop a whole tree from the newest version: its own nodes are freed, the others retired. SDB_NOMEM:
** nothing has changed. O(nodes), takes memory for a link for each. */
SDB_MUST int sdb_radix_retire(sdb_edit *edit, sdb_link root);

/* Number of leaves; O(1). */
uint64_t sdb_radix_count(const uint8_t *base, sdb_link root);

/* Number of leaves whose key is below `key`. O(key length × children). */
uint64_t sdb_radix_rank(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                        const uint8_t *key, size_t len);

/* Free the nodes of a tree that nobody sees any more and that were made after `floor`; and call
** `leaf`, unless NULL, for each leaf that hangs directly on such a node or is the root itself.
** Takes no memory. O(nodes made after floor, and their children). */
void sdb_radix_free(sdb_arena *a, sdb_link root, uint64_t floor,
                    void (*leaf)(void *ctx, sdb_link leaf), void *ctx);

/* ---------------------------------------------------------------- iteration (radix_iter.c) */

/* A node on the way from the root, and where in it: at the link of a child, or one before the first one,
** which stands for the node's own leaf. */
typedef struct sdb_step {
    const sdb_node *node;
    const sdb_link *at, *end; /* of the children */
} sdb_step;

/* A place in a tree, or none (leaf == 0). Holds no memory until the tree is deeper than its own
** stack. The tree under it must not change. */
typedef struct sdb_iter {
    const uint8_t *base;
    const sdb_leaves *leaves;
    sdb_link root;
    sdb_link leaf;
    int depth, room;
    int bottom; /* the iteration ends where the stack would sink below this */
    sdb_step *step; /* own, or a larger one from the heap */
    sdb_step own[24];
} sdb_iter;

void sdb_iter_init(sdb_iter *it);
void sdb_iter_fini(sdb_iter *it);
void sdb_iter_open(sdb_iter *it, const sdb_leaves *leaves, const uint8_t *base, sdb_link root);

/* To the first or last leaf; to the first whose key is >= key, the last whose key is < key; to the
** neighbours. SDB_OK, SDB_DONE (none: leaf is 0), SDB_NOMEM (tree deeper than memory allows). */
SDB_MUST int sdb_iter_first(sdb_iter *it);
SDB_MUST int sdb_iter_last(sdb_iter *it);
SDB_MUST int sdb_iter_seek(sdb_iter *it, const uint8_t *key, size_t len);
SDB_MUST int sdb_iter_seek_below(sdb_iter *it, const uint8_t *key, size_t len);

/* To the first or last of the leaves whose keys begin with these bytes; next and prev then stay among
** them. */
SDB_MUST int sdb_iter_prefix(sdb_iter *it, const uint8_t *key, size_t len, bool last);
SDB_MUST int sdb_iter_prev(sdb_iter *it);
SDB_MUST int sdb_iter_next_far(sdb_iter *it); /* next, unless it is the neighbour in the node */

/* How many links ahead an iterator asks for what they lead to, as the caller is busy with a leaf. */
enum { SDB_AHEAD = 8 };

SDB_MUST static inline int sdb_iter_next(sdb_iter *it)
{
    if (it->depth == it->bottom)
        return sdb_iter_next_far(it);
    sdb_step *top = &it->step[it->depth - 1];
    const sdb_link *at = top->at + 1;
    if (at == top->end || !(*at & SDB_LEAF))
        return sdb_iter_next_far(it);
    if (top->end - at > SDB_AHEAD)
        __builtin_prefetch(sdb_at(it->base, at[SDB_AHEAD]));
    top->at = at;
    it->leaf = *at;
    return SDB_OK;
}

/* n leaves on, or back; how many leaves are before the one it is at. O(depth × children). */
SDB_MUST int sdb_iter_skip(sdb_iter *it, uint64_t n, bool back);
uint64_t sdb_iter_rank(const sdb_iter *it);

/* ---------------------------------------------------------------- check (radix_check.c) */

/* Walk a tree: every node well-formed, counts right, no stamp above its parent's or `stamp`, keys in
** order, every leaf under the path its key spells. NULL when all is well, else what is wrong.
** *leaves_out: how many leaves there are. O(bytes of all keys), takes memory for two keys. */
const char *sdb_radix_check(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                            uint64_t stamp, uint64_t *leaves_out);

#endif
