/* row.c - building and reading the layout of row.h. */
#include "row.h"

#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------- layout */

static inline int row_stored(int n_columns, int rowid_column)
{
    return n_columns - (rowid_column >= 0);
}

/* Where n types and n ends of a width end. */
static inline size_t row_head(int n, unsigned width)
{
    return sizeof(sdb_row) + (size_t)n * (width + 1);
}

static inline unsigned row_width(const sdb_row *row)
{
    return (unsigned)(row->made >> 56);
}

/* The width of the ends of a row of a size. */
static inline unsigned width_for(uint64_t size)
{
    return size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : 4;
}

static inline uint64_t round_up_8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

/* The i-th of some ends. */
static inline uint32_t end_get(const uint8_t *ends, int i, unsigned width)
{
    uint16_t end16;
    uint32_t end32;

    if (width == 1)
        return ends[i];
    if (width == 2) {
        memcpy(&end16, ends + (size_t)i * 2, sizeof end16);
        return end16;
    }
    memcpy(&end32, ends + (size_t)i * 4, sizeof end32);
    return end32;
}

static inline void end_put(uint8_t *ends, int i, unsigned width, size_t end)
{
    uint16_t end16 = (uint16_t)end;
    uint32_t end32 = (uint32_t)end;

    if (width == 1)
        ends[i] = (uint8_t)end;
    else if (width == 2)
        memcpy(ends + (size_t)i * 2, &end16, sizeof end16);
    else
        memcpy(ends + (size_t)i * 4, &end32, sizeof end32);
}

/* ---------------------------------------------------------------- one column */

static inline sdb_type stored_type(const sdb_value *value)
{
    bool is_nan = value->type == SDB_REAL && value->u.r != value->u.r;

    return is_nan ? SDB_NULL : value->type;
}

/* 1 to 8: its bits and that of its sign. */
static inline unsigned integer_size(int64_t i)
{
    uint64_t bits = (uint64_t)(i ^ i >> 63);

    return (64 - (unsigned)__builtin_clzll(bits | 1)) / 8 + 1;
}

static inline uint64_t stored_size(const sdb_value *value, sdb_type type)
{
    switch (type) {
    case SDB_NULL:
        return 0;
    case SDB_INTEGER:
        return integer_size(value->u.i);
    case SDB_REAL:
        return sizeof value->u.r;
    default:
        return (uint64_t)value->n + (type == SDB_TEXT);
    }
}

/* Compilers make one load of it. */
static inline uint64_t word_get(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

/* The first n bytes of a word, and where there is room before `end` all of them, at once: what follows is
** written later. (Swapped, should this machine need it, it is swapped back.) */
static inline void word_put(uint8_t *p, const uint8_t *end, size_t n, uint64_t word)
{
    if (end - p < 8) {
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(word >> 8 * i);
    } else {
        word = word_get((const uint8_t *)&word);
        memcpy(p, &word, sizeof word);
    }
}

/* ---------------------------------------------------------------- interface */

size_t sdb_row_measure(const sdb_value *values, int n_columns, int rowid_column)
{
    int n = row_stored(n_columns, rowid_column);
    uint64_t bytes = 0, size;
    unsigned width = 1;

    for (int i = 0; i < n_columns; i++)
        if (i != rowid_column)
            bytes += stored_size(&values[i], stored_type(&values[i]));
    do
        size = round_up_8(row_head(n, width) + bytes);
    while (width_for(size) > width && (width = width_for(size)));
    return size <= SDB_MAX_ROW ? (size_t)size : 0;
}

void sdb_row_build(sdb_row *row, size_t size, int64_t rowid, const sdb_value *values, int n_columns,
                   int rowid_column)
{
    int n = row_stored(n_columns, rowid_column), at = 0;
    unsigned width = width_for(size);
    uint8_t *type = row->type, *ends = type + n;
    uint8_t *p = ends + (size_t)n * width;
    const uint8_t *limit = (const uint8_t *)row + size;

    row->rowid = rowid;
    row->made = (uint64_t)width << 56;
    row->revision = 0;
    for (int i = 0; i < n_columns; i++) {
        const sdb_value *value = &values[i];
        if (i == rowid_column)
            continue;
        sdb_type t = stored_type(value);
        size_t more = (size_t)stored_size(value, t);
        type[at] = (uint8_t)t;
        if (t < SDB_TEXT) {
            word_put(p, limit, more, (uint64_t)value->u.i); /* the bits of a real as well */
        } else {
            if (value->n > 0)
                memcpy(p, value->u.p, value->n);
            if (t == SDB_TEXT)
                p[value->n] = 0;
        }
        p += more;
        end_put(ends, at++, width, (size_t)(p - (uint8_t *)row));
    }
    assert(round_up_8((uint64_t)(p - (uint8_t *)row)) == size);
}

size_t sdb_row_size(const sdb_row *row, int n_columns, int rowid_column)
{
    int n = row_stored(n_columns, rowid_column);

    return n ? (size_t)round_up_8(end_get(row->type + n, n - 1, row_width(row))) : sizeof *row;
}

/* The bytes of the i-th stored column, of n. */
typedef struct span {
    uint32_t start, end;
} span;

static inline span span_of(const sdb_row *row, int i, int n)
{
    unsigned width = row_width(row);
    const uint8_t *ends = row->type + n;

    return (span){i ? end_get(ends, i - 1, width) : (uint32_t)row_head(n, width),
                  end_get(ends, i, width)};
}

static inline int stored_at(int column, int rowid_column)
{
    return column - (rowid_column >= 0 && column > rowid_column);
}

bool sdb_row_is_same(const sdb_row *a, const sdb_row *b, int column, int n_columns,
                     int rowid_column)
{
    if (column == rowid_column)
        return a->rowid == b->rowid;

    int n = row_stored(n_columns, rowid_column), i = stored_at(column, rowid_column);
    span s = span_of(a, i, n), t = span_of(b, i, n);
    const uint8_t *p = (const uint8_t *)a + s.start, *q = (const uint8_t *)b + t.start;
    uint32_t size = s.end - s.start;

    assert(column >= 0 && column < n_columns);
    return a->type[i] == b->type[i] && size == t.end - t.start && memcmp(p, q, size) == 0;
}

sdb_value sdb_row_get(const sdb_row *row, int column, int n_columns, int rowid_column)
{
    if (column == rowid_column)
        return (sdb_value){.type = SDB_INTEGER, .u.i = row->rowid};

    int n = row_stored(n_columns, rowid_column), i = stored_at(column, rowid_column);
    const uint8_t *bytes = (const uint8_t *)row;
    span s = span_of(row, i, n);
    sdb_value value = {.type = row->type[i]};

    assert(column >= 0 && column < n_columns);
    if (value.type >= SDB_TEXT) {
        value.u.p = bytes + s.start;
        value.n = s.end - s.start - (value.type == SDB_TEXT);
    } else if (value.type != SDB_NULL) {
        /* The eight bytes that end with it, which are in the row: its head is longer. */
        value.u.i = (int64_t)word_get(bytes + s.end - 8) >> (64 - 8 * (s.end - s.start));
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
