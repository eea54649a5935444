/* t_prefix_index.c - prefix indexes of tables, against a plain search through all rows. */
#include "random.h"

#include "../core/mem.h"
#include "../core/prefix.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 120, NONE = 0, TEXT = 48 };

/* The model: each row's prefix as text; "" stands for NULL, is_there for the row. */
typedef struct model {
    bool is_there[ROWS];
    char net[ROWS][TEXT];
    int n[ROWS]; /* another column, so that rows change without their prefix */
} model;

static void net_random(char *out)
{
    if (rnd(12) == 0)
        out[0] = 0;
    else if (rnd(4))
        snprintf(out, TEXT, "10.%d.%d.%d/%d", (int)rnd(2), (int)rnd(3), (int)rnd(256),
                 (int)(rnd(2) ? 32 : 4 + rnd(29)));
    else
        snprintf(out, TEXT, "2001:db8:%x::/%d", (int)rnd(4), (int)(16 + rnd(40)));
}

static sdb_value net_value(const char *net)
{
    if (!net[0])
        return (sdb_value){.type = SDB_NULL};
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(net), .u.p = net};
}

static sdb_prefix parse(const char *net)
{
    sdb_prefix p;
    assert_null(sdb_prefix_parse(net, strlen(net), &p));
    return p;
}

/* Whether a row belongs to the answer. */
static bool is_wanted(const model *m, int i, sdb_prefix_op op, const sdb_prefix *q, int longest)
{
    if (!m->is_there[i] || !m->net[i][0])
        return false;
    sdb_prefix p = parse(m->net[i]);
    bool is_same = sdb_prefix_compare(&p, q) == 0;
    switch (op) {
    case SDB_EXACT:
        return is_same;
    case SDB_LONGEST:
        return sdb_prefix_covers(&p, q) && p.bits == longest;
    case SDB_COVERS:
        return sdb_prefix_covers(&p, q);
    default:
        return sdb_prefix_covers(q, &p);
    }
}

static void assert_answers(sdb_cursor *cur, const model *m)
{
    char net[TEXT];
    do
        net_random(net);
    while (!net[0]);
    sdb_prefix q = parse(net);
    sdb_value v = net_value(net);
    int longest = -1;
    for (int i = 0; i < ROWS; i++) {
        if (!m->is_there[i] || !m->net[i][0])
            continue;
        sdb_prefix p = parse(m->net[i]);
        if (sdb_prefix_covers(&p, &q) && p.bits > longest)
            longest = p.bits;
    }
    for (int op = SDB_EXACT; op <= SDB_WITHIN; op++) {
        for (int reverse = 0; reverse < 2; reverse++) {
            bool seen[ROWS] = {false};
            int last_row = -1, n = 0, want = 0;
            sdb_prefix last = q;
            int rc = sdb_cursor_seek_prefix(cur, (sdb_prefix_op)op, &v, reverse);
            for (; rc == SDB_OK; rc = sdb_cursor_next(cur), n++) {
                int i = (int)sdb_row_rowid(sdb_cursor_row(cur));
                assert_true(!seen[i] && is_wanted(m, i, (sdb_prefix_op)op, &q, longest));
                seen[i] = true;
                sdb_prefix p = parse(m->net[i]);
                if (n > 0) {
                    int c = sdb_prefix_compare(&last, &p);
                    if (c == 0)
                        c = last_row < i ? -1 : 1;
                    else if (op == SDB_COVERS)
                        c = reverse ? (last.bits < p.bits ? -1 : 1) : (last.bits > p.bits ? -1 : 1);
                    assert_true(op == SDB_WITHIN && reverse ? c > 0 : c < 0);
                }
                last = p;
                last_row = i;
            }
            assert_int_equal(rc, SDB_DONE);
            for (int i = 0; i < ROWS; i++)
                want += is_wanted(m, i, (sdb_prefix_op)op, &q, longest);
            assert_int_equal(n, want);
        }
    }
    sdb_value ahead[] = {{.type = SDB_NULL}, v, net_value("nonsense"), v};
    const sdb_row *row[4];
    if (sdb_cursor_look_ahead(cur, ahead, 1, 4, row)) { /* always, where it is built with SDB_EAGER */
        int rc = sdb_cursor_seek_prefix(cur, SDB_LONGEST, &v, false);
        const sdb_row *first = sdb_cursor_row(cur);
        bool is_single = rc == SDB_OK && sdb_cursor_next(cur) == SDB_DONE;
        assert_ptr_equal(row[1], is_single ? first : NULL);
        assert_ptr_equal(row[3], row[1]);
        assert_true(!row[0] && !row[2]);
    }
    int n = 0, want = 0; /* all of it */
    for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur))
        n++;
    for (int i = 0; i < ROWS; i++)
        want += m->is_there[i] && m->net[i][0];
    assert_int_equal(n, want);
}

static const sdb_part BY_NET = {1, SDB_BINARY, false};
static const sdb_part BY_N = {2, SDB_BINARY, false};
static const sdb_index_def INDEXES[] = {
    {.name = "by_net", .n_parts = 1, .parts = &BY_NET, .kind = SDB_LPM},
    {.name = "by_n", .n_parts = 1, .parts = &BY_N}};

static void assert_sound(sdb_txn *txn)
{
    char *wrong = sdb_txn_check(txn);
    if (wrong)
        fail_msg("%s", wrong);
}

