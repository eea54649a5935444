/* sorted.h - rows in the order of an index that no table has, made for one reader (statedb.h).
**
** The rows of one version stand in an array, sorted by the keys that an index of the definition would
** have. A range is looked up in a second array, of eight bytes of each key: those behind what all keys
** have in common; so most of a search touches no row. The keys themselves are not kept. */
#ifndef SDB_SORTED_H
#define SDB_SORTED_H

#include "index.h"

struct sdb_sorted {
    sdb_index *index; /* the definition; never unique, so each row has a key of its own */
    const uint8_t *base;
    const sdb_table *table;
    size_t n;
    sdb_link *row;
    uint64_t *word;
    bool is_short;   /* some key ends within its word */
    size_t n_common; /* all keys begin with these bytes */
    uint8_t common[];
};

/* Sort the rows of a tree of this table. Errors as of sdb_sorted_new. */
SDB_MUST int sdb_sorted_build(const sdb_table *table, const sdb_leaves *leaves, sdb_link root,
                              const sdb_index_def *def, const sdb_stop *stop, sdb_sorted **out);

/* The places [*from, *to) of a range. SDB_DONE: there are none. SDB_NOMEM, SDB_MISUSE. */
SDB_MUST int sdb_sorted_range(const sdb_sorted *sorted, const sdb_range *range, sdb_buf *bounds,
                              size_t *from, size_t *to);

#endif
