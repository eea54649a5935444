/* row.h - one immutable record, read column by column without decoding.
**
**    0  i64  rowid
**    8  u64  48 bits: stamp of the transaction state that made it | 8 bits: 0 (but in multi.h)
**            | 8 bits: width of an end
**   16  u64  revision of the table that wrote it | bit 63: it is a grave (feed.h)
**   24  type[n]   1 byte each, sdb_type
**       end[n]    where each column's bytes end, from the row's start: in 1 byte each, or 2, or 4,
**                 as few as the row's size allows
**       bytes     of the columns, one behind the other: NULL none; an integer as few as hold it (1
**                 to 8, least significant first), a real 8 in that order too; text and blob their
**                 own, after text one 00 that its length leaves out
**
** n is the number of *stored* columns: all but the rowid column, whose value is the rowid. A column
** begins where the one before it ends. The row is 8-byte aligned, its size a multiple of 8. */
#ifndef SDB_ROW_H
#define SDB_ROW_H

#include "statedb.h"

#define SDB_ROW_DEAD ((uint64_t)1 << 63)

struct sdb_row {
    int64_t rowid;
    uint64_t made; /* stamp and width */
    uint64_t revision;
    uint8_t type[]; /* then ends, then the columns */
};

static inline uint64_t sdb_row_stamp(const sdb_row *row)
{
    return row->made & (((uint64_t)1 << 48) - 1);
}

static inline void sdb_row_set_stamp(sdb_row *row, uint64_t stamp)
{
    row->made = row->made >> 48 << 48 | stamp;
}

/* Bytes needed for a row of these values (n_columns of them, the one at rowid_column - or none,
** -1 - left out), a multiple of 8; 0 when it would pass SDB_MAX_ROW. */
size_t sdb_row_measure(const sdb_value *values, int n_columns, int rowid_column);

/* Build it at `row`, of the size that was measured, with stamp and revision 0; values may point into
** other rows. */
void sdb_row_build(sdb_row *row, size_t size, int64_t rowid, const sdb_value *values, int n_columns,
                   int rowid_column);

/* The size that was measured for this row; O(1). */
size_t sdb_row_size(const sdb_row *row, int n_columns, int rowid_column);

/* Whether two rows of a table have the same in a column: type and bytes. */
bool sdb_row_is_same(const sdb_row *a, const sdb_row *b, int column, int n_columns,
                     int rowid_column);

/* Column `column`; O(1). */
sdb_value sdb_row_get(const sdb_row *row, int column, int n_columns, int rowid_column);

#endif
