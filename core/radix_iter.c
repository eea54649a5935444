/* radix_iter.c - moving through a radix tree in the order of its keys, both ways (see radix.h).
**
** The stack holds the path from the root: at each node the link whose subtree the iterator is in.
** Neighbours are found from there, without looking at a key. */
#include "radix.h"

#include "mem.h"

#include <assert.h>

void sdb_iter_init(sdb_iter *it)
{
    it->base = NULL;
    it->leaves = NULL;
    it->root = it->leaf = 0;
    it->depth = it->bottom = 0;
    it->step = it->own;
    it->room = (int)(sizeof it->own / sizeof *it->own);
}

void sdb_iter_fini(sdb_iter *it)
{
    if (it->step != it->own)
        sdb_free(it->step);
    sdb_iter_init(it);
}

void sdb_iter_open(sdb_iter *it, const sdb_leaves *leaves, const uint8_t *base, sdb_link root)
{
    it->base = base;
    it->leaves = leaves;
    it->root = root;
    it->leaf = 0;
    it->depth = it->bottom = 0;
}

static int grow(sdb_iter *it)
{
    sdb_step *old = it->step == it->own ? NULL : it->step;
    sdb_step *step = sdb_realloc(old, (size_t)it->room * 2 * sizeof *step);
    if (!step) {
        it->leaf = 0;
        return SDB_NOMEM;
    }
    if (!old)
        memcpy(step, it->own, sizeof it->own);
    it->step = step;
    it->room *= 2;
    return SDB_OK;
}

static inline int push(sdb_iter *it, const sdb_node *node, const sdb_link *at)
{
    if (__builtin_expect(it->depth == it->room, 0) && grow(it) != SDB_OK)
        return SDB_NOMEM;
    it->step[it->depth++] = (sdb_step){node, at, sdb_node_links_end(node)};
    return SDB_OK;
}

/* What lies ahead in a node that has just been entered; the rest follows step by step. */
static inline void prefetch(const sdb_iter *it, const sdb_link *at, const sdb_link *end)
{
    if (end - at > SDB_AHEAD)
        end = at + SDB_AHEAD;
    for (at++; at < end; at++)
        __builtin_prefetch(sdb_at(it->base, *at));
}

/* Down to the first leaf of a subtree. */
static int down_first(sdb_iter *it, sdb_link link)
{
    while (!(link & SDB_LEAF)) {
        const sdb_node *n = sdb_at(it->base, link);
        const sdb_link *at = sdb_node_links(n) - 1;
        link = n->leaf;
        while (!link)
            link = *++at;
        if (push(it, n, at) != SDB_OK)
            return SDB_NOMEM;
        prefetch(it, at, it->step[it->depth - 1].end);
    }
    it->leaf = link;
    return SDB_OK;
}

static int down_last(sdb_iter *it, sdb_link link)
{
    while (!(link & SDB_LEAF)) {
        const sdb_node *n = sdb_at(it->base, link);
        const sdb_link *at = sdb_node_links_end(n) - 1;
        while (!*at)
            at--;
        if (push(it, n, at) != SDB_OK)
            return SDB_NOMEM;
        link = *at;
    }
    it->leaf = link;
    return SDB_OK;
}

int sdb_iter_next_far(sdb_iter *it)
{
    while (it->depth > it->bottom) {
        sdb_step *top = &it->step[it->depth - 1];
        const sdb_link *at = top->at + 1;
        while (at < top->end && !*at)
            at++;
        if (at < top->end) {
            top->at = at;
            if (top->end - at > SDB_AHEAD)
                __builtin_prefetch(sdb_at(it->base, at[SDB_AHEAD]));
            return down_first(it, *at);
        }
        it->depth--;
    }
    it->leaf = 0;
    return SDB_DONE;
}

int sdb_iter_prev(sdb_iter *it)
{
    while (it->depth > it->bottom) {
        sdb_step *top = &it->step[it->depth - 1];
        const sdb_link *first = sdb_node_links(top->node);
        if (top->at >= first) {
            while (--top->at >= first && !*top->at)
                ;
            if (top->at >= first) {
                if (top->at - first >= SDB_AHEAD)
                    __builtin_prefetch(sdb_at(it->base, top->at[-SDB_AHEAD]));
                return down_last(it, *top->at);
            }
            if (top->node->leaf) {
                it->leaf = top->node->leaf;
                return SDB_OK;
            }
        }
        it->depth--;
    }
    it->leaf = 0;
    return SDB_DONE;
}

/* ---------------------------------------------------------------- many at once */

/* Where in its node a step is, as node.h counts: one before the first link is SDB_POS_LEAF. */
static int step_pos(const sdb_step *s)
{
    return (int)(s->at - sdb_node_links(s->node));
}

/* In either direction; a node's own leaf is its first entry. */
static int pos_begin(const sdb_node *n, bool back)
{
    return back ? sdb_node_last(n) : n->leaf ? SDB_POS_LEAF : sdb_node_next(n, SDB_POS_LEAF);
}

static int pos_after(const sdb_node *n, int pos, bool back)
{
    if (!back)
        return sdb_node_next(n, pos);
    int before = pos == SDB_POS_LEAF ? SDB_POS_NONE : sdb_node_prev(n, pos);
    return before == SDB_POS_NONE && pos != SDB_POS_LEAF && n->leaf ? SDB_POS_LEAF : before;
}

