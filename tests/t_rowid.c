/* t_rowid.c - rows by rowid, found or not, in trees whose paths spell all of a rowid, parts of it, or little:
** against a sorted array. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const sdb_table_def DEF = {.name = "t", .n_columns = 1, .rowid_column = 0};

enum { MOST = 3000 };

/* Rowids whose bytes at some places are the same in all, and elsewhere are one of so many. */
typedef struct shape {
    const char *name;
    size_t n;
    unsigned each[8]; /* of the most significant byte first */
} shape;

static const shape SHAPES[] = {
    {"one", 1, {256, 256, 256, 256, 256, 256, 256, 256}},
    {"a few, near", 3, {1, 1, 1, 1, 1, 1, 1, 256}},
    {"a few, far", 3, {256, 256, 256, 256, 256, 256, 256, 256}},
    {"dense", MOST, {1, 1, 1, 1, 1, 1, 12, 256}},
    {"dense, and as many far above", MOST, {1, 1, 2, 1, 1, 1, 6, 256}},
    {"pairs", MOST, {1, 1, 1, 1, 1, 200, 1, 2}},
    {"every 65,536th", 200, {1, 1, 1, 1, 4, 64, 1, 1}},
    {"anywhere", MOST, {256, 256, 256, 256, 256, 256, 256, 256}},
};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t rowid_of(const shape *s)
{
    uint64_t id = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t byte = rnd(s->each[i]);
        id = id << 8 | (s->each[i] == 1 ? (uint64_t)(i * 37) : byte);
    }
    return (int64_t)id;
}

typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_txn *txn;
    sdb_cursor *cur;
} fixture;

static void look_up(const fixture *f, int64_t id, bool is_there)
{
    const sdb_row *row;
    sdb_value v = {.type = SDB_INTEGER, .u.i = id};
    sdb_snapshot_get_many(f->snap, f->t, &id, 1, &row);
    assert_int_equal(row != NULL, is_there);
    if (row)
        assert_int_equal(sdb_row_rowid(row), id);
    assert_ptr_equal(sdb_txn_get(f->txn, f->t, id), row);
    assert_int_equal(sdb_cursor_seek(f->cur, &(sdb_range){.eq = &v, .n_eq = 1}), is_there ? SDB_OK : SDB_DONE);
    assert_ptr_equal(sdb_cursor_row(f->cur), row);
}

/* Each rowid, and those that differ from it in one bit, or in all of the last ones. */
static void test_shape(void **state)
{
    const shape *s = *state;
    static int64_t id[MOST];
    fixture f;
    assert_int_equal(sdb_open(&f.db), SDB_OK);
    assert_int_equal(sdb_txn_begin(f.db, &f.txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f.txn, &DEF, &f.t), SDB_OK);
    for (size_t i = 0; i < s->n; i++) {
        id[i] = rowid_of(s);
        assert_int_equal(sdb_put(f.txn, f.t, id[i], &(sdb_value){.type = SDB_NULL}), SDB_OK);
    }
    assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    qsort(id, s->n, sizeof *id, compare);
    assert_int_equal(sdb_snapshot_new(f.db, &f.snap), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_txn_begin(f.db, &f.txn), SDB_OK);
    assert_int_equal(sdb_cursor_new(f.db, &f.cur), SDB_OK);
    assert_int_equal(sdb_cursor_open(f.cur, f.snap, f.t, SDB_BY_ROWID), SDB_OK);
    for (size_t i = 0; i < s->n; i++) {
        look_up(&f, id[i], true);
        for (int bit = 0; bit < 64; bit++) {
            int64_t near[2] = {(int64_t)((uint64_t)id[i] ^ (uint64_t)1 << bit),
                               (int64_t)((uint64_t)id[i] ^ (((uint64_t)2 << bit) - 1))};
            for (int k = 0; k < 2; k++)
                look_up(&f, near[k], bsearch(&near[k], id, s->n, sizeof *id, compare) != NULL);
        }
    }
    sdb_cursor_free(f.cur);
    sdb_txn_abort(f.txn);
    sdb_snapshot_free(f.snap);
    sdb_unref(f.db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    enum { N = sizeof SHAPES / sizeof *SHAPES };
    struct CMUnitTest tests[N];
    for (size_t i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){SHAPES[i].name, test_shape, NULL, NULL, (void *)(uintptr_t)&SHAPES[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
