/* t_watch_prefix.c - watches in a prefix index fire for what changes the rows they would find, and for
** nothing else. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* t(id = rowid, net), by_net USING lpm */
typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    sdb_watch *w;
} fixture;

static const sdb_part BY_NET = {.column = 1};
static const sdb_index_def INDEX = {
    .name = "by_net", .n_parts = 1, .parts = &BY_NET, .kind = SDB_LPM};

static sdb_value text(const char *s)
{
    return (sdb_value){.type = s ? SDB_TEXT : SDB_NULL, .n = s ? (uint32_t)strlen(s) : 0, .u.p = s};
}

static void put(sdb_txn *txn, sdb_table *t, int64_t id, const char *net)
{
    sdb_value v[2] = {{.type = SDB_NULL}, text(net)};
    assert_int_equal(sdb_put(txn, t, id, v), SDB_OK);
}

static sdb_txn *begin(const fixture *f)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(f->db, &txn), SDB_OK);
    return txn;
}

/* net NULL: delete the row, or put one that is in no index when there is none */
static void commit(const fixture *f, int64_t id, const char *net)
{
    sdb_txn *txn = begin(f);
    const sdb_row *row = net ? NULL : sdb_txn_get(txn, f->t, id);
    if (row)
        assert_int_equal(sdb_delete(txn, f->t, row), SDB_OK);
    else
        put(txn, f->t, id, net);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

static void fixture_open(fixture *f)
{
    sdb_table_def def = {
        .name = "t", .n_columns = 2, .rowid_column = 0, .n_indexes = 1, .indexes = &INDEX};
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    sdb_txn *txn = begin(f);
    assert_int_equal(sdb_txn_create_table(txn, &def, &f->t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(f->db, &f->cur), SDB_OK);
    assert_int_equal(sdb_watch_new(f->db, &f->w), SDB_OK);
}

static void fixture_close(fixture *f)
{
    sdb_watch_free(f->w);
    sdb_cursor_free(f->cur);
    sdb_snapshot_free(f->snap);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void arm(const fixture *f, sdb_watch *w, sdb_prefix_op op, const char *net)
{
    sdb_value v = text(net);
    sdb_snapshot_take(f->snap);
    assert_int_equal(sdb_watch_arm_prefix(w, f->snap, f->t, 1, op, &v), SDB_OK);
    sdb_snapshot_drop(f->snap);
    assert_false(sdb_watch_fired(w));
}

/* Whether the watch, armed now, fires for this change. */
static bool fires(const fixture *f, sdb_prefix_op op, const char *net, int64_t id, const char *to)
{
    arm(f, f->w, op, net);
    commit(f, id, to);
    return sdb_watch_fired(f->w);
}

static void test_longest(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 1, "10.0.0.0/8")); /* there was none */
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 2, "10.1.0.0/16"));
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 3, "0.0.0.0/0")); /* shorter */
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 1, "10.0.0.0/8"));
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 4, "10.1.3.0/24")); /* beside it */
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 5, "10.1.2.4"));
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.0/24", 6, "10.1.2.5")); /* below it */
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 7, "10.1.0.0/16")); /* another row of it */
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 7, "192.168.0.0/16")); /* moves away */
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 2, NULL));
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 1, NULL)); /* the next one is it by now */
    assert_true(fires(&f, SDB_LONGEST, "10.1.2.3", 3, NULL));
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 3, NULL)); /* a row in no index */
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 8, "::/0")); /* another family */
    assert_false(fires(&f, SDB_LONGEST, "10.1.2.3", 9, "0x0a0102/24"));
    fixture_close(&f);
}

