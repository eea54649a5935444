/* art.h - a plain adaptive radix tree: what an index in memory costs that has no versions, no snapshots
** and one user, for comparison (bench_core.c).
**
** It is the tree of Leis, Kemper, Neumann: The Adaptive Radix Tree, ICDE 2013, as it is written every
** time: nodes of 4, 16, 48 and 256 children, changed in place; each node and each leaf a block from
** malloc; a leaf has a copy of the key, 8 bytes of value. A node stores up to 8 bytes of the path, of
** a longer one any leaf below knows the bytes. No key may be the beginning of another one. */
#ifndef ART_H
#define ART_H

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { ART_4, ART_16, ART_48, ART_256, ART_PREFIX = 8 };

typedef struct art_node {
    uint8_t kind;
    uint16_t children;
    uint32_t prefix_len;
    uint8_t prefix[ART_PREFIX];
} art_node;

typedef struct art_node4 {
    art_node node;
    uint8_t key[4]; /* in order, as in the next one */
    art_node *child[4];
} art_node4;

typedef struct art_node16 {
    art_node node;
    uint8_t key[16];
    art_node *child[16];
} art_node16;

typedef struct art_node48 {
    art_node node;
    uint8_t index[256]; /* of the child and one; 0: none */
    art_node *child[48];
} art_node48;

typedef struct art_node256 {
    art_node node;
    art_node *child[256];
} art_node256;

typedef struct art_leaf { /* its address has bit 0 set where it stands for a child */
    uint64_t value;
    uint32_t len;
    uint8_t key[];
} art_leaf;

typedef struct art {
    art_node *root;
    size_t bytes; /* allocated, with what malloc adds */
} art;

/* ---------------------------------------------------------------- memory */

static void *art_alloc(art *t, size_t size)
{
    void *p = malloc(size);
    if (!p)
        abort();
    t->bytes += malloc_usable_size(p) + sizeof(size_t);
    return p;
}

static void art_free(art *t, void *p)
{
    t->bytes -= malloc_usable_size(p) + sizeof(size_t);
    free(p);
}

static inline bool art_is_leaf(const art_node *n)
{
    return (uintptr_t)n & 1;
}

static inline art_leaf *art_leaf_of(const art_node *n)
{
    return (art_leaf *)((uintptr_t)n - 1);
}

static art_node *art_leaf_new(art *t, const uint8_t *key, size_t len, uint64_t value)
{
    art_leaf *leaf = art_alloc(t, offsetof(art_leaf, key) + len);
    leaf->value = value;
    leaf->len = (uint32_t)len;
    memcpy(leaf->key, key, len);
    return (art_node *)((uintptr_t)leaf + 1);
}

static art_node *art_node_new(art *t, int kind)
{
    static const size_t SIZE[] = {sizeof(art_node4), sizeof(art_node16), sizeof(art_node48),
                                  sizeof(art_node256)};
    art_node *n = memset(art_alloc(t, SIZE[kind]), 0, SIZE[kind]);
    n->kind = (uint8_t)kind;
    return n;
}

/* ---------------------------------------------------------------- children */

static unsigned art_match16(const uint8_t *key, uint8_t byte)
{
#if defined(__SSE2__)
    __m128i eq = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)key),
                                _mm_set1_epi8((char)byte));
    return (unsigned)_mm_movemask_epi8(eq);
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; i++)
        bits |= (unsigned)(key[i] == byte) << i;
    return bits;
#endif
}

/* Where the child under a byte is linked, or NULL. */
static art_node **art_child(art_node *n, uint8_t byte)
{
    switch (n->kind) {
    case ART_4: {
        art_node4 *p = (art_node4 *)n;
        for (unsigned i = 0; i < n->children; i++)
            if (p->key[i] == byte)
                return &p->child[i];
        return NULL;
    }
    case ART_16: {
        art_node16 *p = (art_node16 *)n;
        unsigned bits = art_match16(p->key, byte) & ((1u << n->children) - 1);
        return bits ? &p->child[__builtin_ctz(bits)] : NULL;
    }
    case ART_48: {
        art_node48 *p = (art_node48 *)n;
        return p->index[byte] ? &p->child[p->index[byte] - 1] : NULL;
    }
    default: {
        art_node256 *p = (art_node256 *)n;
        return p->child[byte] ? &p->child[byte] : NULL;
    }
    }
}

/* The keys and children of a node of 4 or 16. */
static uint8_t *art_keys(art_node *n, art_node ***child)
{
    *child = n->kind == ART_4 ? ((art_node4 *)n)->child : ((art_node16 *)n)->child;
    return n->kind == ART_4 ? ((art_node4 *)n)->key : ((art_node16 *)n)->key;
}

