/* t_symptoms.c - what has gone wrong in other stores of this kind, each under the name of how it
** showed: wrong lists, lost rows, watches that stayed silent or fired for nothing, memory that never
** came back. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the table */

/* t(id = rowid, k, u): by_k (k), by_u unique (u) */
typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn; /* open all the time, but for commit() */
    sdb_snapshot *snap;
    sdb_cursor *cur;
    sdb_watch *w;
} fixture;

enum { BY_ID, BY_K, BY_U };

static const sdb_part PART[2] = {{1, SDB_BINARY, false}, {2, SDB_BINARY, false}};
static const sdb_index_def INDEXES[2] = {
    {.name = "by_k", .n_parts = 1, .parts = PART},
    {.name = "by_u", .unique = true, .n_parts = 1, .parts = PART + 1}};

static sdb_table_def def_of(const char *name)
{
    return (sdb_table_def){.name = name, .n_columns = 3, .rowid_column = 0, .n_indexes = 2,
                           .indexes = INDEXES};
}

static const sdb_value NOTHING = {.type = SDB_NULL};

static sdb_value integer(int64_t i)
{
    return (sdb_value){.type = SDB_INTEGER, .u.i = i};
}

static sdb_value bytes(const char *p, size_t n)
{
    return (sdb_value){.type = SDB_BLOB, .n = (uint32_t)n, .u.p = p};
}

static sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static void fixture_open(fixture *f)
{
    sdb_table_def def = def_of("t");
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(f->db, &f->cur), SDB_OK);
    assert_int_equal(sdb_watch_new(f->db, &f->w), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f->txn, &def, &f->t), SDB_OK);
}

static void commit(fixture *f)
{
    assert_int_equal(sdb_txn_commit(f->txn), SDB_OK);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
}

static void rollback(fixture *f)
{
    sdb_txn_abort(f->txn);
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
}

static void fixture_close(fixture *f)
{
    char *wrong = sdb_txn_check(f->txn);
    if (wrong)
        fail_msg("%s", wrong);
    sdb_cursor_free(f->cur);
    sdb_txn_abort(f->txn);
    sdb_watch_free(f->w);
    sdb_snapshot_free(f->snap);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static int put(fixture *f, int64_t id, sdb_value k, sdb_value u)
{
    sdb_value v[3] = {NOTHING, k, u};
    return sdb_put(f->txn, f->t, id, v);
}

static void put_ok(fixture *f, int64_t id, sdb_value k, sdb_value u)
{
    assert_int_equal(put(f, id, k, u), SDB_OK);
}

static void del(fixture *f, int64_t id)
{
    assert_int_equal(sdb_delete(f->txn, f->t, sdb_txn_get(f->txn, f->t, id)), SDB_OK);
}

/* The rows of a range as the transaction sees it are these, in this order; -1 ends them. */
static void assert_rows(fixture *f, int index, const sdb_range *r, const int *id)
{
    uint64_t count, n = 0;
    assert_int_equal(sdb_cursor_open_txn(f->cur, f->txn, f->t, index), SDB_OK);
    assert_int_equal(sdb_cursor_count(f->cur, r, &count), SDB_OK);
    for (int rc = sdb_cursor_seek(f->cur, r); rc == SDB_OK; rc = sdb_cursor_next(f->cur))
        assert_int_equal(sdb_row_rowid(sdb_cursor_row(f->cur)), id[n++]);
    assert_int_equal(id[n], -1);
    assert_int_equal(count, n);
    sdb_cursor_close(f->cur);
}

#define ROWS(...) ((const int[]){__VA_ARGS__, -1})
#define NO_ROWS ((const int[]){-1})

static void assert_equal(fixture *f, int index, sdb_value v, const int *id)
{
    assert_rows(f, index, &(sdb_range){.eq = &v, .n_eq = 1}, id);
}

static void arm(fixture *f, int index, const sdb_range *r)
{
    sdb_snapshot_take(f->snap);
    assert_int_equal(sdb_watch_arm(f->w, f->snap, f->t, index, r), SDB_OK);
    sdb_snapshot_drop(f->snap);
    assert_false(sdb_watch_fired(f->w));
}

static uint64_t revision(fixture *f)
{
    sdb_snapshot_take(f->snap);
    uint64_t r = sdb_snapshot_revision(f->snap, f->t);
    sdb_snapshot_drop(f->snap);
    return r;
}

/* ---------------------------------------------------------------- keys */

/* An empty key was not indexed, or stayed when its row had gone. */
static void empty_key_is_not_found_or_left_behind(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text(""), text(""));
    put_ok(&f, 2, bytes("", 0), bytes("", 0));
    put_ok(&f, 3, text(""), NOTHING);
    assert_equal(&f, BY_K, text(""), ROWS(1, 3));
    assert_equal(&f, BY_K, bytes("", 0), ROWS(2));
    assert_equal(&f, BY_U, text(""), ROWS(1));
    assert_int_equal(put(&f, 4, NOTHING, text("")), SDB_EXISTS);
    put_ok(&f, 1, text("x"), text("x"));
    assert_equal(&f, BY_K, text(""), ROWS(3));
    assert_equal(&f, BY_U, text(""), NO_ROWS);
    del(&f, 3);
    assert_equal(&f, BY_K, text(""), NO_ROWS);
    fixture_close(&f);
}