static void test_others(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_true(fires(&f, SDB_EXACT, "10.0.0.0/8", 1, "10.9.9.9/8")); /* the same */
    assert_false(fires(&f, SDB_EXACT, "10.0.0.0/8", 2, "10.0.0.0/9"));
    assert_false(fires(&f, SDB_EXACT, "10.0.0.0/8", 2, "10.0.0.0/7"));
    assert_true(fires(&f, SDB_COVERS, "10.1.0.0/16", 3, "0.0.0.0/0"));
    assert_true(fires(&f, SDB_COVERS, "10.1.0.0/16", 4, "10.1.0.0/16"));
    assert_false(fires(&f, SDB_COVERS, "10.1.0.0/16", 5, "10.1.0.0/17"));
    assert_false(fires(&f, SDB_COVERS, "10.1.0.0/16", 6, "10.2.0.0/16"));
    assert_true(fires(&f, SDB_WITHIN, "10.1.0.0/16", 7, "10.1.255.255"));
    assert_true(fires(&f, SDB_WITHIN, "10.1.0.0/16", 4, "10.1.0.0/16"));
    assert_false(fires(&f, SDB_WITHIN, "10.1.0.0/16", 8, "10.0.0.0/15"));
    assert_false(fires(&f, SDB_WITHIN, "10.1.0.0/16", 9, "10.2.0.0/16"));
    assert_true(fires(&f, SDB_WITHIN, "::/0", 10, "ffff::")); /* the last addresses of a family */
    assert_true(fires(&f, SDB_WITHIN, "0x", 10, "0xffffffffffffffffffffffffffffffff"));
    assert_true(fires(&f, SDB_COVERS, "0xffffffffffffffffffffffffffffffff", 10, "0xff"));
    assert_false(fires(&f, SDB_WITHIN, "::/0", 10, "10.1.2.3"));

    /* A range, as a cursor reads it: all, or one prefix. */
    sdb_value eight = text("10.0.0.0/8");
    sdb_range all = {0}, one = {.eq = &eight, .n_eq = 1}, low = {.lower = &eight};
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 1, &low), SDB_MISUSE);
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 1, &one), SDB_OK);
    commit(&f, 2, "10.0.0.0/9");
    assert_false(sdb_watch_fired(f.w));
    commit(&f, 1, "10.0.0.0/8");
    assert_true(sdb_watch_fired(f.w));
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm(f.w, f.snap, f.t, 1, &all), SDB_OK);
    commit(&f, 20, NULL); /* not in the index */
    assert_false(sdb_watch_fired(f.w));
    commit(&f, 20, "aa:bb:cc:dd:ee:ff");
    assert_true(sdb_watch_fired(f.w));

    /* Nothing is found for NULL, until the index or the table goes. */
    arm(&f, f.w, SDB_LONGEST, NULL);
    commit(&f, 1, "10.0.0.0/8");
    assert_false(sdb_watch_fired(f.w));
    sdb_txn *txn = begin(&f);
    assert_int_equal(sdb_txn_drop_index(txn, f.t, 1), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_true(sdb_watch_fired(f.w));
    fixture_close(&f);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f;
    sdb_value bad = text("10/8"), good = text("10.0.0.0/8");
    fixture_open(&f);
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 1, SDB_EXACT, &good), SDB_MISUSE);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 0, SDB_EXACT, &good), SDB_MISUSE);
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 2, SDB_EXACT, &good), SDB_MISUSE);
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 1, (sdb_prefix_op)9, &good), SDB_MISUSE);
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 1, SDB_EXACT, &bad), SDB_NOTPREFIX);
    assert_int_equal(sdb_watch_wait(f.w, -1), SDB_MISUSE); /* not armed */
    commit(&f, 1, "10.0.0.0/8");
    assert_int_equal(sdb_watch_arm_prefix(f.w, f.snap, f.t, 1, SDB_LONGEST, &good), SDB_OK);
    assert_true(sdb_watch_fired(f.w)); /* the table has changed since the snapshot */
    for (int64_t n = 1;; n++) {
        sdb_snapshot_take(f.snap);
        sdb_mem_inject(n, true);
        int rc = sdb_watch_arm_prefix(f.w, f.snap, f.t, 1, SDB_LONGEST, &good);
        if (sdb_mem_inject(0, false) == 0)
            break;
        assert_int_equal(rc, SDB_NOMEM);
        commit(&f, 1, "10.0.0.0/8");
    }
    fixture_close(&f);
}

/* ---------------------------------------------------------------- random changes */

