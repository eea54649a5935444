/* multi_index.h - an index with several keys a row: what table.c does with a tree of rows, done with one
** of entries (multi.h).
**
** In struct sdb_keys the part of a multi index is a set. */
#ifndef SDB_MULTI_INDEX_H
#define SDB_MULTI_INDEX_H

#include "multi.h"
#include "table.h"

/* The set of a multi index in the keys of a row. */
static inline sdb_set sdb_keys_set(const sdb_keys *keys, int index)
{
    size_t from = sdb_round_up_8(index ? keys->end[index - 1] : 0), end = keys->end[index];
    return (sdb_set){sdb_buf_at(&keys->buf, from < end ? from : end), sdb_buf_at(&keys->buf, end)};
}

/* The row of an entry. */
const sdb_row *sdb_entry_row(const uint8_t *base, sdb_link by_rowid, const sdb_entry *entry);

/* Of a unique index: a row other than `except` that holds one of the keys, or NULL. */
const sdb_row *sdb_multi_clash(const sdb_version *v, int index, const sdb_keys *keys,
                               const sdb_row *except);

/* Before a change from one set to another (NULL: none): make the entries of the keys that come, and add
** up what the tree may allocate and retire. SDB_NOMEM, SDB_FULL. forget frees the entries. */
SDB_MUST int sdb_multi_prepare(const sdb_version *v, int index, const sdb_keys *keys,
                               const sdb_keys *old_keys, size_t *bytes, size_t *links);
void sdb_multi_forget(const sdb_version *v, int index, const sdb_keys *keys);

/* See sdb_version_change, sdb_version_build, sdb_radix_retire. */
void sdb_multi_change(sdb_version *v, sdb_edit *edit, int index, const sdb_keys *keys,
                      const sdb_keys *old_keys);
SDB_MUST int sdb_multi_build(const sdb_version *v, sdb_edit *edit, const sdb_index *index,
                             sdb_link *root);
SDB_MUST int sdb_multi_retire(const sdb_version *v, sdb_edit *edit, int index);

/* NULL, or what is wrong: the tree, and the rows' keys in it. */
const char *sdb_multi_check(const sdb_version *v, int index);

#endif