/* Looking up the nil key gave nothing. */
static void null_key_lists_nothing(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, NOTHING, NOTHING);
    put_ok(&f, 2, integer(0), NOTHING);
    put_ok(&f, 3, NOTHING, NOTHING); /* NULLs do not clash */
    assert_equal(&f, BY_K, NOTHING, ROWS(1, 3));
    assert_equal(&f, BY_U, NOTHING, ROWS(1, 2, 3));
    fixture_close(&f);
}

/* Keys that begin with the wanted one were listed too. */
static void list_of_foo_has_foobar_in_it(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("foobar"), text("aaaa"));
    put_ok(&f, 2, text("foo"), text("aaa"));
    put_ok(&f, 3, text("baz"), text("aa"));
    assert_equal(&f, BY_K, text("foo"), ROWS(2));
    assert_equal(&f, BY_K, text("foob"), NO_ROWS);
    assert_equal(&f, BY_U, text("aa"), ROWS(3));
    assert_equal(&f, BY_U, text("a"), NO_ROWS);
    fixture_close(&f);
}

/* The lower bound "foo" met the smaller leaf "foo" and lost its larger siblings. */
static void lower_bound_loses_larger_siblings(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("foobar"), NOTHING);
    put_ok(&f, 2, text("foo"), NOTHING);
    put_ok(&f, 3, text("fop"), NOTHING);
    put_ok(&f, 4, text("fo"), NOTHING);
    sdb_value foo = text("foo"), fooa = text("fooa"), fon = text("fon");
    assert_rows(&f, BY_K, &(sdb_range){.lower = &foo}, ROWS(2, 1, 3));
    assert_rows(&f, BY_K, &(sdb_range){.lower = &foo, .lower_open = true}, ROWS(1, 3));
    assert_rows(&f, BY_K, &(sdb_range){.lower = &fooa}, ROWS(1, 3));
    assert_rows(&f, BY_K, &(sdb_range){.lower = &fon}, ROWS(2, 1, 3));
    assert_rows(&f, BY_K, &(sdb_range){.upper = &fooa, .reverse = true}, ROWS(2, 4));
    fixture_close(&f);
}

/* Bytes of the rowid were taken for bytes of the key before it, and the escape broke the order. */
static void key_bytes_run_into_the_rowid(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 0x0100, bytes("s", 1), NOTHING);
    put_ok(&f, 0x0001, bytes("s\0", 2), NOTHING);
    put_ok(&f, 0x7300, bytes("s\0\1", 3), NOTHING);
    put_ok(&f, 0x0101, bytes("s\1", 2), NOTHING);
    put_ok(&f, 0x0102, bytes("s", 1), NOTHING);
    put_ok(&f, 0x0200, bytes("s\1\1", 3), NOTHING);
    put_ok(&f, 0x0002, bytes("s\2", 2), NOTHING);
    assert_rows(&f, BY_K, &(sdb_range){0},
                ROWS(0x0100, 0x0102, 0x0001, 0x7300, 0x0101, 0x0200, 0x0002));
    assert_equal(&f, BY_K, bytes("s", 1), ROWS(0x0100, 0x0102));
    assert_equal(&f, BY_K, bytes("s\0", 2), ROWS(0x0001));
    assert_equal(&f, BY_K, bytes("s\1", 2), ROWS(0x0101));
    fixture_close(&f);
}

