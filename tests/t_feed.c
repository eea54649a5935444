/* t_feed.c - feeds: what followers see adds up to the table, in order, nothing twice, nothing lost. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40, FOLLOWERS = 3, NONE = -1 };

/* Each follower keeps a copy of the table, built from its feed alone. */
typedef struct follower {
    const char *name;
    bool is_there;
    int64_t row[ROWS];
} follower;

typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_changes *changes;
    follower f[FOLLOWERS];
} fixture;

static void put(sdb_txn *txn, sdb_table *t, int64_t id, int64_t k)
{
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = k}};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static void delete (sdb_txn *txn, sdb_table *t, int64_t id)
{
    const sdb_row *row = sdb_txn_get(txn, t, id);
    if (row)
        assert_int_equal(sdb_delete(txn, t, row), SDB_OK);
}

static sdb_txn *begin(fixture *f)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    return txn;
}

static void fixture_open(fixture *f)
{
    static const sdb_part part = {1, SDB_BINARY, false};
    static const sdb_index_def index = {
        .name = "by_k", .unique = false, .n_parts = 1, .parts = &part};
    sdb_table_def def = {
        .name = "t", .n_columns = 2, .rowid_column = 0, .n_indexes = 1, .indexes = &index};
    memset(f, 0, sizeof *f);
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    sdb_txn *txn = begin(f);
    assert_int_equal(sdb_txn_create_table(txn, &def, &f->t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    assert_int_equal(sdb_changes_new(f->db, &f->changes), SDB_OK);
    f->f[0].name = "first", f->f[1].name = "second", f->f[2].name = "third";
}

static void fixture_close(fixture *f)
{
    sdb_memory used;
    sdb_txn *txn = begin(f);
    for (int i = 0; i < FOLLOWERS; i++)
        if (f->f[i].is_there)
            assert_int_equal(sdb_txn_drop_feed(txn, f->t, f->f[i].name), SDB_OK);
    for (int i = 0; i < ROWS; i++)
        delete (txn, f->t, i);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(f->db, &used);
    assert_int_equal(used.live, 0);
    sdb_changes_free(f->changes);
    sdb_snapshot_free(f->snap);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* Read a feed from a snapshot, apply it, acknowledge it. With `most`, only so many changes. */
static void follow(fixture *f, follower *who, int most)
{
    uint64_t last = 0;
    sdb_snapshot_take(f->snap);
    assert_int_equal(sdb_changes_open(f->changes, f->snap, f->t, who->name), SDB_OK);
    int n = 0, rc = SDB_OK;
    while (n < most && (rc = sdb_changes_next(f->changes)) == SDB_OK) {
        const sdb_row *row = sdb_changes_row(f->changes);
        assert_true(sdb_row_revision(row) > last); /* in order, nothing twice */
        last = sdb_row_revision(row);
        int64_t id = sdb_row_rowid(row), k = sdb_row_value(f->t, row, 1).u.i;
        if (sdb_row_is_deleted(row) && who->row[id] != NONE)
            assert_true(k >= 0); /* its content is still there */
        who->row[id] = sdb_row_is_deleted(row) ? NONE : k;
        n++;
    }
    if (rc == SDB_DONE) { /* all of it: now the copy is the table */
        sdb_cursor *cur;
        int64_t table[ROWS];
        for (int i = 0; i < ROWS; i++)
            table[i] = NONE;
        assert_int_equal(sdb_cursor_new(f->db, &cur), SDB_OK);
        assert_int_equal(sdb_cursor_open(cur, f->snap, f->t, 0), SDB_OK);
        for (rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur))
            table[sdb_row_rowid(sdb_cursor_row(cur))] =
                sdb_row_value(f->t, sdb_cursor_row(cur), 1).u.i;
        sdb_cursor_free(cur);
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(who->row[i], table[i]);
        last = sdb_snapshot_revision(f->snap, f->t);
    }
    sdb_snapshot_drop(f->snap);
    sdb_txn *txn = begin(f);
    assert_int_equal(sdb_txn_acknowledge(txn, f->t, who->name, last), SDB_OK);
    if (rnd(8) == 0) { /* taken back: it will see the same again */
        sdb_txn_abort(txn);
        txn = begin(f);
        assert_int_equal(sdb_txn_acknowledge(txn, f->t, who->name, last), SDB_OK);
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void toggle(fixture *f, follower *who)
{
    sdb_txn *txn = begin(f);
    if (who->is_there) {
        assert_int_equal(sdb_txn_drop_feed(txn, f->t, who->name), SDB_OK);
        assert_int_equal(sdb_txn_drop_feed(txn, f->t, who->name), SDB_DONE);
    } else {
        assert_int_equal(sdb_txn_create_feed(txn, f->t, who->name), SDB_OK);
        assert_int_equal(sdb_txn_create_feed(txn, f->t, who->name), SDB_EXISTS);
    }
    if (rnd(4) == 0) {
        sdb_txn_abort(txn);
        return;
    }
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    who->is_there = !who->is_there;
    for (int i = 0; i < ROWS; i++)
        who->row[i] = NONE;
}

static void change(fixture *f)
{
    sdb_txn *txn = begin(f);
    int sp;
    for (int n = (int)rnd(8); n >= 0; n--) {
        bool taken_back = rnd(5) == 0;
        if (taken_back)
            assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
        int64_t id = (int64_t)rnd(ROWS), to = (int64_t)rnd(ROWS);
        const sdb_row *row = sdb_txn_get(txn, f->t, id);
        switch (rnd(4)) {
        case 0:
            delete (txn, f->t, id);
            break;
        case 1: /* another rowid: a deletion and a new row, to a feed */
            if (row && !sdb_txn_get(txn, f->t, to)) {
                sdb_value v[2] = {{.type = SDB_NULL},
                                  {.type = SDB_INTEGER, .u.i = (int64_t)rnd(9)}};
                assert_int_equal(sdb_stage(txn, f->t, to, v), SDB_OK);
                assert_int_equal(sdb_stage_put(txn, row), SDB_OK);
            }
            break;
        default:
            put(txn, f->t, id, (int64_t)rnd(9));
        }
        if (taken_back)
            sdb_txn_rollback_to(txn, sp);
    }
    char *wrong = sdb_txn_check(txn);
    if (wrong)
        fail_msg("%s", wrong);
    if (rnd(5) == 0)
        sdb_txn_abort(txn);
    else
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void test_followers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static fixture f;
        rng = seed * 0x9e3779b97f4a7c15u;
        fixture_open(&f);
        for (int step = 0; step < 400; step++) {
            follower *who = &f.f[rnd(FOLLOWERS)];
            if (rnd(30) == 0)
                toggle(&f, who);
            else if (rnd(3) == 0 && who->is_there)
                follow(&f, who, rnd(3) ? ROWS * 4 : (int)rnd(6));
            else
                change(&f);
        }
        fixture_close(&f);
    }
}

/* Graves are kept for the slowest, and no longer. */
static void test_slowest(void **state)
{
    (void)state;
    static fixture f;
    sdb_feed_info info;
    rng = 1;
    fixture_open(&f);
    sdb_txn *txn = begin(&f);
    for (int i = 0; i < ROWS; i++)
        put(txn, f.t, i, i);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "second"), SDB_OK);
    f.f[0].is_there = f.f[1].is_there = true;
    for (int i = 0; i < 10; i++)
        delete (txn, f.t, i);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_snapshot_feeds(f.snap, f.t), 2);
    sdb_snapshot_feed(f.snap, f.t, 1, &info);
    assert_string_equal(info.name, "second");
    assert_int_equal(info.rows, ROWS - 10);
    assert_int_equal(info.deletions, 10);
    assert_int_equal(info.revision, ROWS + 10);
    sdb_snapshot_drop(f.snap);
    txn = begin(&f); /* one that comes later is not told of what was gone before */
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "third"), SDB_OK);
    f.f[2].is_there = true;
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "first", 1000000), SDB_OK); /* all there is */
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "none", 1), SDB_DONE);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(f.snap);
    sdb_snapshot_feed(f.snap, f.t, 0, &info);
    assert_int_equal(info.rows + info.deletions, 0);
    sdb_snapshot_feed(f.snap, f.t, 1, &info);
    assert_int_equal(info.deletions, 10); /* the second still wants them */
    sdb_snapshot_feed(f.snap, f.t, 2, &info);
    assert_int_equal(info.rows, ROWS - 10);
    assert_int_equal(info.deletions, 0);
    assert_int_equal(sdb_changes_open(f.changes, f.snap, f.t, "nobody"), SDB_MISUSE);
    sdb_snapshot_drop(f.snap);
    fixture_close(&f);
}

