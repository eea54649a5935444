/* radix.c - get, put, delete and rank in a persistent radix tree (see radix.h). */
#include "radix.h"

#include "mem.h"

#include <assert.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static inline bool is_leaf(sdb_link link)
{
    return link & SDB_LEAF;
}

/* ---------------------------------------------------------------- links */

int sdb_links_grow(sdb_links *v, size_t more)
{
    size_t room = v->room * 2 > v->n + more ? v->room * 2 : v->n + more;
    room = room < 64 ? 64 : room;
    sdb_link *at = sdb_realloc(v->at, room * sizeof *at);
    if (!at)
        return SDB_NOMEM;
    v->at = at;
    v->room = room;
    return SDB_OK;
}

void sdb_links_fini(sdb_links *v)
{
    sdb_free(v->at);
    *v = (sdb_links){0};
}

/* ---------------------------------------------------------------- get */

sdb_link sdb_radix_get(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                       const uint8_t *key, size_t len)
{
    sdb_link link = sdb_radix_descend(base, root, key, len);
    if (!link)
        return 0;
    int byte;
    return leaves->diff(leaves->ctx, sdb_at(base, link), key, len, &byte) == len && byte < 0 ? link
                                                                                             : 0;
}

sdb_link sdb_radix_last(const uint8_t *base, sdb_link root)
{
    sdb_link link = root;
    while (link && !is_leaf(link)) {
        const sdb_node *n = sdb_at(base, link);
        link = sdb_node_child(n, sdb_node_last(n));
    }
    return link;
}

/* Of nodes with so many leaves below there are few, and every look-up goes through some: they are near. */
enum { LEAVES_NEAR = 4096, LINE = 64 };

void sdb_radix_expect(const uint8_t *base, sdb_link root, const uint8_t *key, size_t len)
{
    sdb_link link = root;
    size_t at = 0;
    bool is_near = true;
    if (sdb_radix_count(base, root) < SDB_FEW)
        return;
    while (is_near && link && !is_leaf(link)) {
        const sdb_node *n = sdb_at(base, link);
        at += sdb_node_prefix_len(n);
        if (at >= len)
            return;
        is_near = n->count / sdb_node_children(n) >= LEAVES_NEAR;
        link = sdb_node_find(n, key[at++]);
    }
    if (!link)
        return;
    const uint8_t *p = sdb_at(base, link);
    size_t most = is_leaf(link) ? LINE : sdb_node_size[SDB_N64]; /* as is likely; to be copied perhaps */
    for (size_t i = 0; i < most; i += LINE)
        __builtin_prefetch(p + i);
}

void sdb_radix_expect_all(const uint8_t *base, sdb_link root, const uint8_t *keys, const size_t *end,
                          size_t n)
{
    sdb_link link[SDB_TOGETHER];
    size_t at[SDB_TOGETHER];
    assert(n <= SDB_TOGETHER);
    if (sdb_radix_count(base, root) < SDB_FEW)
        return;
    for (size_t i = 0; i < n; i++) {
        link[i] = root;
        at[i] = i ? end[i - 1] : 0;
    }
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (size_t i = 0; i < n; i++) {
            if (!link[i] || is_leaf(link[i]))
                continue;
            const sdb_node *node = sdb_at(base, link[i]);
            at[i] += sdb_node_prefix_len(node);
            link[i] = at[i] < end[i] ? sdb_node_find(node, keys[at[i]++]) : 0;
            __builtin_prefetch(sdb_at(base, link[i]));
            __builtin_prefetch((const uint8_t *)sdb_at(base, link[i]) + LINE);
            goes_on = true;
        }
    }
}

sdb_link sdb_radix_any(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                       const uint8_t *key, size_t len)
{
    sdb_link link = root;
    size_t at = 0;
    while (link && !is_leaf(link)) {
        const sdb_node *n = sdb_at(base, link);
        at += sdb_node_prefix_len(n);
        if (at < len)
            link = sdb_node_find(n, key[at++]);
        else
            link = n->leaf ? n->leaf : sdb_node_child(n, sdb_node_next(n, SDB_POS_LEAF));
    }
    int byte;
    return link && leaves->diff(leaves->ctx, sdb_at(base, link), key, len, &byte) == len ? link : 0;
}

/* ---------------------------------------------------------------- owning nodes */

