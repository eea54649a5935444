/* key.h - order-preserving, prefix-free key bytes for SQL values.
**
** memcmp on two keys of one index gives the order of their values: NULL < numbers < text < blob.
** No column's bytes are a prefix of another value's bytes for that column, so columns concatenate
** and every range of values is a range of byte strings.
**
**   value    bytes
**   NULL     10
**   number   20, the nearest IEEE double d in 8 big-endian bytes, sign bit flipped where d >= 0 and
**            all bits flipped where d < 0; and where |d| >= 2^53, two more: 0x8000 + (value - d),
**            big-endian, so that integers and reals interleave exactly (2^53+1 is not 2^53)
**   text     30, the bytes through the collation, each 00 as 01 01 and each 01 as 01 02, then 00
**   blob     40, the same without a collation
**
** A descending column has every byte complemented. -0.0 is 0; a NaN is NULL. NOCASE compares as
** SQLite does: up to the first NUL, then by length. The escape costs one byte of terminator, and
** nothing for ordinary text. */
#ifndef SDB_KEY_H
#define SDB_KEY_H

#include "statedb.h"

#include <string.h>

/* Two keys, or beginnings of keys, as memcmp with lengths: < 0, 0, > 0. */
static inline int sdb_key_compare(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    int c = n && m ? memcmp(a, b, n < m ? n : m) : 0;
    return c ? c : (n > m) - (n < m);
}

/* Room for one value: of a number a tag and ten bytes, of text a tag, the bytes, perhaps each of them twice,
** an end, and what a word sticks out whose first byte is the last of the text. */
static inline size_t sdb_key_bound(const sdb_value *value)
{
    return value->type < SDB_TEXT ? 11 : 2 + 2 * (size_t)value->n + 7;
}

/* Write one value at `out` (room: sdb_key_bound) and return the end. Cannot fail. */
uint8_t *sdb_key_put(uint8_t *out, const sdb_value *value, sdb_collation collation, bool desc);

/* Compare, without building it, the key bytes of `value` with key[at..len). Returns the position in
** `key` just behind the value's bytes when they are all equal to what stands there and *byte = -1;
** otherwise the position of the first byte that differs (len when the key ends first) and *byte =
** the value's own byte at that position (0..255). */
size_t sdb_key_diff(const uint8_t *key, size_t len, size_t at, const sdb_value *value,
                    sdb_collation collation, bool desc, int *byte);

/* 8 bytes as a number, the first of them on top: numbers are then in the order of the bytes. Compilers make one load
** and a byte swap of this. */
static inline uint64_t sdb_key_word(const uint8_t *p)
{
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
}

/* A rowid as 8 bytes, big-endian, sign bit flipped. */
#define SDB_ROWID_KEY 8
uint8_t *sdb_key_put_rowid(uint8_t *out, int64_t rowid);

/* And back. */
int64_t sdb_key_rowid(const uint8_t *key);

/* As sdb_key_diff, for a rowid. */
size_t sdb_key_diff_rowid(const uint8_t *key, size_t len, size_t at, int64_t rowid, int *byte);

#endif
