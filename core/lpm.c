/* lpm.c - longest match, put, delete and iteration in a persistent tree of prefixes (see lpm.h). */
#include "lpm.h"

#include <assert.h>

enum { STRIDE = SDB_LPM_STRIDE, LAST_POS = 2 * 62 - 1 /* see "positions in a node" */ };

/* ---------------------------------------------------------------- what is in a node */

/* The place in preorder of the prefix of `len` bits that slot begins with; its other bits are 0.
** Before it are 2 * slot - popcount(slot) prefixes of the slots before, and its own covers. */
#define INDEX(slot, len) (2 * (slot) + (len) - (unsigned)__builtin_popcount(slot) - 1)

#define BIT(slot, len) ((uint64_t)1 << INDEX((slot) & (31u << (STRIDE - (len)) & 31u), len))
#define COVERS(slot) (BIT(slot, 1u) | BIT(slot, 2u) | BIT(slot, 3u) | BIT(slot, 4u) | BIT(slot, 5u))
#define COVERS4(s) COVERS(s), COVERS(s + 1u), COVERS(s + 2u), COVERS(s + 3u)

/* The covers of each slot: where they are in order, the longest is the highest. */
static const uint64_t COVERS_OF[32] = {COVERS4(0u),  COVERS4(4u),  COVERS4(8u),  COVERS4(12u),
                                       COVERS4(16u), COVERS4(20u), COVERS4(24u), COVERS4(28u)};

/* The prefixes of five bits: INDEX(slot, 5) of all slots. */
static const uint64_t FULL = 0x366c6cd86cd8d9b0u;

static inline uint64_t bits_below(unsigned n)
{
    return ((uint64_t)1 << n) - 1;
}

static inline unsigned popcount(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

static inline unsigned highest(uint64_t bits)
{
    return 63u - (unsigned)__builtin_clzll(bits);
}

static inline unsigned lowest(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits);
}

/* The covers of the key that end in this node; it reaches the node's position at least. */
static inline uint64_t covers_in(const sdb_lpm_node *n, unsigned pos, unsigned slot,
                                 const sdb_lpm_key *k)
{
    uint64_t covers = n->prefixes & COVERS_OF[slot];
    if (k->len < pos + STRIDE)
        covers &= bits_below(INDEX(slot, k->len - pos) + 1);
    return covers;
}

/* How many of the 62 a prefix covers, itself included. */
static unsigned subtree(unsigned len)
{
    return (2u << (STRIDE - len)) - 1;
}

/* The slot, and returned the length, of the prefix with an index. */
static unsigned index_place(unsigned i, unsigned *slot)
{
    unsigned len = 1;
    for (*slot = 0;; len++, i--) {
        if (i >= subtree(len)) { /* behind the prefix that ends in 0 and all it covers */
            *slot |= 1u << (STRIDE - len);
            i -= subtree(len);
        }
        if (i == 0)
            return len;
    }
}

/* Where in word[] the links are. */
static inline unsigned child_word(const sdb_lpm_node *n, unsigned slot)
{
    return sdb_lpm_words(n->head) + popcount(n->children & bits_below(slot));
}

/* The child of a slot, or 0. */
static inline sdb_link child_at(const sdb_lpm_node *n, unsigned slot)
{
    return n->children >> slot & 1 ? n->word[child_word(n, slot)] : 0;
}

static inline unsigned prefix_word(const sdb_lpm_node *n, unsigned i)
{
    return sdb_lpm_words(n->head) + popcount(n->children) + popcount(n->prefixes & bits_below(i));
}

static unsigned node_entries(const sdb_lpm_node *n)
{
    return popcount(n->children) + popcount(n->prefixes);
}

static unsigned node_words(const sdb_lpm_node *n)
{
    return sdb_lpm_words(n->head) + node_entries(n);
}

/* Rounded as the arena does, to know when a node may grow where it is. */
static size_t node_size(unsigned words)
{
    size_t n = sizeof(sdb_lpm_node) + words * sizeof(uint32_t);
    return n <= 128 ? (n + 7) / 8 * 8 : n <= 256 ? (n + 15) / 16 * 16 : (n + 31) / 32 * 32;
}

static size_t leaf_size(unsigned words)
{
    return (offsetof(sdb_lpm_leaf, path) + words * sizeof(uint32_t) + 7) / 8 * 8;
}

