/* row.c - building and reading the layout of row.h. */
#include "row.h"

#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------- layout */

static inline int row_slots(int n_columns, int rowid_column)
{
    return n_columns - (rowid_column >= 0);
}

/* Where n slots and n types end. */
static inline size_t row_head(int n)
{
    return sizeof(sdb_row) + (size_t)n * (sizeof(uint64_t) + 1);
}

static inline uint8_t *row_types(const sdb_row *row, int n)
{
    return (uint8_t *)(row->slot + n);
}

static inline uint64_t round_up_8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

static inline sdb_type stored_type(const sdb_value *value)
{
    bool is_nan = value->type == SDB_REAL && value->u.r != value->u.r;

    return is_nan ? SDB_NULL : value->type;
}

/* Payload bytes of a text or blob of n bytes. */
static inline uint64_t payload_size(sdb_type type, uint32_t n)
{
    return (uint64_t)n + (type == SDB_TEXT);
}

/* ---------------------------------------------------------------- interface */

size_t sdb_row_measure(const sdb_value *values, int n_columns, int rowid_column)
{
    uint64_t size = row_head(row_slots(n_columns, rowid_column));

    for (int i = 0; i < n_columns; i++) {
        if (i != rowid_column && values[i].type >= SDB_TEXT) {
            size += payload_size(values[i].type, values[i].n);
        }
    }
    size = round_up_8(size);
    return size <= SDB_MAX_ROW ? (size_t)size : 0;
}

void sdb_row_build(sdb_row *row, int64_t rowid, uint64_t stamp, uint64_t revision,
                   const sdb_value *values, int n_columns, int rowid_column)
{
    int n = row_slots(n_columns, rowid_column);
    uint64_t *slot = row->slot;
    uint8_t *type = row_types(row, n);
    uint8_t *payload = (uint8_t *)row + row_head(n);

    assert(stamp >> 48 == 0);
    row->rowid = rowid;
    row->stamp = stamp;
    row->revision = revision;
    for (int i = 0; i < n_columns; i++) {
        const sdb_value *value = &values[i];
        if (i == rowid_column)
            continue;
        *type = (uint8_t)stored_type(value);
        if (*type == SDB_NULL) {
            *slot = 0;
        } else if (*type < SDB_TEXT) {
            *slot = (uint64_t)value->u.i; /* the bits of a real as well */
        } else {
            *slot = (uint64_t)(payload - (uint8_t *)row) | (uint64_t)value->n << 32;
            if (value->n > 0)
                memcpy(payload, value->u.p, value->n);
            if (*type == SDB_TEXT)
                payload[value->n] = 0;
            payload += payload_size(value->type, value->n);
        }
        slot++;
        type++;
    }
}

size_t sdb_row_size(const sdb_row *row, int n_columns, int rowid_column)
{
    int n = row_slots(n_columns, rowid_column);
    const uint8_t *types = row_types(row, n);
    int last = n - 1; /* text or blob: it ends the row */

    while (last >= 0 && types[last] < SDB_TEXT)
        last--;
    if (last < 0)
        return round_up_8(row_head(n));
    uint64_t slot = row->slot[last];
    return round_up_8((uint32_t)slot + payload_size(types[last], (uint32_t)(slot >> 32)));
}

sdb_value sdb_row_get(const sdb_row *row, int column, int n_columns, int rowid_column)
{
    if (column == rowid_column)
        return (sdb_value){.type = SDB_INTEGER, .u.i = row->rowid};

    int n = row_slots(n_columns, rowid_column);
    int i = column - (rowid_column >= 0 && column > rowid_column);
    uint64_t slot = row->slot[i];
    sdb_value value = {.type = row_types(row, n)[i], .u.i = (int64_t)slot};

    assert(column >= 0 && column < n_columns);
    if (value.type >= SDB_TEXT) {
        value.n = (uint32_t)(slot >> 32);
        value.u.p = (const uint8_t *)row + (uint32_t)slot;
    }
    return value;
}

int64_t sdb_row_rowid(const sdb_row *row)
{
    return row->rowid;
}

uint64_t sdb_row_revision(const sdb_row *row)
{
    return row->revision & ~SDB_ROW_DEAD;
}

bool sdb_row_is_deleted(const sdb_row *row)
{
    return row->revision & SDB_ROW_DEAD;
}
