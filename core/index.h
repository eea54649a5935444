/* index.h - one index of a table: which columns make its key, and the keys of its rows.
**
** The key of a row in an index is the key bytes of its columns, one after the other; then, unless
** the index is unique and none of the columns is NULL, the rowid. So every key is there once, equal
** keys are in order of rowid, and NULLs never clash. In index 0 the key is the rowid alone.
**
** Keys are built when a row is written and when a range is looked up; a search compares them with
** rows without building the rows' (sdb_leaves, radix.h). */
#ifndef SDB_INDEX_H
#define SDB_INDEX_H

#include "radix.h"
#include "row.h"

typedef struct sdb_index {
    sdb_index_def def; /* of index 0: no parts */
    sdb_leaves leaves;
    int n_columns; /* of the table, as row.h wants them */
    int rowid_column;
} sdb_index;

/* Fill in from a definition (copied; NULL: index 0). SDB_NOMEM. fini accepts a zeroed index. */
SDB_MUST int sdb_index_init(sdb_index *index, const sdb_index_def *def, int n_columns,
                            int rowid_column);
void sdb_index_fini(sdb_index *index);

/* Append the key of a row to be, or of a row. *is_free: the key cannot clash with another row's (it
** holds its own rowid). SDB_NOMEM. */
SDB_MUST int sdb_index_key(const sdb_index *index, int64_t rowid, const sdb_value *values,
                           sdb_buf *out, bool *is_free);
SDB_MUST int sdb_index_row_key(const sdb_index *index, const sdb_row *row, sdb_buf *out);

/* The half-open range of keys [lo, hi) that a range of values means: lo is out[0..*n_lo), hi is what
** follows, empty for "no end". SDB_DONE: no key can be in it. SDB_NOMEM, SDB_MISUSE. */
SDB_MUST int sdb_index_bounds(const sdb_index *index, const sdb_range *range, sdb_buf *out,
                              size_t *n_lo);

#endif
