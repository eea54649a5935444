/* map.h - persistent maps and sets for C programs; they have nothing to do with stores and tables.
**
** A MAP is a value: an immutable map from byte strings to 64-bit numbers, in order of the bytes. A
** change gives another map, which shares with the first all that has not changed; both go on as if
** the other were not there. To keep a former state is to keep a map, and costs what has changed
** since. Any map can be changed, not only the newest. A SET is a map whose values are all 0.
**
** Maps live in a SPACE, which reserves 16 GiB of address space and takes memory as it is used: a
** program has one, or one for each group of maps that come and go together. In it a map costs about
** 150 bytes and what it does not share with others; an empty map and a map of one key have no tree.
**
**     sdb_map_space_new(&space) -> sdb_map_new(space, &m)
**     sdb_map_put(m, "a", 1, 7, &m2)           m is still empty
**     sdb_map_begin(m2, &txn) -> sdb_map_txn_put ... -> m3 = sdb_map_txn_commit(txn)
**     sdb_map_unref(m), sdb_map_unref(m2), sdb_map_unref(m3) -> sdb_map_space_free(space)
**
** THREADS. All maps of a space may be used by any number of threads at once; reading them waits for
** nobody, changing them takes the space's lock for one key's change. A transaction and an iterator
** belong to one thread at a time.
**
** MEMORY. Maps are counted: who is given one by a function here unrefs it. What no map that is held
** can see is freed with the unref (map.c shows why just that is).
**
** ERRORS as in statedb.h. A failed call gives no map and has changed nothing. SDB_NOMEM; SDB_FULL
** when the address region is used up; SDB_TOOBIG for a key longer than SDB_MAX_ROW. */
#ifndef SDB_MAP_H
#define SDB_MAP_H

#include "statedb.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sdb_map_space sdb_map_space;
typedef struct sdb_map sdb_map;
typedef struct sdb_map_txn sdb_map_txn;
typedef struct sdb_map_iter sdb_map_iter;

/* free accepts NULL. The space goes with the last of its maps, transactions and iterators. */
SDB_MUST int sdb_map_space_new(sdb_map_space **out);
void sdb_map_space_free(sdb_map_space *space);

/* What it uses; `retired` is not known and 0. */
void sdb_map_space_memory(sdb_map_space *space, sdb_memory *out);

/* The empty map. */
SDB_MUST int sdb_map_new(sdb_map_space *space, sdb_map **out);

/* unref accepts NULL. The last unref of a map frees what only it could see. O(that, and what the
** maps made from it have replaced in it). */
sdb_map *sdb_map_ref(sdb_map *map);
void sdb_map_unref(sdb_map *map);

/* Whether a key is there; its value, unless `value` is NULL. O(len). */
bool sdb_map_get(const sdb_map *map, const void *key, size_t len, uint64_t *value);

/* Number of keys. O(1). */
uint64_t sdb_map_count(const sdb_map *map);

/* The map with a key set, or taken out. Where that changes nothing, it is the same map. O(len). */
SDB_MUST int sdb_map_put(sdb_map *map, const void *key, size_t len, uint64_t value, sdb_map **out);
SDB_MUST int sdb_map_delete(sdb_map *map, const void *key, size_t len, sdb_map **out);

/* Many changes: begin from a map, change, and commit gives the new map (it cannot fail), abort
** none. Both end the transaction; abort accepts NULL. A call that fails leaves it as it was.
** delete: SDB_OK, or SDB_DONE when the key is not there. As long as the map it has become is held, a
** change is SDB_MISUSE, another commit gives NULL, and an abort does nothing. */
SDB_MUST int sdb_map_begin(sdb_map *map, sdb_map_txn **out);
SDB_MUST int sdb_map_txn_put(sdb_map_txn *txn, const void *key, size_t len, uint64_t value);
SDB_MUST int sdb_map_txn_delete(sdb_map_txn *txn, const void *key, size_t len);
bool sdb_map_txn_get(const sdb_map_txn *txn, const void *key, size_t len, uint64_t *value);
uint64_t sdb_map_txn_count(const sdb_map_txn *txn);
sdb_map *sdb_map_txn_commit(sdb_map_txn *txn);
void sdb_map_txn_abort(sdb_map_txn *txn);

/* Whether two maps hold the same keys with the same values. They may be of different spaces. O(1)
** for maps of different counts and for one map made from the other without a change, otherwise
** O(keys). SDB_NOMEM only for trees deeper than 24 nodes. */
SDB_MUST int sdb_map_equal(const sdb_map *a, const sdb_map *b, bool *out);

/* All keys of both, with the value of b where both have it; the keys of a that b has not. The
** result is in a's space, b may be in another. O(keys of b), and of the smaller for a union in one
** space. */
SDB_MUST int sdb_map_union(sdb_map *a, sdb_map *b, sdb_map **out);
SDB_MUST int sdb_map_difference(sdb_map *a, const sdb_map *b, sdb_map **out);

/* An iterator keeps its map. To the first key; to the first that is not below a key; to the first
** that begins with these bytes, to stay among those; to the next: SDB_OK, or SDB_DONE when there is
** none; SDB_NOMEM only in trees deeper than 24 nodes. free accepts NULL. */
SDB_MUST int sdb_map_iter_new(sdb_map *map, sdb_map_iter **out);
void sdb_map_iter_free(sdb_map_iter *it);
SDB_MUST int sdb_map_iter_first(sdb_map_iter *it);
SDB_MUST int sdb_map_iter_seek(sdb_map_iter *it, const void *key, size_t len);
SDB_MUST int sdb_map_iter_prefix(sdb_map_iter *it, const void *key, size_t len);
SDB_MUST int sdb_map_iter_next(sdb_map_iter *it);

/* Key and value where it is, after SDB_OK (otherwise NULL and 0). The key's bytes are valid as long as the map is held. */
const void *sdb_map_iter_key(const sdb_map_iter *it, size_t *len);
uint64_t sdb_map_iter_value(const sdb_map_iter *it);

/* NULL, or what is wrong with a map. O(bytes of all keys). */
const char *sdb_map_check(const sdb_map *map);

#ifdef __cplusplus
}
#endif
#endif
