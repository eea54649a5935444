/* t_misuse.c - calls that do not fit the state of their objects, or give what belongs elsewhere: each is
** told so, or gives nothing, and the store is as it was. Made to be run with the sanitizers. */
#include "../core/map.h"
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 50 };

#define MISUSE(call) assert_int_equal(call, SDB_MISUSE)
#define OK(call) assert_int_equal(call, SDB_OK)

/* A store with a table of an integer and a network, indexed both, and another one like it. */
typedef struct store {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_cursor *cur;
} store;

typedef struct fixture {
    store mine, other;
} fixture;

static sdb_value integer(int64_t i)
{
    return (sdb_value){.type = SDB_INTEGER, .u.i = i};
}

static sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static int put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[3] = {{.type = SDB_NULL}, integer(k), text("10.0.0.0/8")};
    return sdb_put(txn, t, id, v);
}

static sdb_txn *begin(const store *s)
{
    sdb_txn *txn;
    OK(sdb_txn_begin(s->db, &txn));
    return txn;
}

static const sdb_part BY_K = {.column = 1}, BY_NET = {.column = 2};
static const sdb_index_def INDEXES[] = {
    {.name = "by_k", .unique = true, .n_parts = 1, .parts = &BY_K},
    {.name = "by_net", .n_parts = 1, .parts = &BY_NET, .kind = SDB_LPM},
};
static const sdb_table_def TABLE = {
    .name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 2, .indexes = INDEXES};

static void store_open(store *s)
{
    OK(sdb_open(&s->db));
    sdb_txn *txn = begin(s);
    OK(sdb_txn_create_table(txn, &TABLE, &s->t));
    for (int i = 0; i < ROWS; i++)
        OK(put(txn, s->t, i, i));
    OK(sdb_txn_commit(txn));
    OK(sdb_snapshot_new(s->db, &s->snap));
    OK(sdb_cursor_new(s->db, &s->cur));
}

static void store_close(store *s)
{
    char *wrong = sdb_check(s->db);
    if (wrong)
        fail_msg("%s", wrong);
    sdb_snapshot_take(s->snap);
    assert_int_equal(sdb_snapshot_count(s->snap, s->t), ROWS);
    sdb_snapshot_free(s->snap);
    sdb_cursor_free(s->cur);
    sdb_unref(s->db);
}

static void fixture_open(fixture *f)
{
    store_open(&f->mine);
    store_open(&f->other);
}