static sdb_link link_at(const sdb_node *n, int pos)
{
    return pos == SDB_POS_LEAF ? n->leaf : sdb_node_child(n, pos);
}

/* Down to leaf number n of a subtree, from 1, counted in that direction. */
static int down_to(sdb_iter *it, sdb_link link, uint64_t n, bool back)
{
    while (!(link & SDB_LEAF)) {
        const sdb_node *node = sdb_at(it->base, link);
        int pos = pos_begin(node, back);
        uint64_t below;
        while ((below = sdb_radix_count(it->base, link_at(node, pos))) < n) {
            n -= below;
            pos = pos_after(node, pos, back);
        }
        if (push(it, node, sdb_node_links(node) + pos) != SDB_OK)
            return SDB_NOMEM;
        link = link_at(node, pos);
    }
    it->leaf = link;
    return SDB_OK;
}

int sdb_iter_skip(sdb_iter *it, uint64_t n, bool back)
{
    if (n == 0)
        return it->leaf ? SDB_OK : SDB_DONE;
    for (; it->depth > it->bottom; it->depth--) {
        sdb_step *top = &it->step[it->depth - 1];
        for (int pos = pos_after(top->node, step_pos(top), back); pos != SDB_POS_NONE;
             pos = pos_after(top->node, pos, back)) {
            uint64_t below = sdb_radix_count(it->base, link_at(top->node, pos));
            if (below >= n) {
                top->at = sdb_node_links(top->node) + pos;
                return down_to(it, link_at(top->node, pos), n, back);
            }
            n -= below;
        }
    }
    it->leaf = 0;
    return SDB_DONE;
}

uint64_t sdb_iter_rank(const sdb_iter *it)
{
    uint64_t before = 0;
    for (int i = 0; i < it->depth; i++) {
        const sdb_step *s = &it->step[i];
        for (int pos = pos_begin(s->node, false); pos != step_pos(s);
             pos = pos_after(s->node, pos, false))
            before += sdb_radix_count(it->base, link_at(s->node, pos));
    }
    return before;
}

/* ---------------------------------------------------------------- seeking */

static void restart(sdb_iter *it)
{
    it->depth = it->bottom = 0;
    it->leaf = 0;
}

int sdb_iter_first(sdb_iter *it)
{
    restart(it);
    return it->root ? down_first(it, it->root) : SDB_DONE;
}

int sdb_iter_last(sdb_iter *it)
{
    restart(it);
    return it->root ? down_last(it, it->root) : SDB_DONE;
}

int sdb_iter_seek(sdb_iter *it, const uint8_t *key, size_t len)
{
    restart(it);
    sdb_link link = it->root;
    size_t at = 0;
    if (!link)
        return SDB_DONE;
    while (!(link & SDB_LEAF)) {
        const sdb_node *n = sdb_at(it->base, link);
        uint32_t prefix = sdb_node_prefix_len(n);
        if (prefix) {
            int byte;
            uint32_t match = sdb_radix_prefix_match(it->leaves, it->base, n, key, len, at, &byte);
            at += match;
            if (match < prefix && at < len && byte < key[at])
                return sdb_iter_next(it); /* all of the subtree is below the key */
            if (match < prefix)
                return down_first(it, link); /* all of it is above */
        }
        if (at == len)
            return down_first(it, link);
        bool hit;
        int pos = sdb_node_lower_bound(n, key[at++], &hit);
        if (pos == SDB_POS_NONE)
            return sdb_iter_next(it);
        const sdb_link *child = sdb_node_links(n) + pos;
        if (push(it, n, child) != SDB_OK)
            return SDB_NOMEM;
        link = *child;
        if (!hit)
            return down_first(it, link);
    }
    int byte;
    size_t fork = it->leaves->diff(it->leaves->ctx, sdb_at(it->base, link), key, len, &byte);
    if (fork < len && byte < (int)key[fork])
        return sdb_iter_next(it); /* the leaf is below the key */
    it->leaf = link;
    return SDB_OK;
}

int sdb_iter_seek_below(sdb_iter *it, const uint8_t *key, size_t len)
{
    int rc = sdb_iter_seek(it, key, len);
    return rc == SDB_OK ? sdb_iter_prev(it) : rc == SDB_DONE ? sdb_iter_last(it) : rc;
}

int sdb_iter_prefix(sdb_iter *it, const uint8_t *key, size_t len, bool last)
{
    restart(it);
    sdb_link link = it->root;
    size_t at = 0;
    /* Down to where all of the bytes are used up: if any leaf there has them, all have. What the
    ** path says nothing about is compared then. */
    while (link && !(link & SDB_LEAF) && at < len) {
        const sdb_node *n = sdb_at(it->base, link);
        sdb_node_expect(n, key[at]);
        uint32_t prefix = sdb_node_prefix_len(n);
        if (__builtin_expect(prefix > 0, 0)) /* as in sdb_radix_descend */
            at += prefix;
        if (at < len)
            link = sdb_node_find(n, key[at++]);
    }
    if (!link)
        return SDB_DONE;
    int rc = last ? down_last(it, link) : down_first(it, link);
    int byte;
    sdb_leaf_expect(it->base, it->leaf);
    if (rc == SDB_OK && len > 0 &&
        it->leaves->diff(it->leaves->ctx, sdb_at(it->base, it->leaf), key, len, &byte) < len) {
        it->leaf = 0;
        return SDB_DONE;
    }
    return rc;
}
