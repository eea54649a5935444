/* multi.h - the keys that a row has in a multi index, and the entries that stand for them.
**
** A row's keys are a SET: any number of keys, each once, in order. A key is the bytes of its value
** (key.h), then the rowid, as in every index where rows may share a value.
**
** In the tree of a multi index the leaves are not the rows, since a row does not tell which of its keys
** a leaf is there for. They are ENTRIES: a rowid and the bytes of one value. An entry names its row by
** rowid and not by link, so it lives as long as the row has that key, however often the row is
** replaced meanwhile: a change touches the keys that come and go, and nothing else. The price is a
** look-up by rowid where an entry is read (core/README.md). */
#ifndef SDB_MULTI_H
#define SDB_MULTI_H

#include "radix.h"

/* A key in a set. */
typedef struct sdb_key_item {
    uint32_t n;     /* bytes of the key, the rowid's too */
    sdb_link entry; /* made for it and in no tree yet, or 0 */
    uint8_t key[];
} sdb_key_item;

/* A set, or what is left of one that is gone through. */
typedef struct sdb_set {
    uint8_t *at, *end; /* multiples of 8 */
} sdb_set;

static inline size_t sdb_round_up_8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* The next key, or NULL. */
static inline sdb_key_item *sdb_set_next(sdb_set *set)
{
    sdb_key_item *item = (sdb_key_item *)(void *)set->at;
    if (set->at == set->end)
        return NULL;
    set->at += sdb_round_up_8(sizeof *item + item->n);
    return item;
}

/* Append the set of a row with this value in the index's column; it begins at the next multiple of 8.
** SDB_NOMEM, SDB_TOOBIG, and what the extractor says. */
SDB_MUST int sdb_set_build(const sdb_index_def *def, int64_t rowid, const sdb_value *value,
                           sdb_buf *out);

/* Bytes somewhere. */
typedef struct sdb_bytes {
    const uint8_t *at;
    size_t n;
} sdb_bytes;

/* Whether one of the keys of a row with this value (without their rowids) is in [lo, hi) and is not
** `not`; an hi of no bytes is no end. `room` is for a key at a time. Errors as above. */
SDB_MUST int sdb_set_search(const sdb_index_def *def, const sdb_value *value, sdb_bytes lo,
                            sdb_bytes hi, sdb_bytes not, sdb_buf *room, bool *out);

/* It begins as a row does, so that one can tell from a link to either what it is. */
typedef struct sdb_entry {
    int64_t rowid;
    uint64_t stamp; /* 48 bits | SDB_IS_ENTRY */
    uint32_t n;     /* bytes of the key, without the rowid's */
    uint8_t key[];
} sdb_entry;

#define SDB_IS_ENTRY ((uint64_t)1 << 48)

static inline size_t sdb_entry_size(uint32_t n)
{
    return sdb_round_up_8(offsetof(sdb_entry, key) + n);
}

/* sdb_leaves of a multi index; they need no ctx. */
size_t sdb_entry_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte);
int sdb_entry_key(const void *ctx, const void *leaf, sdb_buf *out);

#endif
