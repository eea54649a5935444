/* t_range.c - ranges of cursors: every kind, forwards and back, against a test of each row. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int order(const sdb_value *x, const sdb_value *y)
{
    int tx = x->type == SDB_REAL ? SDB_INTEGER : x->type,
        ty = y->type == SDB_REAL ? SDB_INTEGER : y->type;
    if (tx != ty)
        return tx < ty ? -1 : 1;
    double dx = x->type == SDB_REAL ? x->u.r : (double)x->u.i,
           dy = y->type == SDB_REAL ? y->u.r : (double)y->u.i;
    if (tx == SDB_INTEGER)
        return (dx > dy) - (dx < dy);
    if (tx == SDB_NULL)
        return 0;
    int c = memcmp(x->u.p, y->u.p, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* Going over many rows at once leads to where so many steps lead. */
static void assert_skips(sdb_cursor *cur, const sdb_range *range)
{
    enum { ROWS = 512 };
    const sdb_row *row[ROWS];
    size_t n = 0;
    for (int rc = sdb_cursor_seek(cur, range); rc == SDB_OK; rc = sdb_cursor_next(cur))
        row[n++] = sdb_cursor_row(cur);
    for (int i = 0; i < 4; i++) {
        size_t from = rnd(n + 1), by = rnd(4) ? rnd(n - from + 2) : rnd(2) ? UINT64_MAX : 0;
        if (sdb_cursor_seek(cur, range) != SDB_OK || from == n) {
            assert_int_equal(sdb_cursor_skip(cur, n), SDB_DONE);
            assert_null(sdb_cursor_row(cur));
            continue;
        }
        assert_int_equal(sdb_cursor_skip(cur, from), SDB_OK);
        assert_ptr_equal(sdb_cursor_row(cur), row[from]);
        bool is_there = by < n - from;
        assert_int_equal(sdb_cursor_skip(cur, by), is_there ? SDB_OK : SDB_DONE);
        assert_ptr_equal(sdb_cursor_row(cur), is_there ? row[from + by] : NULL);
        assert_int_equal(sdb_cursor_next(cur), from + by + 1 < n && is_there ? SDB_OK : SDB_DONE);
        assert_ptr_equal(sdb_cursor_row(cur), from + by + 1 < n && is_there ? row[from + by + 1] : NULL);
    }
}