/* The length of a key was kept in 16 bits. */
static void key_of_more_than_65535_bytes_is_cut(void **state)
{
    (void)state;
    enum { LONG = 70000 };
    fixture f;
    fixture_open(&f);
    char *a = malloc(LONG), *b = malloc(LONG);
    memset(a, 'x', LONG);
    memset(b, 'x', LONG);
    b[LONG - 1] = 'y';
    put_ok(&f, 1, bytes(a, LONG), bytes(a, LONG));
    put_ok(&f, 2, bytes(b, LONG), bytes(b, LONG));
    put_ok(&f, 3, bytes(a, LONG - 65536), bytes(a, LONG - 65536));
    put_ok(&f, 4, bytes(a, 65536), bytes(a, 65536));
    put_ok(&f, 5, bytes(a, 0), bytes(a, 0));
    for (int index = BY_K; index <= BY_U; index++) {
        assert_rows(&f, index, &(sdb_range){0}, ROWS(5, 3, 4, 1, 2));
        assert_equal(&f, index, bytes(a, LONG), ROWS(1));
        assert_equal(&f, index, bytes(b, LONG), ROWS(2));
        assert_equal(&f, index, bytes(a, 65535), NO_ROWS);
    }
    free(a);
    free(b);
    fixture_close(&f);
}

/* Integers went into keys in two's complement, negative ones last. */
static void negative_integers_sort_after_positive(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(INT64_MAX));
    put_ok(&f, 2, integer(-1), integer(-1));
    put_ok(&f, 3, integer(0), integer(0));
    put_ok(&f, 4, integer(INT64_MIN), integer(INT64_MIN));
    put_ok(&f, 0, integer(-256), integer(-256));
    assert_rows(&f, BY_K, &(sdb_range){0}, ROWS(4, 0, 2, 3, 1));
    assert_rows(&f, BY_U, &(sdb_range){0}, ROWS(4, 0, 2, 3, 1));
    sdb_value zero = integer(0);
    assert_rows(&f, BY_K, &(sdb_range){.upper = &zero, .upper_open = true}, ROWS(4, 0, 2));
    put_ok(&f, INT64_MIN, NOTHING, NOTHING);
    int64_t last;
    assert_int_equal(sdb_txn_last_rowid(f.txn, f.t, &last), SDB_OK);
    assert_int_equal(last, 4);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- rows */

/* A second row with the same unique key took the first one's place in that index. */
static void unique_key_of_two_rows_overwrites(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(7));
    put_ok(&f, 2, integer(2), integer(8));
    uint64_t before = sdb_row_revision(sdb_txn_get(f.txn, f.t, 2));
    assert_int_equal(put(&f, 2, integer(3), integer(7)), SDB_EXISTS);
    assert_int_equal(put(&f, 3, integer(3), integer(7)), SDB_EXISTS);
    assert_int_equal(sdb_row_revision(sdb_txn_get(f.txn, f.t, 2)), before);
    assert_equal(&f, BY_K, integer(3), NO_ROWS);
    assert_equal(&f, BY_U, integer(7), ROWS(1));
    del(&f, 2); /* and took it along when it went */
    assert_equal(&f, BY_U, integer(7), ROWS(1));
    put_ok(&f, 2, integer(3), integer(8));
    fixture_close(&f);
}

/* Putting an object that was in the table already left half a write. */
static void row_put_from_its_own_memory_is_torn(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("some text of the row"), bytes("and a blob of it", 16));
    for (int i = 0; i < 3; i++) { /* the columns change places, in place and copied */
        const sdb_row *row = sdb_txn_get(f.txn, f.t, 1);
        put_ok(&f, 1, sdb_row_value(f.t, row, 2), sdb_row_value(f.t, row, 1));
        if (i == 1)
            commit(&f);
    }
    assert_equal(&f, BY_K, bytes("and a blob of it", 16), ROWS(1));
    assert_equal(&f, BY_U, text("some text of the row"), ROWS(1));
    fixture_close(&f);
}