size_t sdb_lpm_size(const void *node)
{
    const sdb_lpm_node *n = node;
    return sdb_lpm_is_leaf(n->head) ? leaf_size(sdb_lpm_words(n->head)) : node_size(node_words(n));
}

/* ---------------------------------------------------------------- look-up */

/* Whether what is in a node, or the leaf, and the key go the same way as far as *pos, which is set:
** its position. Coming from its parent *pos is right already if the node has no path, and what is
** done with it need not wait for the head. */
static inline bool is_reached(const sdb_lpm_node *n, const sdb_lpm_key *k, unsigned *pos)
{
    if (sdb_lpm_words(n->head) == 0)
        return true;
    *pos = sdb_lpm_pos(n->head);
    return *pos <= k->len && sdb_lpm_fork(n, n->head, k, *pos) == *pos;
}

static inline sdb_link leaf_link(const void *leaf)
{
    return ((const sdb_lpm_leaf *)leaf)->link;
}

sdb_link sdb_lpm_get(const uint8_t *base, sdb_link root, const sdb_prefix *p)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    unsigned pos = SDB_LPM_ROOT;
    for (sdb_link link = root; link; pos += STRIDE) {
        const sdb_lpm_node *n = sdb_at(base, link);
        bool is_leaf = sdb_lpm_is_leaf(n->head);
        if (!is_reached(n, &k, &pos) || (pos == k.len) != is_leaf)
            break;
        if (is_leaf)
            return leaf_link(n);
        unsigned slot = sdb_lpm_slot(&k, pos);
        if (k.len <= pos + STRIDE) {
            unsigned i = INDEX(slot, k.len - pos);
            return n->prefixes >> i & 1 ? n->word[prefix_word(n, i)] : 0;
        }
        link = child_at(n, slot);
    }
    return 0;
}

/* A look-up of the longest cover, on its way down. */
typedef struct search {
    sdb_link link; /* of the node it comes to; when it has ended 0, or the link in a leaf that it has ended in */
    unsigned pos;
    const sdb_lpm_node *best; /* holds the longest cover so far, as the highest of these */
    uint64_t covers;
} search;

static inline bool search_ends(search *s, sdb_link link)
{
    s->link = link;
    return false;
}

/* One node further; false: it has ended. is_short: the key is in its first two words, which are `two`, as that
** of any IPv4 prefix, and a slot two shifts away. */
static inline __attribute__((always_inline)) bool
search_step(const uint8_t *base, search *s, const sdb_lpm_key *k, uint64_t two, bool is_short)
{
    const sdb_lpm_node *n = sdb_at(base, s->link);
    const sdb_link *children = n->word;
    if (sdb_lpm_words(n->head)) {
        if (!is_reached(n, k, &s->pos))
            return search_ends(s, 0);
        if (sdb_lpm_is_leaf(n->head)) /* a leaf always has a path */
            return search_ends(s, leaf_link(n));
        children += sdb_lpm_words(n->head);
    }
    unsigned slot =
        is_short ? (unsigned)(two << s->pos >> (64 - STRIDE)) : sdb_lpm_slot(k, s->pos);
    uint64_t here = covers_in(n, s->pos, slot, k);
    if (here) {
        s->best = n;
        s->covers = here;
    }
    if (k->len <= s->pos + STRIDE || !(n->children >> slot & 1))
        return search_ends(s, 0);
    s->link = children[popcount(n->children & bits_below(slot))];
    s->pos += STRIDE;
    return true;
}

/* Where the best node has the link. */
static inline const sdb_link *search_best(const search *s)
{
    return &s->best->word[prefix_word(s->best, highest(s->covers))];
}

static inline sdb_link match(const uint8_t *base, sdb_link root, const sdb_lpm_key *k,
                             bool is_short)
{
    search s = {.link = root, .pos = SDB_LPM_ROOT};
    uint64_t two = (uint64_t)k->word[0] << 32 | k->word[1];
    while (s.link && search_step(base, &s, k, two, is_short))
        ;
    return s.link ? s.link : s.best ? *search_best(&s) : 0;
}

sdb_link sdb_lpm_match(const uint8_t *base, sdb_link root, const sdb_prefix *p)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    return k.len <= 64 ? match(base, root, &k, true) : match(base, root, &k, false);
}