/* Every kind of range over every index, forwards and back, against a test of each row. */
static void test_ranges(void **state)
{
    (void)state;
    static const sdb_part PARTS[3][2] = {{{1, SDB_BINARY, false}, {2, SDB_BINARY, true}},
                                         {{2, SDB_BINARY, true}, {1, SDB_BINARY, false}},
                                         {{1, SDB_BINARY, true}, {2, SDB_BINARY, true}}};
    static const sdb_index_def defs[3] = {
        {.name = "x", .unique = false, .n_parts = 2, .parts = PARTS[0]},
        {.name = "y", .unique = false, .n_parts = 2, .parts = PARTS[1]},
        {.name = "z", .unique = false, .n_parts = 2, .parts = PARTS[2]}};
    sdb_table_def def = {
        .name = "r", .n_columns = 3, .rowid_column = 0, .n_indexes = 3, .indexes = defs};
    sdb_value pool[] = {{.type = SDB_NULL},
                        {.type = SDB_INTEGER, .u.i = -1},
                        {.type = SDB_INTEGER, .u.i = 0},
                        {.type = SDB_REAL, .u.r = 0.5},
                        {.type = SDB_INTEGER, .u.i = 1},
                        {.type = SDB_REAL, .u.r = 1e300},
                        {.type = SDB_TEXT, .n = 0, .u.p = ""},
                        {.type = SDB_TEXT, .n = 1, .u.p = "a"},
                        {.type = SDB_TEXT, .n = 2, .u.p = "a\0"},
                        {.type = SDB_BLOB, .n = 1, .u.p = "\xff"},
                        {.type = SDB_BLOB, .n = 2, .u.p = "\xff\xff"}};
    enum { POOL = sizeof pool / sizeof *pool };
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_cursor *cur;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    for (int i = 0; i < POOL * POOL; i++) {
        sdb_value v[3] = {{.type = SDB_NULL}, pool[i / POOL], pool[i % POOL]};
        assert_int_equal(sdb_put(txn, t, i - 5, v), SDB_OK);
    }
    rng = 7;
    for (int round = 0; round < 20000; round++) {
        int index = (int)rnd(4), n_eq = (int)rnd(index ? 3 : 2);
        sdb_value eq[2] = {pool[rnd(POOL)], pool[rnd(POOL)]}, lower = pool[rnd(POOL)],
                  upper = pool[rnd(POOL)];
        if (index == 0) { /* rowids: NULL, any number, text */
            eq[0] = rnd(2) ? (sdb_value){.type = SDB_INTEGER, .u.i = (int64_t)rnd(130) - 7} : eq[0];
            if (rnd(2))
                lower = (sdb_value){.type = SDB_REAL, .u.r = (double)rnd(300) / 2 - 10};
        }
        sdb_range r = {.eq = eq,
                       .n_eq = (uint16_t)n_eq,
                       .reverse = rnd(2),
                       .lower_open = rnd(2),
                       .upper_open = rnd(2)};
        if (n_eq < (index ? 2 : 1)) {
            r.lower = rnd(2) ? &lower : NULL;
            r.upper = rnd(2) ? &upper : NULL;
        }
        bool want[POOL * POOL];
        uint64_t n_want = 0, n = 0, counted;
        for (int i = 0; i < POOL * POOL; i++) {
            sdb_value id = {.type = SDB_INTEGER, .u.i = i - 5},
                      col[3] = {id, pool[i / POOL], pool[i % POOL]};
            bool in = true;
            for (int k = 0; k < n_eq; k++)
                in &= order(&col[index ? PARTS[index - 1][k].column : 0], &eq[k]) == 0;
            const sdb_value *next = &col[index ? PARTS[index - 1][n_eq < 2 ? n_eq : 0].column : 0];
            if (r.lower)
                in &= order(next, &lower) > (r.lower_open ? 0 : -1);
            if (r.upper)
                in &= order(next, &upper) < (r.upper_open ? 0 : 1);
            want[i] = in;
            n_want += in;
        }
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, index), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &r, &counted), SDB_OK);
        assert_int_equal(counted, n_want);
        const sdb_row *before = NULL;
        for (int rc = sdb_cursor_seek(cur, &r); rc == SDB_OK; rc = sdb_cursor_next(cur)) {
            const sdb_row *row = sdb_cursor_row(cur);
            assert_true(want[sdb_row_rowid(row) + 5]);
            int c = 0;
            for (int k = 0; before && c == 0 && k < (index ? 2 : 0); k++) {
                const sdb_part *p = &PARTS[index - 1][k];
                sdb_value x = sdb_row_value(t, before, p->column),
                          y = sdb_row_value(t, row, p->column);
                c = p->desc ? order(&y, &x) : order(&x, &y);
            }
            if (before && c == 0)
                c = sdb_row_rowid(before) < sdb_row_rowid(row) ? -1 : 1;
            if (before)
                assert_true(r.reverse ? c > 0 : c < 0);
            before = row;
            n++;
        }
        assert_int_equal(n, n_want);
        assert_skips(cur, &r);
        sdb_cursor_close(cur);
    }
    sdb_cursor_free(cur);
    sdb_txn_abort(txn);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static int bits_extract(void *ctx, const sdb_value *value, sdb_key_set *keys)
{
    (void)ctx;
    for (int64_t bit = 0; value->type == SDB_INTEGER && bit < 8; bit++) {
        sdb_value key = {.type = SDB_INTEGER, .u.i = bit};
        if (value->u.i >> bit & 1)
            sdb_key_set_add(keys, &key);
    }
    return SDB_OK;
}

/* In the other kinds of index, and in rows sorted for a reader. */
static void test_skips(void **state)
{
    (void)state;
    static const sdb_part BITS = {.column = 1}, NET = {.column = 2};
    static const sdb_index_def defs[] = {
        {.name = "bits", .n_parts = 1, .parts = &BITS, .kind = SDB_MULTI, .extract = bits_extract},
        {.name = "net", .n_parts = 1, .parts = &NET, .kind = SDB_LPM},
        {.name = "k", .n_parts = 1, .parts = &BITS}};
    sdb_table_def def = {
        .name = "s", .n_columns = 3, .rowid_column = 0, .n_indexes = 2, .indexes = defs};
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_cursor *cur;
    sdb_sorted *sorted;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    rng = 3;
    for (int i = 0; i < 300; i++) {
        uint8_t net[2] = {(uint8_t)rnd(3), (uint8_t)rnd(3)};
        sdb_value v[3] = {{.type = SDB_NULL},
                          {.type = SDB_INTEGER, .u.i = (int64_t)rnd(256)},
                          {.type = SDB_BLOB, .n = (uint32_t)rnd(3), .u.p = net}};
        assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
    }
    for (int round = 0; round < 400; round++) {
        int index = round / 2 % 3, is_sorted = round % 4 == 3;
        sdb_value key = {.type = SDB_INTEGER, .u.i = (int64_t)rnd(9)},
                  net = {.type = SDB_BLOB, .n = (uint32_t)rnd(3), .u.p = "\1\2"};
        sdb_range r = {.eq = index == 2 && !is_sorted ? &net : &key, .reverse = rnd(2)};
        if (rnd(2))
            r.n_eq = 1;
        else if (index != 2 || is_sorted)
            r.lower = rnd(2) ? &key : NULL;
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, index), SDB_OK);
        if (is_sorted) {
            assert_int_equal(sdb_sorted_new(cur, &defs[2], NULL, &sorted), SDB_OK);
            assert_int_equal(sdb_cursor_read(cur, sorted), SDB_OK);
        }
        assert_skips(cur, &r);
        sdb_cursor_close(cur);
        if (is_sorted)
            sdb_sorted_free(sorted);
    }
    sdb_cursor_free(cur);
    sdb_txn_abort(txn);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_skips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