/* Deleting what is not there used a revision, which no change event ever had; who waited for it
** waited for ever. */
static void delete_of_a_missing_row_counts(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    commit(&f);
    sdb_snapshot *old;
    assert_int_equal(sdb_snapshot_new(f.db, &old), SDB_OK);
    sdb_snapshot_take(old); /* keeps the row, so that it can be named again */
    const sdb_row *row = sdb_txn_get(f.txn, f.t, 1);
    assert_int_equal(sdb_delete(f.txn, f.t, row), SDB_OK);
    commit(&f);
    uint64_t before = revision(&f);
    arm(&f, BY_ID, &(sdb_range){0});
    assert_int_equal(sdb_delete(f.txn, f.t, row), SDB_MISUSE);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, 1), SDB_DONE);
    commit(&f);
    assert_int_equal(revision(&f), before);
    assert_false(sdb_watch_fired(f.w));
    sdb_snapshot_free(old);
    fixture_close(&f);
}

/* An unsuccessful compare-and-swap wrote and undid: it fired watches, and gave the wrong row back. */
static void failed_compare_is_seen(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    put_ok(&f, 2, integer(2), integer(2));
    commit(&f);
    uint64_t before = revision(&f), of_row = sdb_row_revision(sdb_txn_get(f.txn, f.t, 1));
    arm(&f, BY_ID, &(sdb_range){0});
    sdb_value v[3] = {NOTHING, integer(9), integer(9)};
    assert_int_equal(sdb_put_if(f.txn, f.t, 1, v, before), SDB_CHANGED);
    assert_int_equal(sdb_put_if(f.txn, f.t, 1, v, SDB_ABSENT), SDB_CHANGED);
    assert_int_equal(sdb_put_if(f.txn, f.t, 3, v, of_row), SDB_DONE);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, before), SDB_CHANGED);
    const sdb_row *row = sdb_txn_get(f.txn, f.t, 1);
    assert_int_equal(sdb_row_revision(row), of_row);
    assert_int_equal(sdb_row_value(f.t, row, 1).u.i, 1);
    commit(&f);
    assert_false(sdb_watch_fired(f.w));
    assert_int_equal(revision(&f), before);
    fixture_close(&f);
}

static int add_ten(void *ctx, const sdb_row *old, sdb_value *v)
{
    (void)ctx;
    (void)old;
    v[0] = integer(99);
    v[1].u.i += 10;
    return SDB_OK;
}

/* Modify gave the secondary indexes the object from before the merge, and could change the primary
** key. */
static void modify_leaves_the_old_secondary_key(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    assert_int_equal(sdb_modify(f.txn, f.t, 1, add_ten, NULL), SDB_OK);
    assert_equal(&f, BY_K, integer(1), NO_ROWS);
    assert_equal(&f, BY_K, integer(11), ROWS(1));
    assert_rows(&f, BY_ID, &(sdb_range){0}, ROWS(1));
    fixture_close(&f);
}

/* ---------------------------------------------------------------- transactions */

/* The commit put back the list of tables that it had begun with. */
static void table_made_during_a_transaction_is_lost(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *other;
    sdb_table *u;
    fixture_open(&f);
    commit(&f);
    put_ok(&f, 1, integer(1), integer(1));
    sdb_table_def def = def_of("u");
    sdb_value v[3] = {NOTHING, integer(1), integer(1)};
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK);
    assert_int_equal(sdb_txn_create_table(other, &def, &u), SDB_OK);
    assert_int_equal(sdb_put(other, u, 1, v), SDB_OK);
    assert_int_equal(sdb_txn_commit(other), SDB_OK);
    commit(&f);
    sdb_snapshot_take(f.snap);
    assert_ptr_equal(sdb_snapshot_table(f.snap, "u"), u);
    assert_int_equal(sdb_snapshot_count(f.snap, u), 1);
    assert_int_equal(sdb_snapshot_count(f.snap, f.t), 1);
    sdb_snapshot_drop(f.snap);
    fixture_close(&f);
}