static void art_sorted_add(art_node *n, uint8_t byte, art_node *child)
{
    art_node **children;
    uint8_t *key = art_keys(n, &children);
    unsigned i = 0;
    while (i < n->children && key[i] < byte)
        i++;
    memmove(key + i + 1, key + i, n->children - i);
    memmove(children + i + 1, children + i, (n->children - i) * sizeof *children);
    key[i] = byte;
    children[i] = child;
    n->children++;
}

/* The node at *at in one of the next larger kind. */
static art_node *art_grow(art *t, art_node **at)
{
    art_node *n = *at, *to = art_node_new(t, n->kind + 1);
    uint8_t kind = to->kind;
    *to = *n;
    to->kind = kind;
    if (n->kind == ART_4) {
        memcpy(((art_node16 *)to)->key, ((art_node4 *)n)->key, 4);
        memcpy(((art_node16 *)to)->child, ((art_node4 *)n)->child, sizeof ((art_node4 *)n)->child);
    } else if (n->kind == ART_16) {
        for (unsigned i = 0; i < 16; i++)
            ((art_node48 *)to)->index[((art_node16 *)n)->key[i]] = (uint8_t)(i + 1);
        memcpy(((art_node48 *)to)->child, ((art_node16 *)n)->child, sizeof ((art_node16 *)n)->child);
    } else {
        art_node48 *p = (art_node48 *)n;
        for (unsigned byte = 0; byte < 256; byte++)
            if (p->index[byte])
                ((art_node256 *)to)->child[byte] = p->child[p->index[byte] - 1];
    }
    art_free(t, n);
    return *at = to;
}

static void art_add(art *t, art_node **at, uint8_t byte, art_node *child)
{
    static const unsigned ROOM[] = {4, 16, 48, 256};
    art_node *n = *at;
    if (n->children == ROOM[n->kind])
        n = art_grow(t, at);
    if (n->kind <= ART_16) {
        art_sorted_add(n, byte, child);
        return;
    }
    n->children++;
    if (n->kind == ART_256) {
        ((art_node256 *)n)->child[byte] = child;
        return;
    }
    art_node48 *p = (art_node48 *)n;
    unsigned i = 0;
    while (p->child[i])
        i++;
    p->child[i] = child;
    p->index[byte] = (uint8_t)(i + 1);
}

/* The node at *at in one of the next smaller kind. */
static void art_shrink(art *t, art_node **at)
{
    art_node *n = *at, *to = art_node_new(t, n->kind - 1);
    to->prefix_len = n->prefix_len;
    memcpy(to->prefix, n->prefix, sizeof n->prefix);
    if (n->kind == ART_16) {
        art_node16 *p = (art_node16 *)n;
        for (unsigned i = 0; i < n->children; i++)
            art_sorted_add(to, p->key[i], p->child[i]);
    } else {
        for (unsigned byte = 0; byte < 256; byte++)
            if (art_child(n, (uint8_t)byte))
                art_add(t, &to, (uint8_t)byte, *art_child(n, (uint8_t)byte));
    }
    art_free(t, n);
    *at = to;
}

/* ---------------------------------------------------------------- prefixes */

static const art_leaf *art_any_leaf(const art_node *n)
{
    while (!art_is_leaf(n)) {
        if (n->kind == ART_4)
            n = ((const art_node4 *)n)->child[0];
        else if (n->kind == ART_16)
            n = ((const art_node16 *)n)->child[0];
        else
            for (unsigned byte = 0, at = 1; at; byte++) {
                art_node *const *child = art_child((art_node *)(uintptr_t)n, (uint8_t)byte);
                if (child) {
                    n = *child;
                    at = 0;
                }
            }
    }
    return art_leaf_of(n);
}

/* The bytes of a node's prefix, which begins at key position `at`. */
static const uint8_t *art_prefix(const art_node *n, size_t at)
{
    return n->prefix_len <= ART_PREFIX ? n->prefix : art_any_leaf(n)->key + at;
}

static void art_set_prefix(art_node *n, const uint8_t *prefix, uint32_t len)
{
    memmove(n->prefix, prefix, len < ART_PREFIX ? len : ART_PREFIX);
    n->prefix_len = len;
}

/* ---------------------------------------------------------------- the tree */

static uint64_t *art_get(const art *t, const uint8_t *key, size_t len)
{
    art_node *n = t->root;
    for (size_t at = 0; n && !art_is_leaf(n); at++) {
        at += n->prefix_len; /* compared at the leaf */
        art_node **child = at < len ? art_child(n, key[at]) : NULL;
        n = child ? *child : NULL;
    }
    art_leaf *leaf = n ? art_leaf_of(n) : NULL;
    return leaf && leaf->len == len && memcmp(leaf->key, key, len) == 0 ? &leaf->value : NULL;
}