size_t sdb_radix_need_many(const sdb_arena *a, size_t len, size_t n)
{
    /* Each node of a path may be copied, and they take a byte of the key each; together they are no
    ** more than what the arena holds, since what has been copied is edited in place. Besides, each
    ** time, a fork, and one node that outgrows its kind or gets another prefix. */
    uint64_t live = atomic_load_explicit(&a->live, memory_order_relaxed);
    uint64_t path = ((uint64_t)len + n) * SDB_NODE_MAX;
    return (size_t)((path < live ? path : live) + 3 * SDB_NODE_MAX * (uint64_t)n);
}

size_t sdb_radix_need_links_many(const sdb_arena *a, size_t len, size_t n)
{
    uint64_t nodes = atomic_load_explicit(&a->live, memory_order_relaxed) / 32;
    return (size_t)(len + n < nodes ? len + n : nodes) + 2 * n;
}

size_t sdb_radix_need(const sdb_arena *a, size_t len)
{
    return sdb_radix_need_many(a, len, 1);
}

size_t sdb_radix_need_links(const sdb_arena *a, size_t len)
{
    return sdb_radix_need_links_many(a, len, 1);
}

static sdb_node *node_new(sdb_edit *e, sdb_kind kind, sdb_link *out)
{
    *out = sdb_arena_node(e->arena, sdb_node_size[kind]);
    return sdb_at(e->arena->base, *out);
}

static bool is_own(const sdb_edit *e, const sdb_node *n)
{
    return sdb_node_stamp(n) > e->floor;
}

/* The node at `link` is in the tree no more. */
static void node_drop(sdb_edit *e, sdb_link link)
{
    const sdb_node *n = sdb_at(e->arena->base, link);
    if (is_own(e, n))
        sdb_arena_free(e->arena, link, sdb_node_size[sdb_node_kind(n)]);
    else
        sdb_links_push(&e->retired, link);
}

static sdb_node *node_clone(sdb_edit *e, sdb_link *link, const sdb_node *n)
{
    sdb_link copy;
    sdb_node *to = node_new(e, sdb_node_kind(n), &copy);
    sdb_node_copy(to, n);
    sdb_links_push(&e->retired, *link);
    *link = copy;
    return to;
}

/* The node at *link, made this edit's own. */
static inline sdb_node *node_own(sdb_edit *e, sdb_link *link)
{
    sdb_node *n = sdb_at(e->arena->base, *link);
    if (LIKELY(sdb_node_stamp(n) == e->stamp))
        return n;
    if (!is_own(e, n))
        n = node_clone(e, link, n);
    sdb_node_set_stamp(n, e->stamp);
    return n;
}

/* The node at *link, own, and of another kind. */
static sdb_node *node_convert(sdb_edit *e, sdb_link *link, sdb_kind kind)
{
    sdb_link copy;
    sdb_node *to = node_new(e, kind, &copy);
    sdb_node_convert(to, kind, sdb_at(e->arena->base, *link));
    sdb_node_set_stamp(to, e->stamp);
    node_drop(e, *link);
    *link = copy;
    return to;
}

/* The node at *link, own, with its prefix replaced (NULL: bytes not known). */
static sdb_node *node_reprefix(sdb_edit *e, sdb_link *link, const uint8_t *prefix, uint32_t len)
{
    const sdb_node *old = sdb_at(e->arena->base, *link);
    uint8_t copy[SDB_PREFIX_MAX];
    if (prefix && len <= sizeof copy)
        memcpy(copy, prefix, len); /* it may lie in the very node */
    sdb_kind kind = sdb_node_kind(old), fit = sdb_node_fit(sdb_node_children(old), len);
    sdb_node *n = kind < fit ? node_convert(e, link, fit) : node_own(e, link);
    sdb_node_set_prefix(n, prefix ? copy : NULL, len);
    return n;
}

/* ---------------------------------------------------------------- prefixes */

static const void *any_leaf(const uint8_t *base, const sdb_node *n)
{
    for (;;) {
        sdb_link link = n->leaf ? n->leaf : sdb_node_child(n, sdb_node_next(n, SDB_POS_LEAF));
        if (is_leaf(link))
            return sdb_at(base, link);
        n = sdb_at(base, link);
    }
}

static inline uint64_t word_load(const uint8_t *p)
{
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
}

static uint32_t long_match(const sdb_leaves *leaves, const uint8_t *base, const sdb_node *n,
                           const uint8_t *key, size_t len, size_t at, int *byte)
{
    uint32_t prefix = sdb_node_prefix_len(n);
    size_t fork = leaves->diff(leaves->ctx, any_leaf(base, n), key, len, byte);
    return fork - at < prefix ? (uint32_t)(fork - at) : prefix;
}