static void fixture_close(fixture *f)
{
    store_close(&f->mine);
    store_close(&f->other);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- snapshots */

static void assert_empty(const store *s, sdb_snapshot *snap, sdb_table *t)
{
    const sdb_row *row[2] = {(const sdb_row *)s, (const sdb_row *)s};
    int64_t id[2] = {1, 2};
    sdb_value k[2] = {integer(1), integer(2)};
    sdb_feed_info feed;
    sdb_table_info info;
    sdb_changes *changes;
    sdb_diff *diff;
    sdb_watch *watch;
    assert_null(sdb_snapshot_table(snap, "no such table"));
    assert_null(sdb_snapshot_index(snap, t, 1));
    assert_int_equal(sdb_snapshot_count(snap, t), 0);
    assert_int_equal(sdb_snapshot_revision(snap, t), 0);
    assert_int_equal(sdb_snapshot_indexes(snap, t), 0);
    assert_int_equal(sdb_snapshot_indexes_id(snap, t), 0);
    assert_int_equal(sdb_snapshot_feeds(snap, t), 0);
    sdb_snapshot_feed(snap, t, 0, &feed);
    assert_null(feed.name);
    sdb_snapshot_get_many(snap, t, id, 2, row);
    assert_null(row[0]);
    assert_null(row[1]);
    MISUSE(sdb_snapshot_find_many(snap, t, 1, k, 2, row));
    MISUSE(sdb_snapshot_table_info(snap, t, &info));
    MISUSE(sdb_cursor_open(s->cur, snap, t, 0));
    OK(sdb_changes_new(s->db, &changes));
    MISUSE(sdb_changes_open(changes, snap, t, "feed"));
    MISUSE(sdb_changes_next(changes));
    assert_null(sdb_changes_row(changes));
    sdb_changes_free(changes);
    OK(sdb_diff_new(s->db, &diff));
    MISUSE(sdb_diff_open(diff, snap, s->snap, t));
    MISUSE(sdb_diff_open(diff, s->snap, snap, t));
    MISUSE(sdb_diff_next(diff));
    assert_null(sdb_diff_before(diff));
    sdb_diff_free(diff);
    OK(sdb_watch_new(s->db, &watch));
    MISUSE(sdb_watch_arm(watch, snap, t, 0, &(sdb_range){0}));
    sdb_watch_free(watch);
}

/* One that holds nothing, has held something, or is of another store. */
static void test_snapshots(void **state)
{
    (void)state;
    fixture f;
    sdb_snapshot *snap;
    fixture_open(&f);
    OK(sdb_snapshot_new(f.mine.db, &snap));
    assert_empty(&f.mine, snap, f.mine.t);
    assert_null(sdb_snapshot_next_table(snap, NULL));
    MISUSE(sdb_snapshot_save(f.mine.db, "n", snap));
    sdb_snapshot_drop(snap);
    sdb_snapshot_take(snap);
    sdb_snapshot_take(snap); /* twice: the newest */
    sdb_snapshot_drop(snap);
    sdb_snapshot_drop(snap);
    assert_empty(&f.mine, snap, f.mine.t);
    assert_int_equal(sdb_snapshot_load(snap, "n"), SDB_DONE);

    sdb_snapshot_take(f.mine.snap);
    sdb_snapshot_take(f.other.snap);
    assert_empty(&f.mine, f.other.snap, f.mine.t);
    assert_empty(&f.mine, f.mine.snap, f.other.t);
    MISUSE(sdb_snapshot_save(f.mine.db, "n", f.other.snap));
    sdb_snapshot_free(snap);
    fixture_close(&f);
}

/* Numbers of columns, indexes, feeds that are none. */
static void test_numbers(void **state)
{
    (void)state;
    static const int WRONG[] = {-1, 3, 4, 64, 66, INT32_MIN, INT32_MAX};
    fixture f;
    sdb_feed_info feed;
    sdb_watch *watch;
    const sdb_row *row;
    sdb_value k = integer(1);
    int savepoint;
    fixture_open(&f);
    sdb_txn *txn = begin(&f.mine);
    OK(sdb_txn_create_feed(txn, f.mine.t, "feed"));
    OK(sdb_txn_commit(txn));
    txn = begin(&f.mine);
    sdb_value v[3] = {{.type = SDB_NULL}, integer(99), text("10.0.0.0/8")};
    OK(sdb_stage(txn, f.mine.t, 99, v));
    OK(sdb_watch_new(f.mine.db, &watch));
    sdb_snapshot_take(f.mine.snap);
    sdb_snapshot_get_many(f.mine.snap, f.mine.t, &(int64_t){1}, 1, &row);
    assert_non_null(row);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        int n = WRONG[i];
        assert_int_equal(sdb_row_value(f.mine.t, row, n).type, SDB_NULL);
        assert_null(sdb_table_index(f.mine.t, n));
        assert_null(sdb_snapshot_index(f.mine.snap, f.mine.t, n));
        assert_null(sdb_txn_index(txn, f.mine.t, n));
        assert_null(sdb_stage_clash(txn, n, NULL));
        MISUSE(sdb_txn_drop_index(txn, f.mine.t, n));
        MISUSE(sdb_cursor_open(f.mine.cur, f.mine.snap, f.mine.t, n));
        MISUSE(sdb_cursor_open_txn(f.mine.cur, txn, f.mine.t, n));
        MISUSE(sdb_watch_arm(watch, f.mine.snap, f.mine.t, n, &(sdb_range){0}));
        MISUSE(sdb_snapshot_find_many(f.mine.snap, f.mine.t, n, &k, 1, &row));
        sdb_snapshot_feed(f.mine.snap, f.mine.t, n, &feed);
        assert_null(feed.name);
        MISUSE(sdb_txn_rollback_to(txn, n));
        MISUSE(sdb_txn_release(txn, n));
    }
    assert_null(sdb_txn_index(txn, f.mine.t, SDB_BY_REVISION)); /* that is for cursors alone */
    assert_null(sdb_stage_clash(txn, SDB_BY_REVISION, NULL));
    MISUSE(sdb_txn_drop_index(txn, f.mine.t, SDB_BY_REVISION));
    MISUSE(sdb_watch_arm(watch, f.mine.snap, f.mine.t, SDB_BY_REVISION, &(sdb_range){0}));
    MISUSE(sdb_snapshot_find_many(f.mine.snap, f.mine.t, SDB_BY_REVISION, &k, 1, &row));
    assert_null(sdb_table_index(f.mine.t, 0));
    assert_null(sdb_txn_index(txn, f.mine.t, 0));
    MISUSE(sdb_txn_drop_index(txn, f.mine.t, 0));
    MISUSE(sdb_snapshot_find_many(f.mine.snap, f.mine.t, 0, &k, 1, &row)); /* that is get_many */
    MISUSE(sdb_snapshot_find_many(f.mine.snap, f.mine.t, 2, &k, 1, &row)); /* prefixes */
    OK(sdb_txn_savepoint(txn, &savepoint));
    MISUSE(sdb_txn_rollback_to(txn, savepoint + 1));
    OK(sdb_txn_release(txn, savepoint));
    MISUSE(sdb_txn_release(txn, savepoint));
    MISUSE(sdb_txn_lock_all(txn, &f.mine.t, -1));
    OK(sdb_txn_lock_all(txn, NULL, 0));
    sdb_txn_abort(txn);
    sdb_watch_free(watch);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- transactions */

/* All there is to call, on a table that is not the transaction's to write, or with one that has ended. */
static void assert_refused(sdb_txn *txn, const store *s, sdb_table *t, const sdb_row *row)
{
    sdb_value v[3] = {{.type = SDB_NULL}, integer(1), text("10.0.0.0/8")};
    sdb_table_info info;
    int64_t id;
    MISUSE(sdb_txn_lock(txn, t));
    MISUSE(sdb_txn_lock_all(txn, &t, 1));
    MISUSE(sdb_stage(txn, t, 1, v));
    MISUSE(sdb_stage_put(txn, NULL));
    assert_null(sdb_stage_clash(txn, 0, NULL));
    sdb_stage_drop(txn);
    MISUSE(sdb_put(txn, t, 1, v));
    MISUSE(sdb_delete(txn, t, row));
    MISUSE(sdb_put_if(txn, t, 1, v, 1));
    MISUSE(sdb_delete_if(txn, t, 1, 1));
    MISUSE(sdb_delete_all(txn, t));
    MISUSE(sdb_txn_drop_table(txn, t));
    MISUSE(sdb_txn_rename_table(txn, t, "new"));
    MISUSE(sdb_txn_create_index(txn, t, &INDEXES[0]));
    MISUSE(sdb_txn_drop_index(txn, t, 1));
    MISUSE(sdb_txn_create_feed(txn, t, "f"));
    MISUSE(sdb_txn_drop_feed(txn, t, "f"));
    MISUSE(sdb_txn_acknowledge(txn, t, "f", 1));
    MISUSE(sdb_txn_last_rowid(txn, t, &id));
    MISUSE(sdb_txn_table_info(txn, t, &info));
    MISUSE(sdb_cursor_open_txn(s->cur, txn, t, 0));
    assert_null(sdb_txn_get(txn, t, 1));
    assert_null(sdb_txn_index(txn, t, 1));
    assert_int_equal(sdb_txn_indexes(txn, t), 0);
    assert_int_equal(sdb_txn_indexes_id(txn, t), 0);
    assert_int_equal(sdb_txn_find_index(txn, t, "by_k"), 0);
    assert_int_equal(sdb_txn_count(txn, t), 0);
    assert_int_equal(sdb_txn_revision(txn, t), 0);
}

static const sdb_row *first_row(const store *s)
{
    const sdb_row *row;
    sdb_snapshot_take(s->snap);
    sdb_snapshot_get_many(s->snap, s->t, &(int64_t){1}, 1, &row);
    assert_non_null(row);
    return row;
}

static void test_other_store(void **state)
{
    (void)state;
    fixture f;
    sdb_watch_set *set, *others;
    sdb_watch *watch;
    fixture_open(&f);
    const sdb_row *row = first_row(&f.other), *mine = first_row(&f.mine);
    sdb_txn *txn = begin(&f.mine);
    assert_refused(txn, &f.mine, f.other.t, row);
    OK(put(txn, f.mine.t, 1, 1));
    MISUSE(sdb_delete(txn, f.mine.t, row));
    MISUSE(sdb_delete(txn, f.mine.t, mine)); /* an older one of that rowid */
    sdb_value v[3] = {{.type = SDB_NULL}, integer(1), text("10.0.0.0/8")};
    OK(sdb_stage(txn, f.mine.t, 1, v));
    MISUSE(sdb_stage_put(txn, mine));
    OK(sdb_stage(txn, f.mine.t, 1, v));
    MISUSE(sdb_stage_put(txn, row));
    MISUSE(sdb_cursor_open_txn(f.other.cur, txn, f.mine.t, 0)); /* a cursor of the other one */
    MISUSE(sdb_cursor_open(f.other.cur, f.mine.snap, f.mine.t, 0));
    sdb_txn_abort(txn);

    OK(sdb_watch_new(f.mine.db, &watch));
    OK(sdb_watch_set_new(f.mine.db, &set));
    OK(sdb_watch_set_new(f.other.db, &others));
    MISUSE(sdb_watch_set_add(others, watch));
    assert_false(sdb_watch_set_has(others, watch));
    OK(sdb_watch_set_add(set, watch));
    sdb_watch_set_remove(others, watch);
    assert_true(sdb_watch_set_has(set, watch));
    MISUSE(sdb_watch_set_merge(others, set));
    OK(sdb_watch_set_merge(set, set));
    assert_true(sdb_watch_set_has(set, watch));
    MISUSE(sdb_watch_arm(watch, f.other.snap, f.other.t, 0, &(sdb_range){0}));
    sdb_watch_set_free(set);
    sdb_watch_set_free(others);
    sdb_watch_free(watch);
    fixture_close(&f);
}

/* The object of an ended transaction is not used again while no other begins. */
static void test_ended(void **state)
{
    (void)state;
    fixture f;
    int savepoint;
    fixture_open(&f);
    const sdb_row *row = first_row(&f.mine);
    for (int is_commit = 0; is_commit < 2; is_commit++) {
        sdb_txn *txn = begin(&f.mine);
        sdb_table *t;
        OK(put(txn, f.mine.t, 1, 1));
        OK(sdb_txn_savepoint(txn, &savepoint));
        if (is_commit)
            OK(sdb_txn_commit(txn));
        else
            sdb_txn_abort(txn);
        assert_refused(txn, &f.mine, f.mine.t, row);
        MISUSE(sdb_txn_create_table(txn, &TABLE, &t));
        MISUSE(sdb_txn_savepoint(txn, &savepoint));
        MISUSE(sdb_txn_rollback_to(txn, 0));
        MISUSE(sdb_txn_release(txn, 0));
        MISUSE(sdb_txn_prepare(txn));
        MISUSE(sdb_txn_commit(txn));
        sdb_txn_abort(txn);
        sdb_txn_interrupt(txn);
        sdb_txn_set_timeout(txn, 1);
        assert_null(sdb_txn_table(txn, "t"));
        assert_null(sdb_txn_next_table(txn, NULL));
        assert_null(sdb_txn_check(txn));
    }
    fixture_close(&f);
}

/* A table that is made while another transaction is open is not there for that one; neither is one that
** was dropped or never came to be. */
static void test_other_tables(void **state)
{
    (void)state;
    fixture f;
    sdb_table *made, *gone;
    int savepoint;
    fixture_open(&f);
    const sdb_row *row = first_row(&f.mine);
    sdb_table_def def = TABLE;
    def.name = "new";
    sdb_txn *before = begin(&f.mine), *txn = begin(&f.mine);
    assert_null(sdb_txn_get(before, f.mine.t, -1)); /* it has read: its moment stays */
    OK(sdb_txn_create_table(txn, &def, &made));
    OK(put(txn, made, 1, 1));
    assert_refused(before, &f.mine, made, row);
    OK(sdb_txn_commit(txn));
    assert_refused(before, &f.mine, made, row);
    sdb_txn_abort(before);

    txn = begin(&f.mine);
    OK(sdb_txn_drop_table(txn, made));
    assert_refused(txn, &f.mine, made, row);
    OK(sdb_txn_savepoint(txn, &savepoint));
    def.name = "newer";
    OK(sdb_txn_create_table(txn, &def, &gone));
    OK(put(txn, gone, 1, 1));
    OK(sdb_txn_rollback_to(txn, savepoint));
    assert_refused(txn, &f.mine, gone, row);
    sdb_table_ref(made);
    OK(sdb_txn_commit(txn));
    txn = begin(&f.mine);
    assert_refused(txn, &f.mine, made, row);
    sdb_txn_abort(txn);
    sdb_table_unref(made);
    fixture_close(&f);
}

static void test_stage(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    sdb_value v[3] = {{.type = SDB_NULL}, integer(1), text("10.0.0.0/8")};
    sdb_txn *txn = begin(&f.mine);
    MISUSE(sdb_stage_put(txn, NULL)); /* nothing staged */
    assert_null(sdb_stage_clash(txn, 0, NULL));
    OK(sdb_stage(txn, f.mine.t, 100, v));
    assert_non_null(sdb_stage_clash(txn, 1, NULL));
    const sdb_row *other = sdb_txn_get(txn, f.mine.t, 7);
    assert_non_null(sdb_stage_clash(txn, 1, other)); /* that one is not in the way */
    assert_int_equal(sdb_stage_put(txn, other), SDB_EXISTS);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_EXISTS); /* it is still staged */
    assert_non_null(sdb_stage_clash(txn, 1, NULL));
    OK(sdb_txn_drop_index(txn, f.mine.t, 1));
    MISUSE(sdb_stage_put(txn, NULL)); /* forgotten */
    v[1].type = (sdb_type)(SDB_BLOB + 1);
    MISUSE(sdb_stage(txn, f.mine.t, 100, v));
    v[1].type = (sdb_type)1000;
    MISUSE(sdb_put(txn, f.mine.t, 100, v));
    v[0].type = (sdb_type)1000; /* the rowid's is not looked at */
    v[1] = (sdb_value){.type = SDB_BLOB};
    v[2] = (sdb_value){.type = SDB_NULL};
    OK(sdb_put(txn, f.mine.t, 100, v));
    sdb_txn_abort(txn);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- callbacks */

typedef struct call {
    const store *s;
    sdb_txn *txn;
    int what, savepoint;
} call;

static int within_modify(void *ctx, const sdb_row *old, sdb_value *values)
{
    const call *c = ctx;
    sdb_table *t = c->s->t;
    assert_non_null(old);
    switch (c->what) {
    case 0: /* end it */
        MISUSE(sdb_txn_commit(c->txn));
        sdb_txn_abort(c->txn);
        return put(c->txn, t, 8, 8);
    case 1: /* take away what it works on */
        return sdb_txn_drop_table(c->txn, t);
    case 2:
        return sdb_delete_all(c->txn, t);
    case 3:
        OK(sdb_txn_rollback_to(c->txn, c->savepoint));
        return SDB_OK;
    case 4: /* again, itself */
        return put(c->txn, t, 7, 7);
    case 5:
        values[1].type = (sdb_type)77;
        return SDB_OK;
    default: /* another error */
        return 12345;
    }
}

static void test_within_modify(void **state)
{
    (void)state;
    static const int WANT[] = {SDB_OK,      SDB_CHANGED, SDB_CHANGED, SDB_CHANGED,
                               SDB_CHANGED, SDB_MISUSE,  12345};
    fixture f;
    fixture_open(&f);
    for (int what = 0; what < 7; what++) {
        call c = {.s = &f.mine, .txn = begin(&f.mine), .what = what};
        OK(sdb_txn_savepoint(c.txn, &c.savepoint));
        OK(put(c.txn, f.mine.t, 7, 7));
        assert_int_equal(sdb_modify(c.txn, f.mine.t, 7, within_modify, &c), WANT[what]);
        char *wrong = sdb_txn_check(c.txn);
        if (wrong)
            fail_msg("%s", wrong);
        sdb_txn_abort(c.txn);
    }
    fixture_close(&f);
}

static void within_list(const store *s)
{
    sdb_stats stats;
    sdb_stats_read(s->db, &stats);
    sdb_txn *txn = begin(s);
    int rc = put(txn, s->t, 1, 1);
    assert_true(rc == SDB_OK || rc == SDB_BUSY);
    OK(sdb_txn_commit(txn));
    assert_true(sdb_snapshot_save(s->db, "from within", NULL) >= SDB_OK); /* done, or there by now */
    assert_true(sdb_snapshot_forget(s->db, "first") >= SDB_OK);
}

static void within_snapshots(void *ctx, const sdb_snapshot_info *info)
{
    const store *s = ctx;
    within_list(s);
    assert_true(!info->name || strcmp(info->name, "first") == 0);
}

static void within_locks(void *ctx, const sdb_lock_info *info)
{
    const store *s = ctx;
    assert_string_equal(info->table, "t");
    within_list(s);
}

static void test_within_lists(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    OK(sdb_snapshot_save(f.mine.db, "first", NULL));
    sdb_snapshot_take(f.mine.snap);
    OK(sdb_snapshot_each(f.mine.db, within_snapshots, &f.mine));
    sdb_txn *txn = begin(&f.mine);
    OK(sdb_txn_lock(txn, f.mine.t));
    OK(sdb_lock_each(f.mine.db, within_locks, &f.mine));
    sdb_txn_abort(txn);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- reading */

static void test_cursors(void **state)
{
    (void)state;
    fixture f;
    uint64_t n;
    fixture_open(&f);
    sdb_cursor *cur = f.mine.cur;
    sdb_value k[2] = {integer(1), integer(2)}, bad = {.type = (sdb_type)9}, net = text("10.0.0.0/8");
    sdb_range all = {0}, two = {.eq = k, .n_eq = 2}, none = {.eq = &bad, .n_eq = 1},
              low = {.lower = &bad}, high = {.upper = &bad}, both = {.eq = k, .n_eq = 1, .lower = k};
    MISUSE(sdb_cursor_seek(cur, &all)); /* not open */
    MISUSE(sdb_cursor_count(cur, &all, &n));
    MISUSE(sdb_cursor_seek_prefix(cur, SDB_EXACT, &net, false));
    assert_int_equal(sdb_cursor_next(cur), SDB_DONE);
    assert_null(sdb_cursor_row(cur));
    sdb_cursor_close(cur);
    sdb_snapshot_take(f.mine.snap);
    for (int index = 0; index < 3; index++) {
        OK(sdb_cursor_open(cur, f.mine.snap, f.mine.t, index));
        MISUSE(sdb_cursor_open(cur, f.mine.snap, f.mine.t, index)); /* twice */
        assert_int_equal(sdb_cursor_next(cur), SDB_DONE); /* not at a row */
        assert_null(sdb_cursor_row(cur));
        MISUSE(sdb_cursor_seek(cur, &two)); /* more columns than it has */
        MISUSE(sdb_cursor_seek(cur, &both));
        if (index < 2) {
            MISUSE(sdb_cursor_seek(cur, &none)); /* a value that is none */
            MISUSE(sdb_cursor_seek(cur, &low));
            MISUSE(sdb_cursor_seek(cur, &high));
            MISUSE(sdb_cursor_count(cur, &low, &n));
            MISUSE(sdb_cursor_seek_prefix(cur, SDB_EXACT, &net, false));
        } else {
            assert_int_equal(sdb_cursor_seek(cur, &none), SDB_NOTPREFIX);
            MISUSE(sdb_cursor_seek(cur, &low));
            MISUSE(sdb_cursor_count(cur, &all, &n));
            MISUSE(sdb_cursor_seek_prefix(cur, (sdb_prefix_op)77, &net, false));
            assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_EXACT, &bad, false), SDB_NOTPREFIX);
        }
        OK(sdb_cursor_seek(cur, &all));
        while (sdb_cursor_next(cur) == SDB_OK)
            ;
        assert_int_equal(sdb_cursor_next(cur), SDB_DONE); /* once more */
        assert_null(sdb_cursor_row(cur));
        sdb_cursor_close(cur);
        sdb_cursor_close(cur);
    }
    const sdb_row *row;
    MISUSE(sdb_snapshot_find_many(f.mine.snap, f.mine.t, 1, &bad, 1, &row));
    fixture_close(&f);
}