/* What is not committed is not seen; a revision that was rolled back and used again is not missed. */
static void test_uncommitted(void **state)
{
    (void)state;
    static fixture f;
    rng = 1;
    fixture_open(&f);
    f.f[0].is_there = true;
    for (int i = 0; i < ROWS; i++)
        f.f[0].row[i] = NONE;
    sdb_txn *txn = begin(&f);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK);
    put(txn, f.t, 1, 1);
    put(txn, f.t, 2, 2);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    follow(&f, &f.f[0], ROWS);
    txn = begin(&f);
    delete (txn, f.t, 1);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_changes_open(f.changes, f.snap, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_changes_next(f.changes), SDB_DONE);
    sdb_snapshot_drop(f.snap);
    sdb_txn_abort(txn);
    txn = begin(&f); /* the same revision, another row */
    delete (txn, f.t, 2);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    follow(&f, &f.f[0], ROWS);
    assert_int_equal(f.f[0].row[1], 1);
    assert_int_equal(f.f[0].row[2], NONE);
    fixture_close(&f);
}

/* The revisions that a feed shows in a transaction, as digits; and the first of them is the next one. */
static void assert_shown(fixture *f, sdb_txn *txn, const char *feed, const char *expected)
{
    char shown[100];
    uint64_t revision = 0;
    size_t n = 0;
    int rc;
    assert_int_equal(sdb_changes_open_txn(f->changes, txn, f->snap, f->t, feed), SDB_OK);
    while ((rc = sdb_changes_next(f->changes)) == SDB_OK)
        shown[n++] = (char)('0' + sdb_row_revision(sdb_changes_row(f->changes)));
    shown[n] = 0;
    assert_int_equal(rc, SDB_DONE);
    assert_string_equal(shown, expected);
    assert_int_equal(sdb_txn_next_change(txn, f->t, feed, &revision), *expected ? SDB_OK : SDB_DONE);
    assert_int_equal(revision, *expected ? *expected - '0' : 0);
}

