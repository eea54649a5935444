/* batch.h - many look-ups in one tree that wait for memory together. */
#ifndef SDB_BATCH_H
#define SDB_BATCH_H

#include "radix.h"

enum { SDB_GROUP = 64 };

/* One look-up on its way down. */
typedef struct sdb_probe {
    const uint8_t *key; /* to be set, */
    size_t len;         /* and this */
    size_t at;          /* 0 */
    sdb_link link;      /* where it is */
    const sdb_link *slot; /* where the next link is */
    sdb_link inner; /* of the node in which the key has ended, with others below; 0: there is none */
} sdb_probe;

/* Let n probes, at most SDB_GROUP, go down to the only leaves that may have their keys, or to 0. These are
** being fetched when it returns. O(n × key length). */
void sdb_group_descend(const uint8_t *base, sdb_link root, sdb_probe *probes, size_t n);

/* The leaf that has the key of a probe which has gone down, or NULL. */
static inline const void *sdb_probe_leaf(const sdb_leaves *leaves, const uint8_t *base, const sdb_probe *p)
{
    const void *leaf = p->link ? sdb_at(base, p->link) : NULL;
    int byte;
    bool is_hit = leaf && leaves->diff(leaves->ctx, leaf, p->key, p->len, &byte) == p->len && byte < 0;
    return is_hit ? leaf : NULL;
}

/* Where its key has ended above others, fetch the first of these: their nodes and leaves (depth 0); then what
** is below these nodes (depth 1). */
void sdb_group_below(const uint8_t *base, const sdb_probe *p, int depth);

#endif