/* The write went into whatever table stood in the same place of the transaction's own store. */
static void table_of_another_store_is_written(void **state)
{
    (void)state;
    fixture f, g;
    fixture_open(&f);
    fixture_open(&g);
    put_ok(&f, 1, integer(1), integer(1));
    put_ok(&g, 1, integer(2), integer(2));
    const sdb_row *row = sdb_txn_get(g.txn, g.t, 1);
    sdb_value v[3] = {NOTHING, integer(9), integer(9)};
    assert_int_equal(sdb_put(f.txn, g.t, 2, v), SDB_MISUSE);
    assert_int_equal(sdb_delete(f.txn, g.t, row), SDB_MISUSE);
    assert_int_equal(sdb_txn_lock(f.txn, g.t), SDB_MISUSE);
    assert_int_equal(sdb_txn_drop_table(f.txn, g.t), SDB_MISUSE);
    assert_int_equal(sdb_txn_drop_index(f.txn, g.t, 1), SDB_MISUSE);
    assert_int_equal(sdb_cursor_open_txn(f.cur, f.txn, g.t, 0), SDB_MISUSE);
    assert_null(sdb_txn_get(f.txn, g.t, 1));
    assert_int_equal(sdb_txn_count(f.txn, g.t), 0);
    commit(&f);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 1);
    assert_int_equal(sdb_txn_count(g.txn, g.t), 1);
    sdb_cursor_free(g.cur);
    sdb_txn_abort(g.txn);
    sdb_watch_free(g.w);
    sdb_snapshot_free(g.snap);
    sdb_unref(g.db);
    fixture_close(&f);
}

/* A transaction waited for itself. */
static void same_table_twice_locks_up(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    commit(&f);
    sdb_table *twice[2] = {f.t, f.t};
    sdb_txn_set_timeout(f.txn, -1);
    assert_int_equal(sdb_txn_lock_all(f.txn, twice, 2), SDB_OK);
    assert_int_equal(sdb_txn_lock(f.txn, f.t), SDB_OK);
    fixture_close(&f);
}

/* While a transaction could still take its snapshot anew, a table it had been told of went, and was
** looked at. */
static void lock_of_a_dropped_table_reads_freed_memory(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *other;
    fixture_open(&f);
    commit(&f);
    assert_ptr_equal(sdb_txn_table(f.txn, "t"), f.t);
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(other, f.t), SDB_OK);
    assert_int_equal(sdb_txn_commit(other), SDB_OK);
    assert_int_equal(sdb_txn_lock(f.txn, f.t), SDB_STALE);
    fixture_close(&f);
}

/* The same through a third table, whose lock took the snapshot anew. */
static void lock_frees_the_tables_of_others(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *other;
    sdb_table *t1;
    fixture_open(&f);
    assert_int_equal(sdb_txn_create_table(f.txn, &(sdb_table_def){.name = "t1", .n_columns = 1}, &t1),
                     SDB_OK);
    commit(&f);
    f.t = sdb_txn_table(f.txn, "t");
    t1 = sdb_txn_table(f.txn, "t1");
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK);
    assert_int_equal(sdb_put(other, f.t, 1, (sdb_value[]){integer(1), integer(1), integer(1)}), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(other, t1), SDB_OK);
    assert_int_equal(sdb_txn_commit(other), SDB_OK);
    assert_int_equal(sdb_txn_lock(f.txn, f.t), SDB_STALE);
    assert_int_equal(sdb_txn_lock(f.txn, t1), SDB_STALE);
    fixture_close(&f);
}

/* A lock that took the snapshot anew and got no memory left a transaction that saw no table. */
static void lock_without_memory_loses_the_tables(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *other;
    sdb_table *made;
    char name[16];
    int n = 0;
    fixture_open(&f);
    commit(&f);
    f.t = sdb_txn_table(f.txn, "t");
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK);
    assert_int_equal(sdb_put(other, f.t, 1, (sdb_value[]){integer(1), integer(1), integer(1)}), SDB_OK);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "t%d", i + 1);
        assert_int_equal(sdb_txn_create_table(other, &(sdb_table_def){.name = name, .n_columns = 1}, &made),
                         SDB_OK);
    }
    assert_int_equal(sdb_txn_commit(other), SDB_OK);
    for (int rc = SDB_NOMEM; rc != SDB_OK; n++) {
        sdb_mem_inject(n + 1, false);
        rc = sdb_txn_lock(f.txn, f.t);
        sdb_mem_inject(0, false);
        assert_true(rc == SDB_OK || rc == SDB_NOMEM);
        assert_ptr_equal(sdb_txn_table(f.txn, "t"), f.t);
    }
    assert_true(n > 1);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 1);
    fixture_close(&f);
}