/* In a transaction: what was committed before, less what it has acknowledged; nothing of its own. */
static void test_in_transactions(void **state)
{
    (void)state;
    static fixture f;
    sdb_feed_info info;
    uint64_t revision;
    int sp;
    fixture_open(&f);
    sdb_txn *txn = begin(&f);
    for (int i = 1; i <= 4; i++)
        put(txn, f.t, i, i);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "FIRST"), SDB_EXISTS);
    delete (txn, f.t, 2);
    assert_shown(&f, txn, "first", "");
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    txn = begin(&f);
    assert_shown(&f, txn, "First", "1345");
    put(txn, f.t, 1, 9);
    delete (txn, f.t, 3);
    assert_shown(&f, txn, "first", "1345");
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "first", 3), SDB_OK);
    assert_shown(&f, txn, "first", "45");
    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "first", 5), SDB_OK);
    assert_shown(&f, txn, "first", "");
    assert_int_equal(sdb_txn_rollback_to(txn, sp), SDB_OK);
    assert_shown(&f, txn, "first", "45");
    assert_int_equal(sdb_txn_drop_feed(txn, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_txn_find_feed(txn, f.t, "first"), -1);
    assert_int_equal(sdb_changes_open_txn(f.changes, txn, f.snap, f.t, "first"), SDB_MISUSE);
    assert_int_equal(sdb_txn_next_change(txn, f.t, "first", &revision), SDB_MISUSE);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK); /* another one */
    assert_shown(&f, txn, "first", "");
    assert_int_equal(sdb_txn_rollback_to(txn, sp), SDB_OK);
    assert_int_equal(sdb_txn_feeds(txn, f.t), 1);
    sdb_txn_feed(txn, f.t, 0, &info); /* with its own changes: row 4 and 1, graves 2 and 3 */
    assert_string_equal(info.name, "first");
    assert_int_equal(info.rows, 2);
    assert_int_equal(info.deletions, 2);
    assert_true(info.bytes >= 32);
    assert_int_equal(info.acknowledged, 3);
    assert_int_equal(info.revision, 7);

    /* What is being read outlives it. */
    assert_int_equal(sdb_changes_open_txn(f.changes, txn, f.snap, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    txn = begin(&f);
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "first", 7), SDB_OK);
    for (int i = 1; i <= 4; i++)
        delete (txn, f.t, i);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    for (int i = 4; i <= 5; i++) {
        assert_int_equal(sdb_changes_next(f.changes), SDB_OK);
        assert_int_equal(sdb_row_revision(sdb_changes_row(f.changes)), i);
        assert_int_equal(sdb_row_value(f.t, sdb_changes_row(f.changes), 1).u.i, i == 4 ? 4 : 2);
    }
    assert_int_equal(sdb_changes_next(f.changes), SDB_DONE);
    sdb_snapshot_drop(f.snap);
    f.f[0].is_there = true;
    fixture_close(&f);
}

