/* lpm_check.c - the validator of trees of prefixes (see lpm.h).
**
** The walk carries the key of the path. Whatever a node says of its key, in its path or by its
** place, must be what the walk has found, and what it adds must belong there. */
#include "lpm.h"

typedef struct frame {
    const sdb_lpm_node *node;
    sdb_lpm_key key; /* up to the node's position */
    unsigned slot;   /* of the next child to look at */
    uint64_t count;  /* prefixes seen before this node */
} frame;

typedef struct walk {
    const uint8_t *base;
    frame frame[SDB_LPM_DEPTH];
    unsigned depth;
    uint64_t count;
} walk;

/* Whether a prefix may have so many bits. */
static bool is_length(const sdb_lpm_key *k, unsigned len)
{
    return k->word[0] < SDB_FAMILIES && len >= 32 &&
           len <= 32 + sdb_family_bits((sdb_family)k->word[0]);
}

/* Go on from a key that ends where the parent's slot does to what the path of a node or leaf adds. */
static const char *check_path(sdb_lpm_key *k, const void *node, uint64_t head)
{
    unsigned start = k->len, pos = sdb_lpm_pos(head), words = sdb_lpm_words(head);
    if (words > 5 || words > (pos - 1) / 32 + 1)
        return "a path is longer than its key";
    if (words < sdb_lpm_path_need(start, pos))
        return "a path does not begin where its parent ends";
    sdb_lpm_key whole = *k;
    sdb_lpm_key_follow(&whole, node);
    sdb_lpm_key known = whole;
    sdb_lpm_key_cut(&known, start);
    for (unsigned i = 0; i < 6; i++)
        if (known.word[i] != k->word[i])
            return "a path is not where it says";
    known = whole;
    sdb_lpm_key_cut(&known, pos);
    for (unsigned i = 0; i < 6; i++)
        if (known.word[i] != whole.word[i])
            return "a path has bits behind its end";
    *k = known;
    return NULL;
}

static const char *check_leaf(sdb_lpm_key *k, const sdb_lpm_leaf *leaf)
{
    if (sdb_lpm_pos(leaf->head) <= k->len)
        return "a leaf should be in the node above it";
    const char *wrong = check_path(k, leaf, leaf->head);
    if (wrong)
        return wrong;
    if (!is_length(k, k->len))
        return "a leaf is longer than its family's addresses";
    return leaf->link ? NULL : "a leaf has no link";
}

/* All prefixes in a node, in preorder. */
static const char *check_prefixes(const sdb_lpm_key *k, const sdb_lpm_node *n)
{
    unsigned slot = 0, len = 1;
    for (unsigned i = 0; i < 62; i++) {
        sdb_lpm_key here = *k;
        sdb_lpm_key_set(&here, k->len, slot, len);
        if (n->prefixes >> i & 1 && !is_length(&here, here.len))
            return "a prefix is longer than its family's addresses";
        if (len < SDB_LPM_STRIDE) {
            len++;
            continue;
        }
        for (slot++; len > 1 && !(slot >> (SDB_LPM_STRIDE - len) & 1);)
            len--;
    }
    return NULL;
}

static const char *check_node(sdb_lpm_key *k, const sdb_lpm_node *n)
{
    unsigned pos = sdb_lpm_pos(n->head);
    if (pos < SDB_LPM_ROOT || pos % SDB_LPM_STRIDE != 1 || pos < k->len || pos >= 160)
        return "a node is at no position of nodes";
    const char *wrong = check_path(k, n, n->head);
    if (wrong)
        return wrong;
    if (n->prefixes >> 62)
        return "a node has a prefix too many";
    unsigned children = (unsigned)__builtin_popcount(n->children);
    unsigned prefixes = (unsigned)__builtin_popcountll(n->prefixes);
    if (children + prefixes < 2)
        return "a node is not needed";
    for (unsigned i = 0; i < children + prefixes; i++)
        if (!n->word[sdb_lpm_words(n->head) + i])
            return "a node has an empty link";
    return check_prefixes(k, n);
}

/* Look at the node at `link`, whose key goes on from k. */
static const char *enter(walk *w, sdb_link link, sdb_lpm_key k, uint64_t stamp)
{
    const sdb_node *head = sdb_at(w->base, link);
    const void *node = head;
    if (sdb_node_stamp(head) > stamp)
        return "a node is younger than its parent";
    if ((head->head & 15) == SDB_LPM_LEAF) {
        w->count++;
        return check_leaf(&k, node);
    }
    if ((head->head & 15) != SDB_LPM_NODE || head->head >> 7 & 1)
        return "a node is of no kind";
    if (w->depth == SDB_LPM_DEPTH)
        return "a tree is too deep";
    const char *wrong = check_node(&k, node);
    w->frame[w->depth++] = (frame){node, k, 0, w->count};
    w->count += (unsigned)__builtin_popcountll(((const sdb_lpm_node *)node)->prefixes);
    return wrong;
}

const char *sdb_lpm_check(const uint8_t *base, sdb_link root, uint64_t stamp, uint64_t *count)
{
    walk w = {.base = base};
    const char *wrong = NULL;
    if (root)
        wrong = enter(&w, root, (sdb_lpm_key){.len = SDB_LPM_ROOT}, stamp);
    while (!wrong && w.depth > 0) {
        frame *f = &w.frame[w.depth - 1];
        const sdb_lpm_node *n = f->node;
        unsigned slot = f->slot++;
        if (slot == 32) {
            if (w.count - f->count != n->count)
                wrong = "a node's count of prefixes is wrong";
            w.depth--;
        } else if (n->children >> slot & 1) {
            uint32_t before = n->children & (((uint32_t)1 << slot) - 1);
            unsigned word = sdb_lpm_words(n->head) + (unsigned)__builtin_popcount(before);
            sdb_lpm_key k = f->key;
            sdb_lpm_key_set(&k, k.len, slot, SDB_LPM_STRIDE);
            wrong = enter(&w, n->word[word], k, sdb_node_stamp((const void *)n));
        }
    }
    *count = w.count;
    return wrong;
}