void sdb_lpm_match_all(const uint8_t *base, sdb_link root, const sdb_prefix *p, size_t n, sdb_link *out)
{
    sdb_lpm_key key[SDB_GROUP];
    search s[SDB_GROUP], *under_way[SDB_GROUP];
    size_t left = root ? n : 0;
    assert(n <= SDB_GROUP);
    for (size_t i = 0; i < n; i++) {
        sdb_lpm_key_init(&key[i], &p[i]);
        s[i] = (search){.link = root, .pos = SDB_LPM_ROOT};
        under_way[i] = &s[i];
    }
    while (left > 0) {
        size_t were = left;
        left = 0;
        for (size_t i = 0; i < were; i++) {
            search *at = under_way[i];
            if (search_step(base, at, &key[at - s], 0, false))
                under_way[left++] = at;
            __builtin_prefetch(sdb_at(base, at->link));
        }
    }
    for (size_t i = 0; i < n; i++)
        if (!s[i].link && s[i].best)
            __builtin_prefetch(search_best(&s[i]));
    for (size_t i = 0; i < n; i++) {
        out[i] = s[i].link ? s[i].link : s[i].best ? *search_best(&s[i]) : 0;
        __builtin_prefetch(sdb_at(base, out[i]));
    }
}

/* ---------------------------------------------------------------- owning nodes */

/* Nodes from the root to one that holds the prefix. */
static unsigned path_most(const sdb_prefix *p)
{
    return (32u + p->bits - 1 - SDB_LPM_ROOT) / STRIDE + 1;
}

size_t sdb_lpm_need(const sdb_arena *a, const sdb_prefix *p)
{
    /* Each node of the path may be copied, as far as there are any, and a node and a leaf be new.
    ** They may be of as many sizes, and each then take the first block of a page. */
    uint64_t nodes = atomic_load_explicit(&a->live, memory_order_relaxed) / sizeof(sdb_lpm_node);
    uint64_t path = path_most(p);
    return (size_t)((path < nodes ? path : nodes) + 2) * SDB_PAGE;
}

size_t sdb_lpm_need_links(const sdb_prefix *p)
{
    return path_most(p) + 2;
}

static bool is_own(const sdb_edit *e, const void *node)
{
    return sdb_node_stamp(node) > e->floor;
}

/* The node or leaf at `link` is in the tree no more. */
static void node_drop(sdb_edit *e, sdb_link link)
{
    const void *n = sdb_at(e->arena->base, link);
    if (is_own(e, n))
        sdb_arena_free(e->arena, link, sdb_lpm_size(n));
    else
        sdb_links_push(&e->retired, link);
}

static uint64_t head_new(const sdb_edit *e, unsigned kind, unsigned words, unsigned pos)
{
    return e->stamp << 16 | pos << 8 | words << 4 | kind;
}

/* A path up to `pos`; the key has it. */
static void path_put(uint32_t *path, unsigned words, const sdb_lpm_key *k, unsigned pos)
{
    sdb_lpm_key cut = *k;
    sdb_lpm_key_cut(&cut, pos);
    memcpy(path, cut.word + (pos - 1) / 32 + 1 - words, words * sizeof *path);
}

static sdb_link leaf_new(sdb_edit *e, const sdb_lpm_key *k, unsigned start, sdb_link link)
{
    unsigned words = sdb_lpm_path_need(start, k->len);
    sdb_link at = sdb_arena_node(e->arena, leaf_size(words));
    sdb_lpm_leaf *leaf = sdb_at(e->arena->base, at);
    leaf->head = head_new(e, SDB_LPM_LEAF, words, k->len);
    leaf->link = link;
    path_put(leaf->path, words, k, k->len);
    return at;
}

/* The leaf at *at, own, with another link. Returns the one it had. */
static sdb_link leaf_replace(sdb_edit *e, sdb_link *at, const sdb_lpm_key *k, sdb_link link)
{
    sdb_lpm_leaf *leaf = sdb_at(e->arena->base, *at);
    sdb_link old = leaf->link;
    if (is_own(e, leaf)) {
        leaf->link = link;
        sdb_node_set_stamp((sdb_node *)(void *)leaf, e->stamp);
        return old;
    }
    sdb_link copy = leaf_new(e, k, sdb_lpm_path_first(leaf->head) * 32, link);
    node_drop(e, *at);
    *at = copy;
    return old;
}