static inline uint32_t short_match(const sdb_node *n, const uint8_t *key, size_t len, int *byte)
{
    uint32_t prefix = sdb_node_prefix_len(n), i = 0;
    const uint8_t *p = sdb_node_prefix(n);
    if (LIKELY(len >= SDB_PREFIX_MAX && sdb_node_kind(n) != SDB_N3)) { /* of both there are 8 bytes */
        uint64_t differ = word_load(p) ^ word_load(key);
        i = differ ? (uint32_t)__builtin_clzll(differ) / 8 : SDB_PREFIX_MAX;
        i = i < prefix ? i : prefix;
    } else {
        while (i < prefix && i < len && p[i] == key[i])
            i++;
    }
    *byte = i < prefix ? p[i] : -1;
    return i;
}

uint32_t sdb_radix_prefix_match(const sdb_leaves *leaves, const uint8_t *base, const sdb_node *n,
                                const uint8_t *key, size_t len, size_t at, int *byte)
{
    return sdb_node_is_long(n) ? long_match(leaves, base, n, key, len, at, byte)
                               : short_match(n, key + at, len - at, byte);
}

/* ---------------------------------------------------------------- put */

/* Make the node where two keys part, behind key[at..fork). Returns it, still without children;
** *out: its link. */
static sdb_node *fork_new(sdb_edit *e, const uint8_t *key, size_t at, size_t fork, unsigned children,
                          uint32_t count, sdb_link *out)
{
    uint32_t len = (uint32_t)(fork - at);
    sdb_kind kind = sdb_node_fit(children, len);
    sdb_node *n = node_new(e, kind, out);
    sdb_node_init(n, kind, e->stamp, key + at, len);
    n->count = count;
    return n;
}

/* Put a link, whose keys go on with `byte` (or end: -1), into a node under construction. Returns
** whether the next child is the first. */
static bool fork_add(sdb_node *n, int byte, sdb_link link, bool first)
{
    if (byte < 0) {
        n->leaf = link;
        return first;
    }
    sdb_node_add(n, (uint8_t)byte, link, first);
    return false;
}

/* Two leaves in place of one. */
static void split_leaf(sdb_edit *e, sdb_link *link, const uint8_t *key, size_t len, size_t at,
                       size_t fork, int byte, sdb_link leaf)
{
    sdb_link top;
    int mine = fork < len ? key[fork] : -1;
    assert(fork >= at && mine != byte);
    sdb_node *n = fork_new(e, key, at, fork, (mine >= 0) + (byte >= 0), 2, &top);
    bool first = fork_add(n, byte, *link, true);
    fork_add(n, mine, leaf, first);
    *link = top;
}

/* A new node above one whose prefix parts from the key after `match` bytes, going on with `byte`. */
static void split_prefix(sdb_edit *e, sdb_link *link, const uint8_t *key, size_t len, size_t at,
                         uint32_t match, int byte, sdb_link leaf)
{
    sdb_node *old = sdb_at(e->arena->base, *link);
    uint32_t rest = sdb_node_prefix_len(old) - match - 1;
    old = node_reprefix(e, link, sdb_node_is_long(old) ? NULL : sdb_node_prefix(old) + match + 1,
                        rest);
    int mine = at + match < len ? key[at + match] : -1;
    sdb_link top;
    sdb_node *n = fork_new(e, key, at, at + match, 1 + (mine >= 0), old->count + 1, &top);
    sdb_node_add(n, (uint8_t)byte, *link, true);
    fork_add(n, mine, leaf, false);
    *link = top;
}

/* What a search ends at: nothing, in an empty tree; a leaf; a node that parts from the key within its
** prefix, or at whose end the key ends too, or that has no child under the key's next byte. */
enum { MEETS_NOTHING, MEETS_LEAF, MEETS_PREFIX, MEETS_END, MEETS_GAP };

