/* leaf.h - for tests of the radix tree: leaves that store their key. */
#ifndef STATEDB_TEST_LEAF_H
#define STATEDB_TEST_LEAF_H

#include "../core/mem.h"
#include "../core/radix.h"

#include <string.h>

typedef struct leaf {
    uint64_t stamp;
    uint32_t len;
    uint8_t key[];
} leaf;

static size_t leaf_diff(const void *ctx, const void *p, const uint8_t *key, size_t len, int *byte)
{
    (void)ctx;
    const leaf *l = p;
    size_t i = 0;
    while (i < len && i < l->len && key[i] == l->key[i])
        i++;
    *byte = i < l->len ? l->key[i] : -1;
    return i;
}

static int leaf_key(const void *ctx, const void *p, sdb_buf *out)
{
    (void)ctx;
    const leaf *l = p;
    int rc = sdb_buf_reserve(out, l->len + 1);
    if (rc == SDB_OK && l->len)
        memcpy(out->at + out->n, l->key, l->len);
    out->n += rc == SDB_OK ? l->len : 0;
    return rc;
}

static const sdb_leaves KEYED_LEAVES = {leaf_diff, leaf_key, NULL};

static inline size_t leaf_size(size_t len)
{
    return (sizeof(leaf) + len + 7) / 8 * 8;
}

#endif