/* The node at *at, own, and with one word more before word `at_word` (by: 1; its value is for the
** caller to set), or without that word (by: -1), or with the same (by: 0). What is in it by its
** bitmaps and count is for the caller to say. */
static sdb_lpm_node *node_own(sdb_edit *e, sdb_link *at, unsigned at_word, int by)
{
    sdb_lpm_node *n = sdb_at(e->arena->base, *at), *to = n;
    if (by == 0 && is_own(e, n)) {
        sdb_node_set_stamp((sdb_node *)(void *)n, e->stamp);
        return n;
    }
    unsigned words = node_words(n);
    size_t size = node_size(words + (unsigned)by);
    sdb_link copy = *at;
    if (!is_own(e, n) || size != node_size(words)) {
        copy = sdb_arena_node(e->arena, size);
        to = sdb_at(e->arena->base, copy);
        memcpy(to, n, sizeof *n + at_word * sizeof *n->word);
    }
    unsigned gone = by < 0;
    memmove(to->word + at_word + (by > 0), n->word + at_word + gone,
            (words - at_word - gone) * sizeof *n->word);
    if (to != n)
        node_drop(e, *at);
    *at = copy;
    sdb_node_set_stamp((sdb_node *)(void *)to, e->stamp);
    return to;
}

/* ---------------------------------------------------------------- put */

/* Something to be put into a node: exactly one of child and prefix is a bit. */
typedef struct entry {
    uint32_t child;
    uint64_t prefix;
    sdb_link link;
} entry;

/* A prefix as it stands in a node at `pos`: there, or as a leaf below. `leaf`: it is one already. */
static entry entry_of(sdb_edit *e, const sdb_lpm_key *k, unsigned pos, sdb_link link, sdb_link leaf)
{
    unsigned slot = sdb_lpm_slot(k, pos);
    if (k->len <= pos + STRIDE) {
        if (leaf)
            node_drop(e, leaf);
        return (entry){0, (uint64_t)1 << INDEX(slot, k->len - pos), link};
    }
    return (entry){(uint32_t)1 << slot, 0, leaf ? leaf : leaf_new(e, k, pos + STRIDE, link)};
}

static unsigned entry_word(const sdb_lpm_node *n, const entry *x)
{
    return x->child ? child_word(n, lowest(x->child)) : prefix_word(n, lowest(x->prefix));
}

/* A new node above the one at *at, whose path, or length, parts from the key at `bit`. */
static void node_split(sdb_edit *e, sdb_link *at, unsigned start, const sdb_lpm_key *k,
                       unsigned bit, sdb_link link)
{
    const void *old = sdb_at(e->arena->base, *at);
    uint64_t head = ((const sdb_lpm_node *)old)->head;
    unsigned pos = sdb_lpm_level(bit), words = sdb_lpm_path_need(start, pos);
    sdb_lpm_key other = *k;
    sdb_lpm_key_cut(&other, sdb_lpm_path_first(head) * 32);
    sdb_lpm_key_follow(&other, old);
    uint32_t count = 1;
    entry x[2];
    if (sdb_lpm_is_leaf(head)) {
        x[0] = entry_of(e, &other, pos, leaf_link(old), *at);
    } else {
        count = ((const sdb_lpm_node *)old)->count;
        x[0] = (entry){(uint32_t)1 << sdb_lpm_slot(&other, pos), 0, *at};
    }
    x[1] = entry_of(e, k, pos, link, 0);
    *at = sdb_arena_node(e->arena, node_size(words + 2));
    sdb_lpm_node *n = sdb_at(e->arena->base, *at);
    n->head = head_new(e, SDB_LPM_NODE, words, pos);
    n->children = x[0].child | x[1].child;
    n->prefixes = x[0].prefix | x[1].prefix;
    n->count = count + 1;
    if (words)
        path_put(n->word, words, k, pos);
    n->word[entry_word(n, &x[0])] = x[0].link;
    n->word[entry_word(n, &x[1])] = x[1].link;
}

static void node_add(sdb_edit *e, sdb_link *at, const sdb_lpm_key *k, unsigned pos, sdb_link link)
{
    entry x = entry_of(e, k, pos, link, 0);
    unsigned word = entry_word(sdb_at(e->arena->base, *at), &x);
    sdb_lpm_node *n = node_own(e, at, word, 1);
    n->word[word] = x.link;
    n->children |= x.child;
    n->prefixes |= x.prefix;
    n->count++;
}