/* Reads of a write transaction did not see its writes; iterators saw those made after them, or lost
** their place. */
static void iteration_and_writes_disturb_each_other(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < 100; i++)
        put_ok(&f, i, integer(i), integer(i));
    assert_int_equal(sdb_txn_count(f.txn, f.t), 100);
    assert_int_equal(sdb_cursor_open_txn(f.cur, f.txn, f.t, BY_K), SDB_OK);
    int n = 0;
    for (int rc = sdb_cursor_seek(f.cur, &(sdb_range){0}); rc == SDB_OK;
         rc = sdb_cursor_next(f.cur), n++) {
        const sdb_row *row = sdb_cursor_row(f.cur);
        assert_int_equal(sdb_row_rowid(row), n);
        assert_int_equal(sdb_row_value(f.t, row, 1).u.i, n);
        put_ok(&f, n, integer(n + 1000), integer(n + 1000)); /* to where the cursor has not been */
        assert_int_equal(sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, n), 1).u.i, n + 1000);
        if (n % 2)
            del(&f, n);
        put_ok(&f, n + 200, integer(n), integer(n));
    }
    assert_int_equal(n, 100);
    sdb_cursor_close(f.cur);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 150);
    fixture_close(&f);
}

/* A transaction's object that was used again changed what it had committed. */
static void next_transaction_changes_the_last_ones_version(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_snapshot *old[3];
    for (int i = 0; i < 3; i++) {
        put_ok(&f, 1, integer(i), integer(i));
        put_ok(&f, 2, integer(0), NOTHING); /* shares a key of a non-unique index for a while */
        commit(&f);
        assert_int_equal(sdb_snapshot_new(f.db, &old[i]), SDB_OK);
        sdb_snapshot_take(old[i]);
        put_ok(&f, 1, integer(50), integer(50));
        del(&f, 2);
        rollback(&f);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sdb_cursor_open(f.cur, old[i], f.t, BY_ID), SDB_OK);
        assert_int_equal(sdb_cursor_seek(f.cur, &(sdb_range){0}), SDB_OK);
        assert_int_equal(sdb_row_value(f.t, sdb_cursor_row(f.cur), 1).u.i, i);
        assert_int_equal(sdb_snapshot_count(old[i], f.t), 2);
        sdb_cursor_close(f.cur);
        sdb_snapshot_free(old[i]);
    }
    fixture_close(&f);
}

/* Revisions of an aborted transaction were seen by trackers; the next one used them again, and its
** changes were taken for known. */
static void aborted_changes_hide_later_ones(void **state)
{
    (void)state;
    fixture f;
    sdb_changes *c;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    put_ok(&f, 2, integer(2), integer(2));
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "feed"), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_txn_acknowledge(f.txn, f.t, "feed", revision(&f)), SDB_OK);
    commit(&f);
    uint64_t before = revision(&f);
    del(&f, 1);
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "second"), SDB_OK);
    assert_int_equal(revision(&f), before);
    rollback(&f);
    assert_int_equal(revision(&f), before);
    del(&f, 2);
    commit(&f);
    assert_int_equal(revision(&f), before + 1);
    assert_int_equal(sdb_changes_new(f.db, &c), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_changes_open(c, f.snap, f.t, "second"), SDB_MISUSE);
    assert_int_equal(sdb_changes_open(c, f.snap, f.t, "feed"), SDB_OK);
    assert_int_equal(sdb_changes_next(c), SDB_OK);
    assert_int_equal(sdb_row_rowid(sdb_changes_row(c)), 2);
    assert_true(sdb_row_is_deleted(sdb_changes_row(c)));
    assert_int_equal(sdb_changes_next(c), SDB_DONE);
    sdb_changes_free(c);
    sdb_snapshot_drop(f.snap);
    fixture_close(&f);
}

/* What had been deleted for a tracker that has gone met the next deletion of the same key. */
static void row_is_deleted_twice(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "feed"), SDB_OK);
        put_ok(&f, 1, integer(1), integer(1));
        commit(&f);
        del(&f, 1);
        commit(&f);
        assert_int_equal(sdb_txn_drop_feed(f.txn, f.t, "feed"), SDB_OK);
        if (i == 1)
            commit(&f);
        put_ok(&f, 1, integer(1), integer(1));
    }
    fixture_close(&f);
}

/* One huge transaction left its lists behind for ever. */
static void huge_transaction_keeps_its_memory(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    fixture f;
    sdb_memory used;
    fixture_open(&f);
    for (int i = 0; i < MANY; i++)
        put_ok(&f, i, integer(i), NOTHING);
    commit(&f);
    for (int i = 0; i < MANY; i++)
        put_ok(&f, i, integer(-i), NOTHING);
    commit(&f);
    for (int i = 10; i < MANY; i++)
        del(&f, i);
    commit(&f);
    put_ok(&f, 0, integer(0), NOTHING);
    commit(&f);
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.retired, 0);
    assert_true(used.live < 10000);
    assert_true(used.mapped <= 2 << 20);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- watches */