sdb_link sdb_radix_find(const sdb_leaves *leaves, const uint8_t *base, const sdb_link *root,
                        const uint8_t *key, size_t len, sdb_place *out)
{
    const sdb_link *link = root;
    sdb_link found = 0;
    size_t at = 0, fork = 0, n_nodes = 0;
    uint8_t meets = MEETS_NOTHING;
    int byte = -1;
    while (*link && !is_leaf(*link)) {
        sdb_node *n = sdb_at((uint8_t *)(uintptr_t)base, *link);
        uint32_t prefix = sdb_node_prefix_len(n);
        fork = at;
        if (prefix) {
            fork += UNLIKELY(sdb_node_is_long(n)) ? long_match(leaves, base, n, key, len, at, &byte)
                                                  : short_match(n, key + at, len - at, &byte);
            if (fork < at + prefix) {
                meets = MEETS_PREFIX;
                goto end;
            }
        }
        if (fork == len) {
            found = n->leaf;
            meets = MEETS_END;
            goto end;
        }
        const sdb_link *slot = sdb_node_slot(n, key[fork]);
        if (!slot || !*slot) {
            meets = MEETS_GAP;
            goto end;
        }
        if (n_nodes < SDB_PLACE_NODES)
            out->node[n_nodes] = n;
        n_nodes++;
        link = slot;
        at = fork + 1;
    }
    if (*link) {
        fork = leaves->diff(leaves->ctx, sdb_at(base, *link), key, len, &byte);
        found = fork == len && byte < 0 ? *link : 0;
        meets = MEETS_LEAF;
    }
end:
    out->leaf = found;
    out->meets = meets;
    out->byte = byte;
    out->at = at;
    out->fork = fork;
    out->link = (sdb_link *)(uintptr_t)link;
    out->n = n_nodes;
    return found;
}

/* Make the nodes on the way to a place own, with `more` leaves each. Returns the link of the place, which
** has another address where they were copied. When the last one is own already, all are. */
static sdb_link *way_own(sdb_edit *e, sdb_link *root, const uint8_t *key, const sdb_place *p,
                         uint32_t more)
{
    sdb_link *link = root;
    size_t at = 0;
    if (LIKELY(p->n && p->n <= SDB_PLACE_NODES && is_own(e, p->node[p->n - 1]))) {
        for (size_t i = 0; i < p->n; i++) {
            sdb_node_set_stamp(p->node[i], e->stamp);
            p->node[i]->count += more;
        }
        return p->link;
    }
    for (size_t i = 0; i < p->n; i++) {
        sdb_node *n = node_own(e, link);
        n->count += more;
        at += sdb_node_prefix_len(n);
        link = sdb_node_slot(n, key[at++]);
    }
    return link;
}

/* One more child for the node at *link, which may have to become larger. */
static void child_add(sdb_edit *e, sdb_link *link, const uint8_t *key, size_t fork, sdb_link leaf)
{
    sdb_node *n = node_own(e, link);
    if (sdb_node_children(n) == sdb_node_room[sdb_node_kind(n)]) {
        uint32_t prefix = sdb_node_prefix_len(n);
        n = node_convert(e, link, sdb_node_kind(n) + 1);
        if (sdb_node_is_long(n)) /* now there may be room for its bytes */
            sdb_node_set_prefix(n, key + fork - prefix, prefix);
    }
    sdb_node_add(n, key[fork], leaf, false);
    n->count++;
}

void sdb_radix_put_at(sdb_edit *e, sdb_link *root, const uint8_t *key, size_t len,
                      const sdb_place *p, sdb_link leaf)
{
    sdb_link *link = way_own(e, root, key, p, !p->leaf);
    sdb_node *n;
    switch (p->meets) {
    case MEETS_NOTHING:
        *link = leaf;
        break;
    case MEETS_LEAF:
        if (p->leaf)
            *link = leaf;
        else
            split_leaf(e, link, key, len, p->at, p->fork, p->byte, leaf);
        break;
    case MEETS_PREFIX:
        split_prefix(e, link, key, len, p->at, (uint32_t)(p->fork - p->at), p->byte, leaf);
        break;
    case MEETS_END:
        n = node_own(e, link);
        n->count += !n->leaf;
        n->leaf = leaf;
        break;
    default:
        child_add(e, link, key, p->fork, leaf);
        break;
    }
}

sdb_link sdb_radix_put(const sdb_leaves *leaves, sdb_edit *e, sdb_link *root, const uint8_t *key,
                       size_t len, sdb_link leaf)
{
    sdb_place place; /* not set whole: it is large */
    sdb_link old = sdb_radix_find(leaves, e->arena->base, root, key, len, &place);
    sdb_radix_put_at(e, root, key, len, &place, leaf);
    return old;
}

