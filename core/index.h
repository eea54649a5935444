/* index.h - one index of a table: which columns make its key, and the keys of its rows.
**
** The key of a row in an index is the key bytes of its columns, one after the other; then, unless
** the index is unique and none of the columns is NULL, the rowid. So every key is there once, equal
** keys are in order of rowid, and NULLs never clash. In index 0 the key is the rowid alone. In a multi
** index a row has a set of keys (multi.h), in one of prefixes its prefix (lpm_index.h). The revision may be
** one of the columns; it is put into the key when it is settled (sdb_keys_set_revision).
**
** Keys are built when a row is written and when a range is looked up; a search compares them with
** rows without building the rows' (sdb_leaves, radix.h). */
#ifndef SDB_INDEX_H
#define SDB_INDEX_H

#include "radix.h"
#include "row.h"

/* The watches of one index (watch.h); guarded by the store's watch_mutex. */
typedef struct sdb_watches {
    sdb_watch **at; /* by the beginning of their ranges */
    sdb_watch **reach; /* reach[i]: of at[0..i], the one whose range ends last */
    size_t n, room;
    sdb_watch *open; /* those whose range has no end */
} sdb_watches;

typedef struct sdb_index {
    _Atomic int n_ref;
    sdb_index_def def; /* of index 0: no parts */
    sdb_leaves leaves;
    bool has_revision; /* one of its columns is SDB_REVISION_COLUMN */
    int n_columns; /* of the table, as row.h wants them */
    int rowid_column;
    sdb_watches watches;
} sdb_index;

/* The indexes of a table at one time, by number: immutable, counted, shared by all versions of that
** time. */
typedef struct sdb_indexes {
    _Atomic int n_ref;
    int n;
    bool has_revision; /* one of them has the revision among its columns */
    bool has_others; /* not all are trees of rows by one key: some are of prefixes, or of several keys a row */
    uint64_t id; /* of this set among those the table has had; 0: the first */
    sdb_index *at[];
} sdb_indexes;

/* A bit for each of them. */
static inline uint64_t sdb_indexes_all(const sdb_indexes *set)
{
    return UINT64_MAX >> (64 - set->n);
}

/* An index from a definition (copied; NULL: index 0), counted once; NULL: no memory. unref accepts
** NULL. */
sdb_index *sdb_index_new(const sdb_index_def *def, int n_columns, int rowid_column);
sdb_index *sdb_index_ref(sdb_index *index);
void sdb_index_unref(sdb_index *index);

/* A set with room for n indexes, none in it yet, counted once; NULL: no memory. unref accepts NULL. */
sdb_indexes *sdb_indexes_new(int n);
void sdb_indexes_add(sdb_indexes *set, sdb_index *index); /* whose count it takes over */
sdb_indexes *sdb_indexes_ref(sdb_indexes *set);
void sdb_indexes_unref(sdb_indexes *set);

/* The number of the index of that name, without regard to ASCII case, or 0. */
int sdb_indexes_find(const sdb_indexes *set, const char *name);

/* The definition of an index, 1 .. n-1; NULL for any other number and where there is no set. */
const sdb_index_def *sdb_indexes_def(const sdb_indexes *set, int index);

/* Whether two names are the same without regard to ASCII case. */
bool sdb_name_is(const char *a, const char *b);

/* Append the key of a row to be, or of a row; not in a multi index. *is_free: the key cannot clash with another row's (it
** holds its own rowid). SDB_NOMEM. */
SDB_MUST int sdb_index_key(const sdb_index *index, int64_t rowid, const sdb_value *values,
                           sdb_buf *out, bool *is_free);
SDB_MUST int sdb_index_row_key(const sdb_index *index, const sdb_row *row, sdb_buf *out);

/* The bytes that the keys with these first columns begin with. *is_key: that is a whole key, which
** the index has once at most. SDB_DONE: no key is like that. SDB_NOMEM, SDB_MISUSE. */
SDB_MUST int sdb_index_prefix(const sdb_index *index, const sdb_value *eq, int n_eq, sdb_buf *out,
                              bool *is_key);

/* The row of a rowid in index 0, or 0. Where rowids are dense the path to a row spells all of its rowid; then
** the row itself, which is far among many, is not looked at, and comes while the caller does other things. */
sdb_link sdb_index_row(const uint8_t *base, sdb_link root, int64_t rowid);

/* The half-open range of keys [lo, hi) that a range of values means: lo is out[0..*n_lo), hi is what
** follows, empty for "no end". SDB_DONE: no key can be in it. SDB_NOMEM, SDB_MISUSE. */
SDB_MUST int sdb_index_bounds(const sdb_index *index, const sdb_range *range, sdb_buf *out,
                              size_t *n_lo);

#endif