/* Random changes with savepoints, aborts and the index dropped and made again, while older versions
** are held and asked again. */
static void test_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rng = seed * 0x9e3779b97f4a7c15u;
        static model now, committed, held;
        memset(&now, 0, sizeof now);
        sdb_db *db;
        sdb_txn *txn;
        sdb_table *t;
        sdb_snapshot *snap;
        sdb_cursor *cur, *old;
        sdb_memory used;
        sdb_table_def def = {.name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 2,
                             .indexes = INDEXES};
        assert_int_equal(sdb_open(&db), SDB_OK);
        assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &old), SDB_OK);
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        committed = now;
        for (int round = 0; round < 60; round++) {
            static model saved;
            int sp;
            bool has_savepoint = false;
            assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
            for (int n = 0; n < 30; n++) {
                int i = (int)rnd(ROWS);
                const sdb_row *row = sdb_txn_get(txn, t, i);
                if (!has_savepoint && rnd(10) == 0) {
                    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
                    has_savepoint = true;
                    saved = now;
                } else if (rnd(4) == 0) {
                    if (row)
                        assert_int_equal(sdb_delete(txn, t, row), SDB_OK);
                    now.is_there[i] = false;
                } else {
                    if (!row || rnd(2))
                        net_random(now.net[i]);
                    now.n[i] = (int)rnd(5);
                    now.is_there[i] = true;
                    sdb_value v[3] = {{.type = SDB_NULL},
                                      net_value(now.net[i]),
                                      {.type = SDB_INTEGER, .u.i = now.n[i]}};
                    assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
                }
            }
            if (rnd(6) == 0) {
                int at = sdb_txn_find_index(txn, t, "by_net");
                assert_int_equal(sdb_txn_drop_index(txn, t, at), SDB_OK);
                assert_int_equal(sdb_txn_create_index(txn, t, &INDEXES[0]), SDB_OK);
            }
            if (has_savepoint && rnd(2)) {
                sdb_txn_rollback_to(txn, sp);
                now = saved;
            }
            assert_sound(txn);
            int by_net = sdb_txn_find_index(txn, t, "by_net");
            assert_int_equal(sdb_cursor_open_txn(cur, txn, t, by_net), SDB_OK);
            assert_answers(cur, &now);
            sdb_cursor_close(cur);
            if (sdb_snapshot_held(snap))
                assert_answers(old, &held);
            if (rnd(4) == 0) {
                sdb_txn_abort(txn);
                now = committed;
            } else {
                assert_int_equal(sdb_txn_commit(txn), SDB_OK);
                committed = now;
            }
            if (rnd(5) == 0) {
                sdb_cursor_close(old);
                sdb_snapshot_drop(snap);
                sdb_snapshot_take(snap);
                held = committed;
                by_net = strcmp(sdb_snapshot_index(snap, t, 1)->name, "by_net") == 0 ? 1 : 2;
                assert_int_equal(sdb_cursor_open(old, snap, t, by_net), SDB_OK);
            }
        }
        sdb_cursor_free(old);
        sdb_cursor_free(cur);
        sdb_snapshot_free(snap);
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        for (int i = 0; i < ROWS; i++) {
            const sdb_row *row = sdb_txn_get(txn, t, i);
            if (row)
                assert_int_equal(sdb_delete(txn, t, row), SDB_OK);
        }
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        sdb_memory_used(db, &used);
        assert_int_equal(used.live, 0);
        sdb_unref(db);
        assert_int_equal(sdb_mem_blocks(), 0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_cursor *cur;
    static const sdb_part two[] = {{1, SDB_BINARY, false}, {2, SDB_BINARY, false}};
    sdb_index_def wide = {.name = "w", .n_parts = 2, .parts = two, .kind = SDB_LPM};
    sdb_index_def once = {.name = "once", .unique = true, .n_parts = 1, .parts = &BY_NET,
                          .kind = SDB_LPM};
    sdb_table_def def = {.name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 2,
                         .indexes = INDEXES};
    sdb_value v[3] = {{.type = SDB_NULL}, net_value("10.0.0.300"), {.type = SDB_INTEGER}};
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &wide), SDB_MISUSE);
    assert_int_equal(sdb_put(txn, t, 1, v), SDB_NOTPREFIX);
    assert_int_equal(sdb_txn_count(txn, t), 0);
    v[1] = net_value("10.0.0.0/8");
    assert_int_equal(sdb_put(txn, t, 1, v), SDB_OK);
    v[1] = net_value("10.1.1.1/8"); /* the same prefix: host bits do not count */
    assert_int_equal(sdb_txn_create_index(txn, t, &once), SDB_OK);
    assert_int_equal(sdb_put(txn, t, 2, v), SDB_EXISTS);
    assert_int_equal(sdb_txn_drop_index(txn, t, 3), SDB_OK);
    assert_int_equal(sdb_put(txn, t, 2, v), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &once), SDB_DUPLICATE);
    assert_sound(txn);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 2), SDB_OK);
    assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_LONGEST, &v[1], false), SDB_MISUSE);
    sdb_cursor_close(cur);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    v[1] = net_value("nonsense");
    assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_LONGEST, &v[1], false), SDB_NOTPREFIX);
    assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_LONGEST, &v[0], false), SDB_DONE);
    sdb_cursor_free(cur);
    sdb_txn_abort(txn);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
