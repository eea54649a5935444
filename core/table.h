/* table.h - what a table is made of, and one version of it.
**
** A TABLE object is one incarnation of a table: its definition, its arena and its place among the
** store's tables. It never changes, but for what its write lock guards. A VERSION is the table at
** one moment: a root for each index. Published versions are immutable; a transaction works on one
** of its own (struct sdb_work) that nobody else sees. */
#ifndef SDB_TABLE_H
#define SDB_TABLE_H

#include "count.h"
#include "feed.h"
#include "index.h"
#include "reclaim.h"

typedef struct sdb_version {
    sdb_table *table;
    const char *name; /* lives as long as the table */
    uint64_t revision;
    int64_t sequence; /* the owner's (statedb.h) */
    uint64_t born, died;      /* seen by pins in [born, died) (reclaim.h) */
    struct sdb_version *next; /* in a list of versions to be freed */
    sdb_history history;
    sdb_indexes *set;         /* counted */
    int room;                 /* for roots */
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
    _Atomic int n_ref;
    char *sql;
    sdb_name *names;  /* every name it had; the last one is the one it was made with */
    sdb_indexes *set; /* the indexes it was made with */

    _Atomic uint32_t n_watches; /* in all indexes (watch.h) */
    sdb_watch *touched;         /* to be fired at the commit; guarded by the watch_mutex */
    _Atomic uint64_t count[SDB_N_COUNTERS]; /* each written under what guards the thing it counts */

    uint32_t n_versions;      /* versions not freed; guarded by the store's mutex */
    _Atomic(sdb_txn *) owner; /* holds the write lock, or NULL; set under the store's mutex */
    sdb_version *idle;        /* one to be used again, or NULL; guarded by the mutex */
    sdb_txn *waiting;         /* first of those that wait for it; guarded by the mutex */
    bool is_settling;         /* its owner is sorting the dead without the mutex; guarded by it */

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

/* A version with these indexes, all of them empty, and room for `room` of them; NULL: no memory. free
** accepts NULL and leaves the trees. */
sdb_version *sdb_version_new(sdb_table *table, sdb_indexes *set, int room);
void sdb_version_free(sdb_version *v);

/* Take over name, numbers, indexes and roots, for which there is room. */
void sdb_version_copy(sdb_version *to, const sdb_version *from);

/* Whether a table of so many columns can have such an index. SDB_MISUSE, SDB_TOOBIG. */
SDB_MUST int sdb_index_def_check(const sdb_index_def *def, int n_columns);

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

/* The keys of one row in all indexes, in one buffer; in a multi index a set (multi_index.h). */
typedef struct sdb_keys {
    sdb_buf buf;
    size_t end[SDB_MAX_INDEXES + 1];
    uint64_t is_free; /* bit i: the key in index i cannot clash with another row's */
    uint64_t is_same; /* of a row being replaced. Bit i: in index i the new row has the same columns, and
                      ** so the same key (which need not be here once more) */
} sdb_keys;

SDB_MUST int sdb_keys_of_values(sdb_keys *keys, const sdb_indexes *set, int64_t rowid,
                                const sdb_value *values); /* SDB_NOMEM */

/* The revision of the row has been settled: put it into those of its keys that have it. SDB_NOMEM. */
SDB_MUST int sdb_keys_set_revision(sdb_keys *keys, const sdb_indexes *set, const sdb_row *row);

/* In which indexes two rows have the same columns, as is_same says; and the keys that a row which is there
** has in the others. */
uint64_t sdb_keys_same(const sdb_indexes *set, const sdb_row *row, const sdb_row *next);
SDB_MUST int sdb_keys_of_row(sdb_keys *keys, const sdb_indexes *set, const sdb_row *row,
                             uint64_t is_same);

static inline const uint8_t *sdb_key_at(const sdb_keys *keys, int index, size_t *len)
{
    size_t from = index ? keys->end[index - 1] : 0;
    *len = keys->end[index] - from;
    return sdb_buf_at(&keys->buf, from);
}

/* Where the keys of a row that is to come have been looked for: in the trees as they are until the table
** is changed. */
typedef struct sdb_places {
    uint64_t is_known; /* bit i: at[i] is that in index i */
    sdb_place at[SDB_MAX_INDEXES];
} sdb_places;

/* A row that holds this key in an index, or NULL; in a multi index one of these keys, and not `except`.
** Where it is or would be is noted, in an index that is a tree of keys. */
const sdb_row *sdb_version_find(const sdb_version *v, int index, const sdb_keys *keys,
                                const sdb_row *except, sdb_places *places);

/* Make sure that a change with these keys (one set may be NULL) cannot fail. What it has made for them
** already is gone again if it fails itself. `limited`: see sdb_arena_reserve. SDB_NOMEM, SDB_FULL. */
SDB_MUST int sdb_version_reserve(const sdb_version *v, sdb_edit *edit, const sdb_keys *new_keys,
                                 const sdb_keys *old_keys, bool limited);

/* Put `row` into every index in place of `old` (either may be NULL, not both), whose keys are
** these; places: of the row's keys, or NULL; grave: see feed.h. After sdb_version_reserve it cannot fail.
** `old` is freed, or retired. */
void sdb_version_change(sdb_version *v, sdb_edit *edit, const sdb_row *row, const sdb_keys *keys,
                        const sdb_places *places, const sdb_row *old, const sdb_keys *old_keys,
                        sdb_link grave);

/* Make `old` what `row` is, in its place, if nobody else sees it, it is as large and has the same key in
** every index, and nobody follows the table. Then `row` is freed; it cannot fail. */
bool sdb_version_overwrite(sdb_version *v, const sdb_edit *edit, const sdb_row *row,
                           const sdb_row *old, uint64_t is_same);

/* Build the tree of one more index over the rows of a version. The edit is the transaction's, with
** room for nothing. SDB_DUPLICATE: two rows have the same key of a unique index; SDB_NOMEM,
** SDB_FULL: nothing is left of it. */
SDB_MUST int sdb_version_build(const sdb_version *v, sdb_edit *edit, const sdb_index *index,
                               sdb_link *root);

/* A node, row or entry in a table's arena: when it was made, its size; free it, for nobody sees it. */
uint64_t sdb_object_stamp(const sdb_table *table, sdb_link link);
size_t sdb_object_size(const sdb_table *table, sdb_link link);
void sdb_object_free(sdb_table *table, sdb_link link);

/* Free the nodes and rows of a version that nobody sees and that were made after `floor`. */
void sdb_version_free_after(sdb_version *v, uint64_t floor);

#endif