/* The key is there: nothing need be compared. */
void sdb_radix_replace(sdb_edit *e, sdb_link *root, const uint8_t *key, size_t len, sdb_link old,
                       sdb_link leaf)
{
    sdb_link *link = root;
    size_t at = 0;
    while (*link != old) {
        if (LIKELY(at < len))
            sdb_node_expect(sdb_at(e->arena->base, *link), key[at]);
        sdb_node *n = node_own(e, link);
        at += sdb_node_prefix_len(n);
        link = at == len ? &n->leaf : sdb_node_slot(n, key[at++]);
        assert(link && *link);
    }
    *link = leaf;
}

/* ---------------------------------------------------------------- delete */

/* A node with neither a leaf nor a second child is not needed. The node at *link is about to lose
** all but the child under `byte`, which is a node: put that child in its place. */
static void collapse(sdb_edit *e, sdb_link *link, uint8_t byte)
{
    const sdb_node *n = sdb_at(e->arena->base, *link);
    sdb_link node = *link, child = sdb_node_find(n, byte);
    const sdb_node *c = sdb_at(e->arena->base, child);
    assert(!is_leaf(child));
    uint32_t len = sdb_node_prefix_len(n), more = sdb_node_prefix_len(c), all = len + 1 + more;
    uint8_t prefix[SDB_PREFIX_MAX];
    bool is_known = all <= SDB_PREFIX_MAX && !sdb_node_is_long(n) && !sdb_node_is_long(c);
    if (is_known) {
        memcpy(prefix, sdb_node_prefix(n), len);
        prefix[len] = byte;
        memcpy(prefix + len + 1, sdb_node_prefix(c), more);
    }
    node_reprefix(e, &child, is_known ? prefix : NULL, all);
    *link = child;
    node_drop(e, node);
}

/* The byte of the only other child, of two. */
static uint8_t other_byte(const sdb_node *n, uint8_t byte)
{
    uint8_t first = sdb_node_byte(n, sdb_node_next(n, SDB_POS_LEAF));
    return first != byte ? first : sdb_node_byte(n, sdb_node_last(n));
}

/* Remove the leaf under `byte` from the node at *link, below which two others remain or more. */
static void remove_child(sdb_edit *e, sdb_link *link, uint8_t byte)
{
    const sdb_node *n = sdb_at(e->arena->base, *link);
    if (sdb_node_children(n) == 2 && !n->leaf) {
        collapse(e, link, other_byte(n, byte));
        return;
    }
    sdb_node *own = node_own(e, link);
    sdb_node_remove(own, byte);
    own->count--;
    sdb_kind kind = sdb_node_shrunk(own);
    if (kind != sdb_node_kind(own))
        node_convert(e, link, kind);
}

/* Remove the node's own leaf; two others remain below it or more. */
static void remove_leaf(sdb_edit *e, sdb_link *link)
{
    const sdb_node *n = sdb_at(e->arena->base, *link);
    if (sdb_node_children(n) == 1) {
        collapse(e, link, sdb_node_byte(n, sdb_node_last(n)));
        return;
    }
    sdb_node *own = node_own(e, link);
    own->leaf = 0;
    own->count--;
}

/* The node at *link has just two entries, both leaves: the one that stays takes its place. */
static void remove_pair(sdb_edit *e, sdb_link *link, sdb_link leaf)
{
    const sdb_node *n = sdb_at(e->arena->base, *link);
    sdb_link node = *link, last = sdb_node_child(n, sdb_node_last(n));
    *link = last != leaf ? last : n->leaf ? n->leaf : sdb_node_child(n, sdb_node_next(n, SDB_POS_LEAF));
    node_drop(e, node);
}

void sdb_radix_take(sdb_edit *e, sdb_link *root, const uint8_t *key, size_t len, sdb_link leaf)
{
    sdb_link *link = root;
    size_t at = 0;
    while (*link != leaf) {
        const sdb_node *n = sdb_at(e->arena->base, *link);
        if (LIKELY(at < len))
            sdb_node_expect(n, key[at]);
        if (n->count == 2) {
            remove_pair(e, link, leaf);
            return;
        }
        at += sdb_node_prefix_len(n);
        if (at == len) {
            remove_leaf(e, link);
            return;
        }
        const sdb_link *slot = sdb_node_slot((sdb_node *)(uintptr_t)n, key[at]);
        assert(slot && *slot);
        if (*slot == leaf) {
            remove_child(e, link, key[at]);
            return;
        }
        sdb_node *own = node_own(e, link);
        own->count--;
        link = sdb_node_slot(own, key[at++]);
    }
    *link = 0; /* the leaf was the root */
}

