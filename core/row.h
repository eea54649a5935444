/* row.h - one immutable record, read column by column without decoding.
**
**    0  i64  rowid
**    8  u64  48 bits: stamp of the transaction state that made it | 16 bits: 0
**   16  u64  revision of the table that wrote it | bit 63: it is a grave (feed.h)
**   24  slot[n]   8 bytes each: integer and real in place; text and blob as u32 offset from the
**                 row's start, u32 length
**       type[n]   1 byte each, sdb_type
**       payload   text and blob bytes; each text followed by one 00 that its length leaves out
**
** n is the number of *stored* columns: all but the rowid column, whose value is the rowid. The row
** is 8-byte aligned, its size a multiple of 8. Slots of NULLs are 0. Little or big endian alike:
** rows never leave the process. */
#ifndef SDB_ROW_H
#define SDB_ROW_H

#include "statedb.h"

#define SDB_ROW_DEAD ((uint64_t)1 << 63)

struct sdb_row {
    int64_t rowid;
    uint64_t stamp; /* 48 bits used */
    uint64_t revision;
    uint64_t slot[]; /* then types, then payload */
};

/* Bytes needed for a row of these values (n_columns of them, the one at rowid_column - or none,
** -1 - left out), a multiple of 8; 0 when it would pass SDB_MAX_ROW. */
size_t sdb_row_measure(const sdb_value *values, int n_columns, int rowid_column);

/* Build it at `row` (as many bytes as measured); values may point into other rows. */
void sdb_row_build(sdb_row *row, int64_t rowid, uint64_t stamp, uint64_t revision,
                   const sdb_value *values, int n_columns, int rowid_column);

/* The size that was measured for this row. O(columns). */
size_t sdb_row_size(const sdb_row *row, int n_columns, int rowid_column);

/* Column `column`; O(1). */
sdb_value sdb_row_get(const sdb_row *row, int column, int n_columns, int rowid_column);

#endif