/* Seeking goes behind a revision, but not before what has been acknowledged. */
static void test_seek(void **state)
{
    (void)state;
    static fixture f;
    fixture_open(&f);
    assert_int_equal(sdb_changes_seek(f.changes, 0), SDB_MISUSE);
    sdb_txn *txn = begin(&f);
    for (int i = 1; i <= 9; i++)
        put(txn, f.t, i, i);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK);
    for (int i = 1; i <= 9; i += 2)
        delete (txn, f.t, i); /* 10 .. 14 */
    assert_int_equal(sdb_txn_acknowledge(txn, f.t, "first", 4), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_changes_open(f.changes, f.snap, f.t, "first"), SDB_OK);
    for (uint64_t behind = 0; behind < 20; behind++) {
        assert_int_equal(sdb_changes_seek(f.changes, behind), SDB_OK);
        uint64_t expected = behind < 6 ? 6 : behind < 8 ? 8 : behind < 10 ? 10 : behind + 1;
        int rc = sdb_changes_next(f.changes);
        assert_int_equal(rc, expected <= 14 ? SDB_OK : SDB_DONE);
        if (rc == SDB_OK)
            assert_int_equal(sdb_row_revision(sdb_changes_row(f.changes)), expected);
    }
    sdb_snapshot_drop(f.snap);
    f.f[0].is_there = true;
    fixture_close(&f);
}

/* Rows by revision, as an index: in snapshots, and in a transaction with its own changes. */
static void assert_revisions(sdb_cursor *cur, int64_t above, bool reverse, const char *ids)
{
    sdb_value lower = {.type = SDB_INTEGER, .u.i = above};
    sdb_range range = {.lower = &lower, .lower_open = true, .reverse = reverse};
    char found[100];
    uint64_t n = 0, count;
    for (int rc = sdb_cursor_seek(cur, &range); rc == SDB_OK; rc = sdb_cursor_next(cur))
        found[n++] = (char)('0' + sdb_row_rowid(sdb_cursor_row(cur)));
    found[n] = 0;
    assert_string_equal(found, ids);
    assert_int_equal(sdb_cursor_count(cur, &range, &count), SDB_OK);
    assert_int_equal(count, n);
}

