/* table.h - what a table is made of, and one version of it.
**
** A TABLE object is one incarnation of a table: its definition, its arena and its place among the
** store's tables. It never changes, but for what its write lock guards. A VERSION is the table at
** one moment: a root for each index. Published versions are immutable; a transaction works on one
** of its own (struct sdb_work) that nobody else sees. */
#ifndef SDB_TABLE_H
#define SDB_TABLE_H

#include "index.h"
#include "reclaim.h"

typedef struct sdb_version {
    sdb_table *table;
    const char *name; /* lives as long as the table */
    uint64_t revision;
    uint64_t born, died;      /* seen by pins in [born, died) (reclaim.h) */
    struct sdb_version *next; /* in a list of versions to be freed */
    sdb_link root[];          /* one for each index, 0 first */
} sdb_version;

typedef struct sdb_name {
    struct sdb_name *next;
    char text[];
} sdb_name;

struct sdb_table {
    uint64_t id;
    sdb_db *db;       /* outlives the table */
    uint32_t slot;    /* its place in every root (db.h) */
    int n_columns;
    int rowid_column;
    int n_indexes;    /* with index 0 */
    _Atomic int n_ref;
    char *sql;
    sdb_name *names;  /* every name it had; the last one is the one it was made with */
    sdb_index *index;

    uint32_t n_versions;      /* versions not freed; guarded by the store's mutex */
    _Atomic(sdb_txn *) owner; /* holds the write lock, or NULL; set under the store's mutex */

    /* guarded by the write lock */
    uint32_t work; /* its place among the owner's works (txn.h) */
    bool is_waiting; /* counted in the store's n_waiting */
    sdb_arena arena;
    sdb_reclaim reclaim;
};

/* A new table, counted once, and its first, empty version. SDB_NOMEM, SDB_TOOBIG, SDB_MISUSE. */
SDB_MUST int sdb_table_new(sdb_db *db, sdb_budget *budget, const sdb_table_def *def,
                           sdb_table **out, sdb_version **version);

/* Another name for the versions to come; NULL: no memory. */
const char *sdb_table_add_name(sdb_table *table, const char *name);

sdb_version *sdb_version_new(const sdb_table *table); /* roots not set; NULL: no memory */
size_t sdb_version_size(const sdb_table *table);

uint64_t sdb_version_count(const sdb_version *v);

static inline sdb_link sdb_row_link(const sdb_table *table, const sdb_row *row)
{
    return sdb_link_to(&table->arena, row) | SDB_LEAF;
}

static inline const sdb_row *sdb_row_at(const sdb_table *table, sdb_link link)
{
    return sdb_at(table->arena.base, link);
}

/* The row of a rowid in a version, or NULL. */
const sdb_row *sdb_version_get(const sdb_version *v, int64_t rowid);

/* The keys of one row in all indexes, in one buffer. */
typedef struct sdb_keys {
    sdb_buf buf;
    size_t end[SDB_MAX_INDEXES + 1];
    uint64_t is_free; /* bit i: the key in index i cannot clash with another row's */
} sdb_keys;

SDB_MUST int sdb_keys_of_values(sdb_keys *keys, const sdb_table *table, int64_t rowid,
                                const sdb_value *values); /* SDB_NOMEM */
SDB_MUST int sdb_keys_of_row(sdb_keys *keys, const sdb_table *table, const sdb_row *row);

static inline const uint8_t *sdb_key_at(const sdb_keys *keys, int index, size_t *len)
{
    size_t from = index ? keys->end[index - 1] : 0;
    *len = keys->end[index] - from;
    return keys->buf.at + from;
}

/* The row that holds this key in an index, or NULL. */
const sdb_row *sdb_version_find(const sdb_version *v, int index, const sdb_keys *keys);

/* Make sure that a change with these keys (one set may be NULL) cannot fail. `limited`: see
** sdb_arena_reserve. SDB_NOMEM, SDB_FULL. */
SDB_MUST int sdb_version_reserve(sdb_edit *edit, const sdb_table *table, const sdb_keys *new_keys,
                                 const sdb_keys *old_keys, bool limited);

/* Put `row` into every index in place of `old` (either may be NULL, not both), whose keys are
** these. After sdb_version_reserve it cannot fail. `old` is freed, or retired. */
void sdb_version_change(sdb_version *v, sdb_edit *edit, const sdb_row *row, const sdb_keys *keys,
                        const sdb_row *old, const sdb_keys *old_keys);

/* Free a row that nobody sees. */
void sdb_row_free(sdb_table *table, sdb_link link);

/* Free the nodes and rows of a version that nobody sees and that were made after `floor`. */
void sdb_version_free_after(sdb_version *v, uint64_t floor);

#endif
