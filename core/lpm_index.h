/* lpm_index.h - an index on prefixes: what table.c does with a radix tree, done with lpm.h.
**
** The index's root is a tree of prefixes. The link of a prefix is a tree by rowid of the rows that
** have it, whose leaves are the rows, as everywhere: mostly one row, and then the row itself. The key
** of a row, where keys are handed around (struct sdb_keys), is its sdb_prefix, or nothing. */
#ifndef SDB_LPM_INDEX_H
#define SDB_LPM_INDEX_H

#include "lpm.h"
#include "table.h"

/* The first of the rows that a prefix links to, or 0; that of a prefix by its key. */
sdb_link sdb_lpm_index_first(const uint8_t *base, sdb_link rows);
sdb_link sdb_lpm_index_find(const sdb_version *v, int index, const uint8_t *key, size_t len);

/* What one row in or out may allocate and retire. */
size_t sdb_lpm_index_need(const sdb_arena *a, const uint8_t *key, size_t len);
size_t sdb_lpm_index_need_links(const sdb_arena *a);

/* See sdb_version_change, sdb_version_build, sdb_version_free_after, sdb_radix_retire. */
void sdb_lpm_index_change(sdb_version *v, sdb_edit *edit, int index, const sdb_row *row,
                          const sdb_keys *keys, const sdb_row *old, const sdb_keys *old_keys);
SDB_MUST int sdb_lpm_index_build(const sdb_version *v, sdb_edit *edit, const sdb_index *index,
                                 sdb_link *root);
void sdb_lpm_index_free(sdb_arena *a, sdb_link root, uint64_t floor);
SDB_MUST int sdb_lpm_index_retire(sdb_edit *edit, sdb_link root);

/* Bytes of a node of either kind of tree. */
size_t sdb_lpm_index_node_size(const sdb_node *n);

/* NULL, or what is wrong: the tree, and the rows in it. */
const char *sdb_lpm_index_check(const sdb_version *v, int index);

#endif