/* A watch for a longer key that was absent got a shorter key's channel. */
static void watch_of_an_absent_longer_key_is_silent(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("a"), NOTHING);
    commit(&f);
    sdb_value ab = text("ab");
    sdb_range only_ab = {.eq = &ab, .n_eq = 1};
    arm(&f, BY_K, &only_ab);
    put_ok(&f, 1, text("a"), NOTHING);
    put_ok(&f, 2, text("abc"), NOTHING);
    put_ok(&f, 3, text(""), NOTHING);
    commit(&f);
    assert_false(sdb_watch_fired(f.w));
    put_ok(&f, 4, text("ab"), NOTHING);
    commit(&f);
    assert_true(sdb_watch_fired(f.w));
    fixture_close(&f);
}

/* Deleting made one node of two, and what was put below that in the same transaction fired nothing. */
static void watch_below_a_compressed_node_is_silent(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("aaaab"), NOTHING);
    put_ok(&f, 2, text("aaaac"), NOTHING);
    put_ok(&f, 3, text("ab"), NOTHING);
    put_ok(&f, 4, text("b"), NOTHING);
    commit(&f);
    sdb_value from = text("aaaad"), to = text("aaaae");
    arm(&f, BY_K, &(sdb_range){.lower = &from, .upper = &to, .upper_open = true});
    del(&f, 3);
    put_ok(&f, 5, text("aaaad"), NOTHING);
    commit(&f);
    assert_true(sdb_watch_fired(f.w));
    assert_rows(&f, BY_K, &(sdb_range){0}, ROWS(1, 2, 5, 4));
    fixture_close(&f);
}

/* The watch of everything hung on a root that was replaced by a leaf, by nothing, by a node. */
static void watch_of_all_goes_with_the_root(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, text("a"), NOTHING);
    put_ok(&f, 2, text("ab"), NOTHING);
    for (int id = 2; id >= 1; id--) {
        commit(&f);
        arm(&f, BY_K, &(sdb_range){0});
        del(&f, id);
        commit(&f);
        assert_true(sdb_watch_fired(f.w));
    }
    for (int id = 1; id <= 3; id++) {
        arm(&f, BY_K, &(sdb_range){0});
        put_ok(&f, id, integer(id), NOTHING);
        commit(&f);
        assert_true(sdb_watch_fired(f.w));
    }
    fixture_close(&f);
}

/* A node that became smaller took the larger one's channel along: watches of its keys stayed silent,
** or all fired. */
static void watches_of_a_shrinking_node_fire_for_others(void **state)
{
    (void)state;
    enum { N = 256 };
    fixture f;
    sdb_watch *w[N];
    char key[N][3];
    fixture_open(&f);
    for (int i = 0; i < N; i++) {
        memcpy(key[i], (char[3]){'k', (char)i, 'x'}, 3);
        put_ok(&f, i, bytes(key[i], 3), NOTHING);
    }
    commit(&f);
    sdb_snapshot_take(f.snap);
    for (int i = 0; i < N; i++) {
        sdb_value k = bytes(key[i], 3);
        assert_int_equal(sdb_watch_new(f.db, &w[i]), SDB_OK);
        assert_int_equal(
            sdb_watch_arm(w[i], f.snap, f.t, BY_K, &(sdb_range){.eq = &k, .n_eq = 1}), SDB_OK);
    }
    for (int n = 0, i = 0; n < N; n++, i = (i + 101) % N) {
        assert_false(sdb_watch_fired(w[i]));
        del(&f, i);
        commit(&f);
        assert_true(sdb_watch_fired(w[i]));
    }
    assert_int_equal(sdb_snapshot_count(f.snap, f.t), N); /* through all of it the snapshot stood */
    sdb_snapshot_drop(f.snap);
    for (int i = 0; i < N; i++)
        sdb_watch_free(w[i]);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- objects */

/* Next after Close crashed, and closing twice. */
static void closed_cursor_crashes(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    assert_null(sdb_cursor_row(f.cur));
    sdb_cursor_close(f.cur);
    assert_int_equal(sdb_cursor_open_txn(f.cur, f.txn, f.t, BY_K), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(f.cur, f.txn, f.t, BY_K), SDB_MISUSE); /* it is open */
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    assert_int_equal(sdb_cursor_seek(f.cur, &(sdb_range){0}), SDB_OK);
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    sdb_cursor_close(f.cur);
    sdb_cursor_close(f.cur);
    uint64_t n;
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    assert_null(sdb_cursor_row(f.cur));
    assert_int_equal(sdb_cursor_seek(f.cur, &(sdb_range){0}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_count(f.cur, &(sdb_range){0}, &n), SDB_MISUSE);
    assert_int_equal(sdb_cursor_open(f.cur, f.snap, f.t, BY_K), SDB_MISUSE); /* holds nothing */
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, BY_K, &(sdb_range){0}), SDB_MISUSE);
    sdb_watch_disarm(f.w);
    sdb_snapshot_drop(f.snap);
    sdb_cursor_free(NULL);
    sdb_snapshot_free(NULL);
    sdb_watch_free(NULL);
    sdb_txn_abort(NULL);
    sdb_unref(NULL);
    fixture_close(&f);
}

