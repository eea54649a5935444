/* radix_check.c - the validator of radix trees (see radix.h). */
#include "radix.h"

#include "mem.h"

typedef struct frame {
    const sdb_node *node;
    int pos;
    uint64_t leaves; /* seen before this node */
    size_t at;       /* length of the path down to and with this node's prefix */
} frame;

typedef struct walk {
    const sdb_leaves *leaves;
    const uint8_t *base;
    frame *frame;
    size_t depth, frame_room;
    uint8_t *path; /* bytes that lead to the present place */
    size_t path_len, path_room;
    uint64_t seen;
    const char *wrong;
} walk;

static bool path_add(walk *w, const uint8_t *bytes, size_t n)
{
    if (w->path_len + n > w->path_room) {
        size_t room = (w->path_len + n) * 2;
        uint8_t *path = sdb_realloc(w->path, room);
        if (!path) {
            w->wrong = "there is no memory to check the tree with";
            return false;
        }
        w->path = path;
        w->path_room = room;
    }
    if (n)
        memcpy(w->path + w->path_len, bytes, n);
    w->path_len += n;
    return true;
}

/* A leaf's key goes on from the path; where it is a node's own leaf, it is the path. */
static void check_leaf(walk *w, sdb_link link, bool ends)
{
    int byte;
    size_t same = w->leaves->diff(w->leaves->ctx, sdb_at(w->base, link), w->path, w->path_len, &byte);
    if (same != w->path_len)
        w->wrong = "a leaf's key does not lie under its path";
    else if (ends && byte >= 0)
        w->wrong = "a node's own leaf has a longer key than its path";
    w->seen++;
}

static void enter(walk *w, sdb_link link, uint64_t stamp)
{
    if (link & SDB_LEAF) {
        check_leaf(w, link, false);
        return;
    }
    const sdb_node *n = sdb_at(w->base, link);
    w->wrong = sdb_node_check(n);
    if (w->wrong)
        return;
    if (sdb_node_stamp(n) > stamp) {
        w->wrong = "a node is younger than its parent";
        return;
    }
    if (sdb_node_children(n) == 1 && !n->leaf &&
        (sdb_node_child(n, sdb_node_last(n)) & SDB_LEAF)) {
        w->wrong = "a node leads to one leaf only";
        return;
    }
    if (w->depth == w->frame_room) {
        size_t room = w->frame_room ? w->frame_room * 2 : 64;
        frame *f = sdb_realloc(w->frame, room * sizeof *f);
        if (!f) {
            w->wrong = "there is no memory to check the tree with";
            return;
        }
        w->frame = f;
        w->frame_room = room;
    }
    if (!path_add(w, sdb_node_prefix(n), sdb_node_prefix_len(n)))
        return;
    w->frame[w->depth++] = (frame){n, SDB_POS_LEAF, w->seen, w->path_len};
    if (n->leaf)
        check_leaf(w, n->leaf, true);
}

const char *sdb_radix_check(const sdb_leaves *leaves, const uint8_t *base, sdb_link root,
                            uint64_t stamp, uint64_t *leaves_out)
{
    walk w = {.leaves = leaves, .base = base};
    if (root)
        enter(&w, root, stamp);
    while (!w.wrong && w.depth > 0) {
        frame *f = &w.frame[w.depth - 1];
        f->pos = sdb_node_next(f->node, f->pos);
        w.path_len = f->at;
        if (f->pos == SDB_POS_NONE) {
            if (w.seen - f->leaves != f->node->count)
                w.wrong = "a node's count of leaves is wrong";
            w.depth--;
            continue;
        }
        uint8_t byte = sdb_node_byte(f->node, f->pos);
        if (path_add(&w, &byte, 1))
            enter(&w, sdb_node_child(f->node, f->pos), sdb_node_stamp(f->node));
    }
    sdb_free(w.frame);
    sdb_free(w.path);
    *leaves_out = w.seen;
    return w.wrong;
}
