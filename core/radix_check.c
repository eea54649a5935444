/* radix_check.c - the validator of radix trees (see radix.h).
**
** Leaves are met in order. Two neighbours part at the node that is above both; up to there their
** keys must agree, and behind it the second must be the greater: if that holds for every pair, all
** leaves below a node agree up to it, and all keys are in order. Where a node stores bytes of the
** path, in its prefix or as a child's byte, every key below must have them there. */
#include "radix.h"

#include "mem.h"

typedef struct frame {
    const sdb_node *node;
    int pos;
    uint8_t byte;    /* of pos, unless that is the node's own leaf */
    uint64_t leaves; /* seen before this node */
    size_t at;       /* length of the path down to and with this node's prefix */
} frame;

typedef struct walk {
    const sdb_leaves *leaves;
    const uint8_t *base;
    frame *frame;
    size_t depth, room;
    sdb_buf key, last;
    size_t shared; /* the last leaf and the next one are both below a node of this depth */
    uint64_t seen;
    const char *wrong;
} walk;

static const char NO_MEMORY[] = "there is no memory to check the tree with";

/* Whether the key goes through every node on the path the way the path does. */
static bool is_on_path(const walk *w, const sdb_buf *key)
{
    for (size_t i = 0; i < w->depth; i++) {
        const frame *f = &w->frame[i];
        uint32_t prefix = sdb_node_prefix_len(f->node);
        if (key->n < f->at)
            return false;
        if (!sdb_node_is_long(f->node) &&
            memcmp(key->at + f->at - prefix, sdb_node_prefix(f->node), prefix) != 0)
            return false;
        if (f->pos == SDB_POS_LEAF ? key->n != f->at : key->n == f->at || key->at[f->at] != f->byte)
            return false;
    }
    return true;
}

static void check_leaf(walk *w, sdb_link link)
{
    sdb_buf *key = &w->key, *last = &w->last;
    key->n = 0;
    if (sdb_buf_reserve(key, 1) != SDB_OK ||
        w->leaves->key(w->leaves->ctx, sdb_at(w->base, link), key) != SDB_OK) {
        w->wrong = NO_MEMORY;
        return;
    }
    if (!is_on_path(w, key))
        w->wrong = "a leaf's key does not lie under its path";
    if (w->seen++ > 0 && !w->wrong) {
        size_t n = key->n < last->n ? key->n : last->n, same = 0;
        while (same < n && key->at[same] == last->at[same])
            same++;
        if (same != w->shared)
            w->wrong = "two leaves do not part where their paths do";
        else if (same == key->n || (same < last->n && key->at[same] < last->at[same]))
            w->wrong = "two leaves are out of order";
    }
    sdb_buf swap = *key;
    *key = *last;
    *last = swap;
    w->shared = SIZE_MAX;
}

static void enter(walk *w, sdb_link link, uint64_t stamp)
{
    if (link & SDB_LEAF) {
        check_leaf(w, link);
        return;
    }
    const sdb_node *n = sdb_at(w->base, link);
    w->wrong = sdb_node_check(n);
    if (!w->wrong && sdb_node_stamp(n) > stamp)
        w->wrong = "a node is younger than its parent";
    if (w->wrong)
        return;
    if (w->depth == w->room) {
        size_t room = w->room ? w->room * 2 : 64;
        frame *f = sdb_realloc(w->frame, room * sizeof *f);
        if (!f) {
            w->wrong = NO_MEMORY;
            return;
        }
        w->frame = f;
        w->room = room;
    }
    size_t above = w->depth ? w->frame[w->depth - 1].at + 1 : 0;
    w->frame[w->depth++] =
        (frame){n, SDB_POS_LEAF, 0, w->seen, above + sdb_node_prefix_len(n)};
    if (n->leaf)
        check_leaf(w, n->leaf);
}

const char *sdb_radix_check(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                            uint64_t stamp, uint64_t *leaves_out)
{
    walk w = {.leaves = leaves, .base = base, .shared = SIZE_MAX};
    if (root)
        enter(&w, root, stamp);
    while (!w.wrong && w.depth > 0) {
        frame *f = &w.frame[w.depth - 1];
        f->pos = sdb_node_next(f->node, f->pos);
        if (f->pos == SDB_POS_NONE) {
            if (w.seen - f->leaves != f->node->count)
                w.wrong = "a node's count of leaves is wrong";
            w.depth--;
            continue;
        }
        f->byte = sdb_node_byte(f->node, f->pos);
        if (w.seen > f->leaves && f->at < w.shared)
            w.shared = f->at;
        enter(&w, sdb_node_child(f->node, f->pos), sdb_node_stamp(f->node));
    }
    sdb_free(w.frame);
    sdb_buf_fini(&w.key);
    sdb_buf_fini(&w.last);
    *leaves_out = w.seen;
    return w.wrong;
}