/* A cursor of a transaction went on where its table, or its index, had gone. */
static void cursor_outlives_what_it_reads(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    put_ok(&f, 1, integer(1), integer(1));
    sdb_index_def def = {.name = "more", .n_parts = 1, .parts = PART};
    assert_int_equal(sdb_txn_create_index(f.txn, f.t, &def), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(f.cur, f.txn, f.t, 3), SDB_OK); /* the newest index */
    assert_int_equal(sdb_txn_drop_index(f.txn, f.t, 3), SDB_OK);
    def.name = "yet_more";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sdb_cursor_seek(f.cur, &(sdb_range){0}), SDB_OK);
        assert_int_equal(sdb_row_rowid(sdb_cursor_row(f.cur)), 1);
        if (i == 0)
            assert_int_equal(sdb_txn_create_index(f.txn, f.t, &def), SDB_OK);
    }
    commit(&f); /* the table was made in that transaction, and goes in the next */
    assert_int_equal(sdb_txn_drop_table(f.txn, f.t), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_cursor_seek(f.cur, &(sdb_range){0}), SDB_OK);
    assert_int_equal(sdb_cursor_next(f.cur), SDB_DONE);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_key_is_not_found_or_left_behind),
        cmocka_unit_test(null_key_lists_nothing),
        cmocka_unit_test(list_of_foo_has_foobar_in_it),
        cmocka_unit_test(lower_bound_loses_larger_siblings),
        cmocka_unit_test(key_bytes_run_into_the_rowid),
        cmocka_unit_test(key_of_more_than_65535_bytes_is_cut),
        cmocka_unit_test(negative_integers_sort_after_positive),
        cmocka_unit_test(unique_key_of_two_rows_overwrites),
        cmocka_unit_test(row_put_from_its_own_memory_is_torn),
        cmocka_unit_test(delete_of_a_missing_row_counts),
        cmocka_unit_test(failed_compare_is_seen),
        cmocka_unit_test(modify_leaves_the_old_secondary_key),
        cmocka_unit_test(table_made_during_a_transaction_is_lost),
        cmocka_unit_test(table_of_another_store_is_written),
        cmocka_unit_test(same_table_twice_locks_up),
        cmocka_unit_test(lock_of_a_dropped_table_reads_freed_memory),
        cmocka_unit_test(lock_frees_the_tables_of_others),
        cmocka_unit_test(lock_without_memory_loses_the_tables),
        cmocka_unit_test(iteration_and_writes_disturb_each_other),
        cmocka_unit_test(next_transaction_changes_the_last_ones_version),
        cmocka_unit_test(aborted_changes_hide_later_ones),
        cmocka_unit_test(row_is_deleted_twice),
        cmocka_unit_test(huge_transaction_keeps_its_memory),
        cmocka_unit_test(watch_of_an_absent_longer_key_is_silent),
        cmocka_unit_test(watch_below_a_compressed_node_is_silent),
        cmocka_unit_test(watch_of_all_goes_with_the_root),
        cmocka_unit_test(watches_of_a_shrinking_node_fire_for_others),
        cmocka_unit_test(closed_cursor_crashes),
        cmocka_unit_test(cursor_outlives_what_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