sdb_link sdb_lpm_put(sdb_edit *e, sdb_link *root, const sdb_prefix *p, sdb_link link)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    sdb_lpm_node *trail[SDB_LPM_DEPTH]; /* to be counted once it is known that the prefix is new */
    unsigned depth = 0, start = SDB_LPM_ROOT;
    sdb_link *at = root;
    if (!*root) {
        *root = leaf_new(e, &k, start, link);
        return 0;
    }
    for (;;) {
        sdb_lpm_node *n = sdb_at(e->arena->base, *at);
        bool is_leaf = sdb_lpm_is_leaf(n->head);
        unsigned pos = sdb_lpm_pos(n->head), end = pos < k.len ? pos : k.len;
        unsigned fork = sdb_lpm_fork(n, n->head, &k, end);
        if (is_leaf && fork == end && pos == k.len)
            return leaf_replace(e, at, &k, link);
        if (is_leaf || fork < end || k.len <= pos) {
            node_split(e, at, start, &k, fork < end ? fork : end - 1, link);
            break;
        }
        unsigned slot = sdb_lpm_slot(&k, pos), i = INDEX(slot, k.len - pos);
        bool is_here = k.len <= pos + STRIDE;
        if (is_here ? !(n->prefixes >> i & 1) : !(n->children >> slot & 1)) {
            node_add(e, at, &k, pos, link);
            break;
        }
        n = node_own(e, at, 0, 0);
        if (is_here) {
            sdb_link *value = &n->word[prefix_word(n, i)], old = *value;
            *value = link;
            return old;
        }
        trail[depth++] = n;
        at = &n->word[child_word(n, slot)];
        start = pos + STRIDE;
    }
    while (depth > 0)
        trail[--depth]->count++;
    return 0;
}

/* ---------------------------------------------------------------- delete */

/* The node or leaf at `link`, with a path from `start`, which is above its parent. The key has it up
** to where its own path begins. */
static sdb_link node_lift(sdb_edit *e, sdb_link link, sdb_lpm_key *k, unsigned start)
{
    const sdb_lpm_node *n = sdb_at(e->arena->base, link);
    unsigned had = sdb_lpm_words(n->head), pos = sdb_lpm_pos(n->head);
    unsigned words = sdb_lpm_path_need(start, pos);
    if (had >= words)
        return link;
    sdb_lpm_key_follow(k, n);
    sdb_link lifted;
    if (sdb_lpm_is_leaf(n->head)) {
        lifted = leaf_new(e, k, start, leaf_link(n));
    } else {
        lifted = sdb_arena_node(e->arena, node_size(words + node_entries(n)));
        sdb_lpm_node *to = sdb_at(e->arena->base, lifted);
        *to = *n;
        to->head = head_new(e, SDB_LPM_NODE, words, pos);
        path_put(to->word, words, k, pos);
        memcpy(to->word + words, n->word + had, node_entries(n) * sizeof *n->word);
    }
    node_drop(e, link);
    return lifted;
}

/* Take a child or prefix out of the node at *at. One that is left alone takes the node's place. */
static void node_remove(sdb_edit *e, sdb_link *at, unsigned start, sdb_lpm_key *k, entry x)
{
    sdb_lpm_node *n = sdb_at(e->arena->base, *at);
    if (node_entries(n) > 2) {
        n = node_own(e, at, entry_word(n, &x), -1);
        n->children &= ~x.child;
        n->prefixes &= ~x.prefix;
        n->count--;
        return;
    }
    uint32_t child = n->children & ~x.child;
    uint64_t prefix = n->prefixes & ~x.prefix;
    unsigned pos = sdb_lpm_pos(n->head), slot;
    sdb_link stays;
    if (child) {
        slot = lowest(child);
        sdb_lpm_key_set(k, pos, slot, STRIDE);
        stays = node_lift(e, n->word[child_word(n, slot)], k, start);
    } else {
        unsigned i = lowest(prefix), len = index_place(i, &slot);
        sdb_lpm_key_set(k, pos, slot, len);
        stays = leaf_new(e, k, start, n->word[prefix_word(n, i)]);
    }
    node_drop(e, *at);
    *at = stays;
}