sdb_link sdb_radix_del(const sdb_leaves *leaves, sdb_edit *e, sdb_link *root, const uint8_t *key,
                       size_t len)
{
    sdb_link leaf = sdb_radix_get(leaves, e->arena->base, *root, key, len);
    if (leaf)
        sdb_radix_take(e, root, key, len, leaf);
    return leaf;
}

int sdb_radix_retire(sdb_edit *e, sdb_link root)
{
    sdb_links nodes = {0}; /* those met; the walk goes through them in turn */
    int rc = root && !is_leaf(root) ? sdb_links_reserve(&nodes, 1) : SDB_OK;
    if (rc == SDB_OK && root && !is_leaf(root))
        sdb_links_push(&nodes, root);
    for (size_t i = 0; i < nodes.n && rc == SDB_OK; i++) {
        const sdb_node *n = sdb_at(e->arena->base, nodes.at[i]);
        rc = sdb_links_reserve(&nodes, sdb_node_children(n));
        if (rc != SDB_OK)
            break;
        for (int pos = sdb_node_next(n, SDB_POS_LEAF); pos != SDB_POS_NONE; pos = sdb_node_next(n, pos))
            if (!is_leaf(sdb_node_child(n, pos)))
                sdb_links_push(&nodes, sdb_node_child(n, pos));
    }
    if (rc == SDB_OK)
        rc = sdb_links_reserve(&e->retired, nodes.n);
    for (size_t i = 0; i < nodes.n && rc == SDB_OK; i++)
        node_drop(e, nodes.at[i]);
    sdb_links_fini(&nodes);
    return rc;
}

/* ---------------------------------------------------------------- counts */

uint64_t sdb_radix_count(const uint8_t *base, sdb_link root)
{
    return !root ? 0 : is_leaf(root) ? 1 : ((const sdb_node *)sdb_at(base, root))->count;
}

uint64_t sdb_radix_rank(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                        const uint8_t *key, size_t len)
{
    uint64_t below = 0;
    sdb_link link = root;
    for (size_t at = 0; link && !is_leaf(link); at++) {
        const sdb_node *n = sdb_at(base, link);
        int byte = -1;
        uint32_t prefix = sdb_node_prefix_len(n);
        uint32_t match =
            prefix ? sdb_radix_prefix_match(leaves, base, n, key, len, at, &byte) : 0;
        at += match;
        if (match < prefix)
            return below + (at < len && byte < key[at] ? n->count : 0);
        if (at == len)
            return below;
        below += n->leaf != 0;
        bool hit;
        int end = sdb_node_lower_bound(n, key[at], &hit);
        for (int pos = sdb_node_next(n, SDB_POS_LEAF); pos != SDB_POS_NONE && pos != end;
             pos = sdb_node_next(n, pos))
            below += sdb_radix_count(base, sdb_node_child(n, pos));
        if (!hit)
            return below;
        link = sdb_node_child(n, end);
    }
    if (link) {
        int byte;
        size_t fork = leaves->diff(leaves->ctx, sdb_at(base, link), key, len, &byte);
        below += fork < len && byte < (int)key[fork];
    }
    return below;
}

/* ---------------------------------------------------------------- free */

/* A dead node's count is free to hold the link back to its parent, and the node itself says which
** children are left: so the walk needs no stack, however deep the tree. */
void sdb_radix_free(sdb_arena *a, sdb_link root, uint64_t floor,
                    void (*leaf)(void *ctx, sdb_link leaf), void *ctx)
{
    sdb_link at = 0, next = root; /* the node being taken apart, and what was just taken out of it */
    for (;;) {
        if (next && is_leaf(next)) {
            if (leaf)
                leaf(ctx, next);
        } else if (next) {
            sdb_node *n = sdb_at(a->base, next);
            if (sdb_node_stamp(n) > floor) {
                sdb_arena_thaw(a, next);
                n->count = at;
                at = next;
                next = n->leaf;
                n->leaf = 0;
                if (next)
                    continue;
            }
        } else if (!at) {
            return;
        } else {
            sdb_node *n = sdb_at(a->base, at);
            sdb_link parent = n->count;
            sdb_arena_free(a, at, sdb_node_size[sdb_node_kind(n)]);
            at = parent;
        }
        if (!at)
            return;
        next = sdb_node_take_apart(sdb_at(a->base, at));
    }
}