/* A node in the place of *at, with `len` bytes of prefix, over what was there and a new leaf. */
static void art_split(art *t, art_node **at, const uint8_t *prefix, uint32_t len, uint8_t old_byte,
                      uint8_t byte, art_node *leaf)
{
    art_node *old = *at;
    *at = art_node_new(t, ART_4);
    art_set_prefix(*at, prefix, len);
    art_add(t, at, old_byte, old);
    art_add(t, at, byte, leaf);
}

static void art_put(art *t, const uint8_t *key, size_t len, uint64_t value)
{
    art_node **at = &t->root;
    for (size_t i = 0;; i++) {
        art_node *n = *at;
        if (!n) {
            *at = art_leaf_new(t, key, len, value);
            return;
        }
        if (art_is_leaf(n)) {
            art_leaf *leaf = art_leaf_of(n);
            if (leaf->len == len && memcmp(leaf->key, key, len) == 0) {
                leaf->value = value;
                return;
            }
            size_t fork = i;
            while (leaf->key[fork] == key[fork])
                fork++;
            art_split(t, at, key + i, (uint32_t)(fork - i), leaf->key[fork], key[fork],
                      art_leaf_new(t, key, len, value));
            return;
        }
        const uint8_t *prefix = art_prefix(n, i);
        uint32_t match = 0;
        while (match < n->prefix_len && prefix[match] == key[i + match])
            match++;
        if (match < n->prefix_len) {
            uint8_t byte = prefix[match];
            art_set_prefix(n, prefix + match + 1, n->prefix_len - match - 1);
            art_split(t, at, key + i, match, byte, key[i + match], art_leaf_new(t, key, len, value));
            return;
        }
        i += match;
        art_node **child = art_child(n, key[i]);
        if (!child) {
            art_add(t, at, key[i], art_leaf_new(t, key, len, value));
            return;
        }
        at = child;
    }
}

/* Take the child under a byte out of the node at *at. An only child that is left takes its place. */
static void art_remove(art *t, art_node **at, size_t i, uint8_t byte)
{
    static const unsigned FEW[] = {0, 3, 12, 37};
    art_node *n = *at;
    if (n->kind <= ART_16) {
        art_node **child;
        uint8_t *key = art_keys(n, &child);
        unsigned at_key = (unsigned)(art_child(n, byte) - child);
        memmove(key + at_key, key + at_key + 1, n->children - at_key - 1u);
        memmove(child + at_key, child + at_key + 1, (n->children - at_key - 1u) * sizeof *child);
    } else {
        *art_child(n, byte) = NULL;
        if (n->kind == ART_48)
            ((art_node48 *)n)->index[byte] = 0;
    }
    n->children--;
    if (n->kind > ART_4) {
        if (n->children <= FEW[n->kind])
            art_shrink(t, at);
        return;
    }
    art_node *only = ((art_node4 *)n)->child[0];
    if (n->children > 1)
        return;
    if (!art_is_leaf(only)) {
        uint8_t prefix[ART_PREFIX]; /* n's, the byte, its own: as far as there is room */
        uint32_t len = n->prefix_len + 1 + only->prefix_len;
        const uint8_t *key = art_any_leaf(only)->key + i;
        memcpy(prefix, key, len < ART_PREFIX ? len : ART_PREFIX);
        art_set_prefix(only, prefix, len);
    }
    *at = only;
    art_free(t, n);
}

/* Whether the key was there. */
static bool art_del(art *t, const uint8_t *key, size_t len)
{
    art_node **at = &t->root;
    if (!art_get(t, key, len))
        return false;
    if (art_is_leaf(*at)) {
        art_free(t, art_leaf_of(*at));
        *at = NULL;
        return true;
    }
    for (size_t i = 0;;) {
        size_t from = i + (*at)->prefix_len;
        art_node **child = art_child(*at, key[from]);
        if (art_is_leaf(*child)) {
            art_free(t, art_leaf_of(*child));
            art_remove(t, at, i, key[from]);
            return true;
        }
        at = child;
        i = from + 1;
    }
}

/* Call `each` for every leaf in order of the keys. */
static void art_each(const art_node *n, void (*each)(void *ctx, const art_leaf *leaf), void *ctx)
{
    if (art_is_leaf(n)) {
        each(ctx, art_leaf_of(n));
    } else if (n->kind == ART_48) {
        const art_node48 *p = (const art_node48 *)n;
        for (unsigned byte = 0; byte < 256; byte++)
            if (p->index[byte])
                art_each(p->child[p->index[byte] - 1], each, ctx);
    } else if (n->kind == ART_256) {
        for (unsigned byte = 0; byte < 256; byte++)
            if (((const art_node256 *)n)->child[byte])
                art_each(((const art_node256 *)n)->child[byte], each, ctx);
    } else {
        art_node **child;
        (void)art_keys((art_node *)(uintptr_t)n, &child);
        for (unsigned i = 0; i < n->children; i++)
            art_each(child[i], each, ctx);
    }
}

#endif