static const char *const FAMILY[] = {"10.%u.%u.0/%u", "fd00:%x00:%x00::/%u", "0x%02x%02x/%u"};
static const unsigned FIRST_BITS[] = {8, 16, 0};

/* One of few prefixes, or of NULL. */
static const char *any_net(char out[64])
{
    unsigned family = (unsigned)rnd(3), bits = FIRST_BITS[family] + (unsigned)rnd(17);
    unsigned a = (unsigned)rnd(3) * 85, b = (unsigned)rnd(4) * 64;
    if (family == 2 && bits <= 8)
        snprintf(out, 64, "0x%02x/%u", a, bits); /* text of raw bits has no more than it needs */
    else
        snprintf(out, 64, FAMILY[family], a, b, bits);
    return out;
}

/* What a watch would find: a number that the rows and their revisions make. */
static uint64_t found(const fixture *f, sdb_prefix_op op, const char *net)
{
    sdb_value v = text(net);
    uint64_t hash = 1469598103934665603u;
    sdb_snapshot_take(f->snap);
    assert_int_equal(sdb_cursor_open(f->cur, f->snap, f->t, 1), SDB_OK);
    int rc = sdb_cursor_seek_prefix(f->cur, op, &v, false);
    for (; rc == SDB_OK; rc = sdb_cursor_next(f->cur)) {
        const sdb_row *row = sdb_cursor_row(f->cur);
        hash = (hash ^ (uint64_t)sdb_row_rowid(row)) * 1099511628211u;
        hash = (hash ^ sdb_row_revision(row)) * 1099511628211u;
    }
    assert_int_equal(rc, SDB_DONE);
    sdb_cursor_close(f->cur);
    return hash;
}

static void change(const fixture *f, sdb_txn *txn)
{
    char net[64];
    int64_t id = (int64_t)rnd(40);
    const sdb_row *row = sdb_txn_get(txn, f->t, id);
    if (row && rnd(2))
        assert_int_equal(sdb_delete(txn, f->t, row), SDB_OK);
    else
        put(txn, f->t, id, rnd(8) ? any_net(net) : NULL);
}

/* A commit of one change fires just those watches that find something else now; of several, at least
** those. */
static void test_random(void **state)
{
    (void)state;
    enum { WATCHES = 80 };
    fixture f;
    sdb_watch *watch[WATCHES];
    sdb_prefix_op op[WATCHES];
    char net[WATCHES][64];
    uint64_t saw[WATCHES];
    int n_fired = 0, n_quiet = 0;
    rng = 11;
    fixture_open(&f);
    for (int i = 0; i < WATCHES; i++) {
        assert_int_equal(sdb_watch_new(f.db, &watch[i]), SDB_OK);
        op[i] = SDB_EXACT;
        strcpy(net[i], "10.0.0.0/8");
        arm(&f, watch[i], op[i], net[i]);
        saw[i] = found(&f, op[i], net[i]);
    }
    for (int round = 0; round < 3000; round++) {
        int changes = rnd(3) ? 1 : (int)rnd(6);
        sdb_txn *txn = begin(&f);
        for (int n = 0; n < changes; n++)
            change(&f, txn);
        bool commits = rnd(6) > 0;
        if (commits)
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        else
            sdb_txn_abort(txn);
        for (int i = 0; i < WATCHES; i++) {
            bool fired = sdb_watch_fired(watch[i]), differs = found(&f, op[i], net[i]) != saw[i];
            assert_true(!differs || fired);
            assert_true(!fired || commits);
            if (changes == 1)
                assert_int_equal(fired, differs);
            n_fired += fired;
            n_quiet += !fired && commits;
            if (!fired && rnd(100))
                continue;
            op[i] = (sdb_prefix_op)rnd(4);
            any_net(net[i]);
            arm(&f, watch[i], op[i], net[i]);
            saw[i] = found(&f, op[i], net[i]);
        }
    }
    assert_true(n_fired > 1000 && n_quiet > 100000);
    for (int i = 0; i < WATCHES; i++)
        sdb_watch_free(watch[i]);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