sdb_link sdb_lpm_del(sdb_edit *e, sdb_link *root, const sdb_prefix *p)
{
    const uint8_t *base = e->arena->base;
    sdb_link old = sdb_lpm_get(base, *root, p);
    if (!old)
        return 0;
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    sdb_link *at = root;
    unsigned start = SDB_LPM_ROOT;
    for (;;) {
        sdb_lpm_node *n = sdb_at(base, *at);
        if (sdb_lpm_is_leaf(n->head))
            break;
        unsigned pos = sdb_lpm_pos(n->head), slot = sdb_lpm_slot(&k, pos);
        if (k.len <= pos + STRIDE) {
            entry x = {.prefix = (uint64_t)1 << INDEX(slot, k.len - pos)};
            node_remove(e, at, start, &k, x);
            return old;
        }
        sdb_link child = n->word[child_word(n, slot)];
        if (sdb_lpm_is_leaf(((const sdb_lpm_leaf *)sdb_at(base, child))->head)) {
            node_drop(e, child);
            node_remove(e, at, start, &k, (entry){.child = (uint32_t)1 << slot});
            return old;
        }
        n = node_own(e, at, 0, 0);
        n->count--;
        at = &n->word[child_word(n, slot)];
        start = pos + STRIDE;
    }
    node_drop(e, *root); /* the leaf was the root */
    *root = 0;
    return old;
}

/* ---------------------------------------------------------------- free */

void sdb_lpm_free(sdb_arena *a, sdb_link root, uint64_t floor,
                  void (*value)(void *ctx, sdb_link link), void *ctx)
{
    sdb_link todo[SDB_LPM_DEPTH * 32];
    unsigned n_todo = 0;
    if (root)
        todo[n_todo++] = root;
    while (n_todo > 0) {
        sdb_link at = todo[--n_todo];
        const sdb_lpm_node *n = sdb_at(a->base, at);
        if (sdb_node_stamp((const sdb_node *)(const void *)n) <= floor)
            continue;
        if (sdb_lpm_is_leaf(n->head)) {
            if (value)
                value(ctx, leaf_link(n));
        } else {
            unsigned word = sdb_lpm_words(n->head), end = word + popcount(n->children);
            for (; word < end; word++)
                todo[n_todo++] = n->word[word];
            for (end = node_words(n); value && word < end; word++)
                value(ctx, n->word[word]);
        }
        sdb_arena_free(a, at, sdb_lpm_size(n));
    }
}

/* ---------------------------------------------------------------- covering prefixes */

void sdb_lpm_covers_open(sdb_lpm_covers *c, const uint8_t *base, sdb_link root, const sdb_prefix *p)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    c->base = base;
    c->first = c->n = 0;
    unsigned pos = SDB_LPM_ROOT;
    for (sdb_link link = root; link; pos += STRIDE) {
        const sdb_lpm_node *n = sdb_at(base, link);
        bool is_leaf = sdb_lpm_is_leaf(n->head);
        if (!is_reached(n, &k, &pos))
            return;
        unsigned slot = is_leaf ? 0 : sdb_lpm_slot(&k, pos);
        uint64_t covers = is_leaf ? 1 : covers_in(n, pos, slot, &k);
        if (covers) {
            c->step[c->n].node = n;
            c->step[c->n++].left = covers;
        }
        link = is_leaf || k.len <= pos + STRIDE ? 0 : child_at(n, slot);
    }
}

static sdb_link covers_link(const void *node, unsigned i)
{
    const sdb_lpm_node *n = node;
    return sdb_lpm_is_leaf(n->head) ? leaf_link(node) : n->word[prefix_word(n, i)];
}

sdb_link sdb_lpm_covers_longest(sdb_lpm_covers *c)
{
    if (c->first == c->n)
        return 0;
    uint64_t *left = &c->step[c->n - 1].left;
    unsigned i = highest(*left);
    sdb_link link = covers_link(c->step[c->n - 1].node, i);
    *left &= ~((uint64_t)1 << i);
    if (!*left)
        c->n--;
    return link;
}

sdb_link sdb_lpm_covers_shortest(sdb_lpm_covers *c)
{
    if (c->first == c->n)
        return 0;
    uint64_t *left = &c->step[c->first].left;
    sdb_link link = covers_link(c->step[c->first].node, lowest(*left));
    *left &= *left - 1;
    if (!*left)
        c->first++;
    return link;
}

/* ---------------------------------------------------------------- positions in a node
**
** In preorder, the prefix with index i is at position 2i, and what is below the child of a slot at
** one behind the slot's prefix of five bits, whether that is there or not. */