static void test_by_revision(void **state)
{
    (void)state;
    static fixture f;
    sdb_cursor *cur;
    fixture_open(&f);
    sdb_txn *txn = begin(&f);
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    for (int i = 1; i <= 5; i++)
        put(txn, f.t, i, i);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, f.t, SDB_BY_REVISION), SDB_MISUSE);
    assert_int_equal(sdb_txn_create_feed(txn, f.t, "first"), SDB_OK);
    put(txn, f.t, 2, 9);
    delete (txn, f.t, 3);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, f.t, SDB_BY_REVISION), SDB_OK);
    put(txn, f.t, 1, 9);
    assert_revisions(cur, 0, false, "1452");
    assert_revisions(cur, 1, true, "254");
    sdb_cursor_close(cur);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_cursor_open(cur, f.snap, f.t, SDB_BY_REVISION), SDB_OK);
    txn = begin(&f); /* the feed goes, and with it the tree; not what is being read */
    assert_int_equal(sdb_txn_drop_feed(txn, f.t, "first"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_revisions(cur, 4, false, "521");
    assert_revisions(cur, 6, true, "1");
    sdb_cursor_close(cur);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_cursor_open(cur, f.snap, f.t, SDB_BY_REVISION), SDB_MISUSE);
    sdb_snapshot_drop(f.snap);
    sdb_cursor_free(cur);
    fixture_close(&f);
}

#define TRY(call)                                \
    do {                                         \
        rc = (call);                             \
        assert_true(rc >= 0 || rc == SDB_NOMEM); \
        if (rc < 0)                              \
            goto done;                           \
    } while (0)

/* Up to the first failure; then the transaction is sound and what it had not acknowledged is there. */
static int script(void)
{
    sdb_db *db = NULL;
    sdb_txn *txn = NULL;
    sdb_table *t;
    sdb_changes *changes = NULL;
    sdb_snapshot *snap = NULL;
    uint64_t revision;
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0};
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER}};
    int rc;
    TRY(sdb_open(&db));
    TRY(sdb_changes_new(db, &changes));
    TRY(sdb_txn_begin(db, &txn));
    TRY(sdb_txn_create_table(txn, &def, &t));
    for (int i = 0; i < 20; i++)
        TRY(sdb_put(txn, t, i, v));
    TRY(sdb_txn_create_feed(txn, t, "a"));
    TRY(sdb_txn_create_feed(txn, t, "b"));
    for (int i = 0; i < 20; i += 2)
        TRY(sdb_delete(txn, t, sdb_txn_get(txn, t, i)));
    TRY(sdb_snapshot_new(db, &snap));
    TRY(sdb_changes_open_txn(changes, txn, snap, t, "a"));
    TRY(sdb_txn_next_change(txn, t, "a", &revision));
    TRY(sdb_txn_acknowledge(txn, t, "a", 25));
    TRY(sdb_txn_acknowledge(txn, t, "b", 27));
    TRY(sdb_txn_drop_feed(txn, t, "a"));
    TRY(sdb_txn_drop_feed(txn, t, "b"));
    TRY(sdb_txn_commit(txn));
    txn = NULL;
done:
    sdb_mem_inject(0, false);
    if (txn) {
        char *wrong = sdb_txn_check(txn);
        if (wrong)
            fail_msg("%s", wrong);
    }
    sdb_txn_abort(txn);
    sdb_changes_free(changes);
    sdb_snapshot_free(snap);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        int64_t n = 1;
        for (;; n++) {
            assert_true(n < 5000);
            sdb_mem_inject(n, persistent);
            if (script() != SDB_NOMEM)
                break;
        }
        assert_true(n > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_followers),
        cmocka_unit_test(test_slowest),
        cmocka_unit_test(test_uncommitted),
        cmocka_unit_test(test_in_transactions),
        cmocka_unit_test(test_seek),
        cmocka_unit_test(test_by_revision),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