static void test_watches(void **state)
{
    (void)state;
    fixture f;
    sdb_watch *watch, *out[2];
    sdb_watch_set *set;
    sdb_value bad = {.type = (sdb_type)9};
    int n;
    fixture_open(&f);
    OK(sdb_watch_new(f.mine.db, &watch));
    OK(sdb_watch_set_new(f.mine.db, &set));
    sdb_watch_disarm(watch);
    MISUSE(sdb_watch_wait(watch, -1)); /* it would be for ever */
    MISUSE(sdb_watch_set_wait(set, -1, 0, out, 0, &n));
    MISUSE(sdb_watch_set_wait(set, -1, 0, out, -1, &n));
    sdb_watch_set_remove(set, watch); /* it is not in it */
    sdb_watch_set_clear(set);
    sdb_snapshot_take(f.mine.snap);
    MISUSE(sdb_watch_arm(watch, f.mine.snap, f.mine.t, 1, &(sdb_range){.eq = &bad, .n_eq = 1}));
    MISUSE(sdb_watch_wait(watch, -1));
    OK(sdb_watch_arm(watch, f.mine.snap, f.mine.t, 1, &(sdb_range){0}));
    OK(sdb_watch_arm(watch, f.mine.snap, f.mine.t, 1, &(sdb_range){0}));
    OK(sdb_watch_set_add(set, watch));
    OK(sdb_watch_set_add(set, watch));
    sdb_watch_free(watch); /* armed, and in a set */
    assert_int_equal(sdb_watch_set_wait(set, 0, 0, out, 2, &n), SDB_DONE);
    sdb_watch_set_free(set);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- order */

/* The store is let go of first: it stays until the last of what was made from it has gone. */
static void test_store_first(void **state)
{
    (void)state;
    for (int last = 0; last < 5; last++) {
        store s;
        sdb_watch *watch;
        sdb_watch_set *set;
        store_open(&s);
        sdb_txn *txn = begin(&s);
        OK(sdb_watch_new(s.db, &watch));
        OK(sdb_watch_set_new(s.db, &set));
        OK(sdb_watch_set_add(set, watch));
        OK(sdb_snapshot_save(s.db, "n", NULL));
        sdb_snapshot_take(s.snap);
        OK(sdb_watch_arm(watch, s.snap, s.t, 0, &(sdb_range){0}));
        OK(put(txn, s.t, 1, 1));
        OK(sdb_cursor_open_txn(s.cur, txn, s.t, 1));
        OK(put(txn, s.t, 2, 2));
        sdb_unref(s.db);
        for (int i = 0; i < 5; i++) {
            switch ((last + 1 + i) % 5) {
            case 0:
                OK(sdb_txn_commit(txn));
                break;
            case 1:
                assert_int_equal(sdb_snapshot_count(s.snap, s.t), ROWS);
                sdb_snapshot_free(s.snap);
                break;
            case 2:
                OK(sdb_cursor_seek(s.cur, &(sdb_range){0}));
                sdb_cursor_free(s.cur);
                break;
            case 3:
                sdb_watch_free(watch);
                break;
            default:
                sdb_watch_set_free(set);
            }
        }
        assert_int_equal(sdb_mem_blocks(), 0);
    }
}

static void test_maps(void **state)
{
    (void)state;
    sdb_map_space *space;
    sdb_map *map;
    sdb_map_txn *txn;
    sdb_map_iter *it;
    size_t len = 1;
    OK(sdb_map_space_new(&space));
    OK(sdb_map_new(space, &map));
    OK(sdb_map_iter_new(map, &it));
    assert_null(sdb_map_iter_key(it, &len)); /* at no key */
    assert_int_equal(len, 0);
    assert_int_equal(sdb_map_iter_value(it), 0);
    assert_int_equal(sdb_map_iter_next(it), SDB_DONE);
    sdb_map_iter_free(it);
    OK(sdb_map_begin(map, &txn));
    OK(sdb_map_txn_put(txn, "a", 1, 1));
    sdb_map *made = sdb_map_txn_commit(txn);
    MISUSE(sdb_map_txn_put(txn, "a", 1, 2)); /* it is a map now */
    MISUSE(sdb_map_txn_delete(txn, "a", 1));
    assert_null(sdb_map_txn_commit(txn));
    sdb_map_txn_abort(txn);
    uint64_t value;
    assert_true(sdb_map_get(made, "a", 1, &value));
    assert_int_equal(value, 1);
    sdb_map_unref(map);
    sdb_map_space_free(space); /* before its maps */
    assert_true(sdb_map_get(made, "a", 1, &value));
    sdb_map_unref(made);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshots),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_other_store),  cmocka_unit_test(test_ended),
        cmocka_unit_test(test_other_tables), cmocka_unit_test(test_stage),
        cmocka_unit_test(test_within_modify), cmocka_unit_test(test_within_lists),
        cmocka_unit_test(test_cursors),      cmocka_unit_test(test_watches),
        cmocka_unit_test(test_store_first),  cmocka_unit_test(test_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