static int child_pos(unsigned slot)
{
    return (int)(2 * INDEX(slot, STRIDE) + 1);
}

/* The slot of the first child at or behind a position. */
static inline unsigned pos_slot(int pos)
{
    return popcount(FULL & bits_below((unsigned)pos / 2));
}

/* The next position with something at it, or one behind the last. From -1: the first. */
static inline int pos_next(const sdb_lpm_node *n, int pos)
{
    uint64_t prefixes = n->prefixes & ~bits_below((unsigned)(pos + 2) / 2);
    if (!n->children) /* as in most nodes */
        return prefixes ? (int)lowest(prefixes) * 2 : LAST_POS + 1;
    uint64_t children = n->children & ~bits_below(pos_slot(pos + 1));
    int prefix = prefixes ? (int)lowest(prefixes) * 2 : LAST_POS + 1;
    int child = children ? child_pos(lowest(children)) : LAST_POS + 1;
    return prefix < child ? prefix : child;
}

/* The one before, or -1. */
static int pos_prev(const sdb_lpm_node *n, int pos)
{
    uint64_t prefixes = n->prefixes & bits_below((unsigned)(pos + 1) / 2);
    uint64_t children = n->children & bits_below(pos_slot(pos));
    int prefix = prefixes ? (int)highest(prefixes) * 2 : -1;
    int child = children ? child_pos(highest(children)) : -1;
    return prefix > child ? prefix : child;
}

static inline sdb_link pos_link(const sdb_lpm_node *n, int pos)
{
    return n->word[pos % 2 ? child_word(n, pos_slot(pos)) : prefix_word(n, (unsigned)pos / 2)];
}

/* ---------------------------------------------------------------- iteration */

void sdb_lpm_iter_open(sdb_lpm_iter *it, const uint8_t *base, sdb_link root)
{
    it->base = base;
    it->root = root;
    it->link = 0;
    it->lo = 0;
    it->hi = LAST_POS;
    it->over = (sdb_prefix){0};
    it->leaf = NULL;
    it->depth = 0;
}

void sdb_lpm_iter_within(sdb_lpm_iter *it, const uint8_t *base, sdb_link root, const sdb_prefix *p)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    sdb_lpm_iter_open(it, base, 0);
    it->over = *p;
    for (sdb_link link = root; link;) {
        const sdb_lpm_node *n = sdb_at(base, link);
        unsigned pos = sdb_lpm_pos(n->head), end = pos < k.len ? pos : k.len;
        if (sdb_lpm_fork(n, n->head, &k, end) < end || (sdb_lpm_is_leaf(n->head) && pos < k.len))
            return;
        it->root = link;
        if (k.len <= pos)
            return;
        unsigned slot = sdb_lpm_slot(&k, pos);
        if (k.len <= pos + STRIDE) {
            unsigned i = INDEX(slot, k.len - pos);
            it->lo = (int)(2 * i);
            it->hi = (int)(2 * (i + subtree(k.len - pos)) - 1);
            return;
        }
        link = child_at(n, slot);
        it->root = 0;
    }
}

uint64_t sdb_lpm_iter_count(const sdb_lpm_iter *it)
{
    const sdb_lpm_node *n = it->root ? sdb_at(it->base, it->root) : NULL;
    if (!n || sdb_lpm_is_leaf(n->head))
        return n != NULL;
    uint64_t count = 0;
    for (int pos = pos_next(n, it->lo - 1); pos <= it->hi; pos = pos_next(n, pos))
        count += pos % 2 ? sdb_lpm_count(it->base, pos_link(n, pos)) : 1;
    return count;
}

static sdb_link iter_end(sdb_lpm_iter *it)
{
    it->leaf = NULL;
    return it->link = 0;
}

/* Onto a leaf, or into a node before or behind all that is in it, from where next or prev goes on;
** returns the leaf's link. */
static sdb_link iter_enter(sdb_lpm_iter *it, sdb_link link, int pos)
{
    const void *n = sdb_at(it->base, link);
    if (sdb_lpm_is_leaf(((const sdb_lpm_node *)n)->head)) {
        it->leaf = n;
        return it->link = leaf_link(n);
    }
    it->step[it->depth].node = n;
    it->step[it->depth++].pos = pos;
    return 0;
}

sdb_link sdb_lpm_iter_next(sdb_lpm_iter *it)
{
    while (it->depth > 0) {
        const sdb_lpm_node *n = it->step[it->depth - 1].node;
        int pos = pos_next(n, it->step[it->depth - 1].pos);
        if (pos > (it->depth == 1 ? it->hi : LAST_POS)) {
            it->depth--;
            continue;
        }
        it->step[it->depth - 1].pos = pos;
        sdb_link link = pos_link(n, pos);
        if (pos % 2 == 0) {
            it->leaf = NULL;
            return it->link = link;
        }
        if (iter_enter(it, link, -1))
            return it->link;
    }
    return iter_end(it);
}

sdb_link sdb_lpm_iter_prev(sdb_lpm_iter *it)
{
    while (it->depth > 0) {
        const sdb_lpm_node *n = it->step[it->depth - 1].node;
        int pos = pos_prev(n, it->step[it->depth - 1].pos);
        if (pos < (it->depth == 1 ? it->lo : 0)) {
            it->depth--;
            continue;
        }
        it->step[it->depth - 1].pos = pos;
        sdb_link link = pos_link(n, pos);
        if (pos % 2 == 0) {
            it->leaf = NULL;
            return it->link = link;
        }
        if (iter_enter(it, link, LAST_POS + 1))
            return it->link;
    }
    return iter_end(it);
}

sdb_link sdb_lpm_iter_first(sdb_lpm_iter *it)
{
    it->depth = 0;
    if (!it->root)
        return iter_end(it);
    sdb_link link = iter_enter(it, it->root, it->lo - 1);
    return link ? link : sdb_lpm_iter_next(it);
}

sdb_link sdb_lpm_iter_last(sdb_lpm_iter *it)
{
    it->depth = 0;
    if (!it->root)
        return iter_end(it);
    sdb_link link = iter_enter(it, it->root, it->hi + 1);
    return link ? link : sdb_lpm_iter_prev(it);
}

sdb_link sdb_lpm_iter_seek(sdb_lpm_iter *it, const sdb_prefix *p)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, p);
    it->depth = 0;
    for (sdb_link link = it->root; link;) {
        const sdb_lpm_node *n = sdb_at(it->base, link);
        unsigned pos = sdb_lpm_pos(n->head), end = pos < k.len ? pos : k.len;
        unsigned fork = sdb_lpm_fork(n, n->head, &k, end);
        bool is_leaf = sdb_lpm_is_leaf(n->head);
        if (fork < end ? !(k.word[fork / 32] >> (31 - fork % 32) & 1) : k.len <= pos) {
            sdb_link leaf = iter_enter(it, link, -1); /* all of it is above the key */
            return leaf ? leaf : sdb_lpm_iter_next(it);
        }
        if (is_leaf || fork < end)
            break; /* all of it is below */
        unsigned slot = sdb_lpm_slot(&k, pos);
        bool is_here = k.len <= pos + STRIDE;
        iter_enter(it, link, is_here ? (int)(2 * INDEX(slot, k.len - pos)) - 1 : child_pos(slot));
        link = is_here ? 0 : child_at(n, slot);
    }
    return sdb_lpm_iter_next(it);
}

sdb_link sdb_lpm_iter_seek_below(sdb_lpm_iter *it, const sdb_prefix *p)
{
    return sdb_lpm_iter_seek(it, p) ? sdb_lpm_iter_prev(it) : sdb_lpm_iter_last(it);
}

void sdb_lpm_iter_prefix(const sdb_lpm_iter *it, sdb_prefix *out)
{
    sdb_lpm_key k;
    sdb_lpm_key_init(&k, &it->over);
    for (int i = 0; i < it->depth; i++) {
        int pos = it->step[i].pos;
        unsigned slot = pos_slot(pos), len = STRIDE;
        if (pos % 2 == 0)
            len = index_place((unsigned)pos / 2, &slot);
        sdb_lpm_key_follow(&k, it->step[i].node);
        sdb_lpm_key_set(&k, k.len, slot, len);
    }
    if (it->leaf)
        sdb_lpm_key_follow(&k, it->leaf);
    *out = (sdb_prefix){.family = (uint8_t)k.word[0], .bits = (uint8_t)(k.len - 32)};
    for (unsigned i = 0; i < 16; i++)
        out->addr[i] = (uint8_t)(k.word[i / 4 + 1] >> (24 - i % 4 * 8));
}
