/* t_symptoms_index.c - t_symptoms.c for indexes on prefixes and sets, for feeds, and for sets of watches. */
#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the table */

/* t(id = rowid, net, tags): by_net on prefixes, by_tag on the letters of tags */
typedef struct store {
    sdb_db *db;
    sdb_table *t;
    sdb_snapshot *snap;
    sdb_cursor *cur;
} store;

static sdb_value text(const char *s)
{
    return (sdb_value){.type = s ? SDB_TEXT : SDB_NULL, .n = s ? (uint32_t)strlen(s) : 0, .u.p = s};
}

static int letters(void *ctx, const sdb_value *value, sdb_key_set *keys)
{
    (void)ctx;
    for (uint32_t i = 0; value->type == SDB_TEXT && i < value->n; i++) {
        sdb_value letter = {.type = SDB_TEXT, .n = 1, .u.p = (const char *)value->u.p + i};
        sdb_key_set_add(keys, &letter);
    }
    return SDB_OK;
}

enum { BY_NET = 1, BY_TAG = 2 };

static void store_open(store *s, bool unique)
{
    static const sdb_part NET = {.column = 1}, TAGS = {.column = 2};
    sdb_index_def indexes[] = {
        {.name = "by_net", .unique = unique, .n_parts = 1, .parts = &NET, .kind = SDB_LPM},
        {.name = "by_tag", .n_parts = 1, .parts = &TAGS, .kind = SDB_MULTI, .extract = letters}};
    sdb_table_def def = {
        .name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 2, .indexes = indexes};
    sdb_txn *txn;
    assert_int_equal(sdb_open(&s->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(s->db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &s->t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(s->db, &s->snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(s->db, &s->cur), SDB_OK);
}

static void store_close(store *s)
{
    char *wrong = sdb_check(s->db);
    if (wrong)
        fail_msg("%s", wrong);
    sdb_snapshot_free(s->snap);
    sdb_cursor_free(s->cur);
    sdb_unref(s->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static sdb_txn *begin(const store *s)
{
    sdb_txn *txn;
    assert_int_equal(sdb_txn_begin(s->db, &txn), SDB_OK);
    return txn;
}

static int put(sdb_txn *txn, const store *s, int64_t id, const char *net, const char *tags)
{
    sdb_value v[3] = {{.type = SDB_NULL}, text(net), text(tags)};
    return sdb_put(txn, s->t, id, v);
}

static void take(sdb_txn *txn, const store *s, int64_t id)
{
    assert_int_equal(sdb_delete(txn, s->t, sdb_txn_get(txn, s->t, id)), SDB_OK);
}

/* The rows from where the cursor stands: their rowids. */
static const char *rows(sdb_cursor *cur, int rc)
{
    static char out[256];
    size_t n = 0;
    out[0] = 0;
    for (; rc == SDB_OK; rc = sdb_cursor_next(cur))
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", n ? " " : "",
                              (int)sdb_row_rowid(sdb_cursor_row(cur)));
    assert_int_equal(rc, SDB_DONE);
    return out;
}

/* What a search for a prefix finds in the held snapshot. */
static const char *found(const store *s, sdb_prefix_op op, const char *net)
{
    sdb_value v = text(net);
    assert_int_equal(sdb_cursor_open(s->cur, s->snap, s->t, BY_NET), SDB_OK);
    const char *out = rows(s->cur, sdb_cursor_seek_prefix(s->cur, op, &v, false));
    sdb_cursor_close(s->cur);
    return out;
}

static const char *tagged(const store *s, const char *tag)
{
    sdb_value v = text(tag);
    assert_int_equal(sdb_cursor_open(s->cur, s->snap, s->t, BY_TAG), SDB_OK);
    const char *out = rows(s->cur, sdb_cursor_seek(s->cur, &(sdb_range){.eq = &v, .n_eq = 1}));
    sdb_cursor_close(s->cur);
    return out;
}

/* ---------------------------------------------------------------- prefixes */

/* A search within a prefix that had nothing in it found the subtree where its path ended. */
static void test_disjoint_prefix(void **state)
{
    (void)state;
    store s;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, "10.0.0.0/8", NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_WITHIN, "192.168.0.0/16"), "");
    assert_string_equal(found(&s, SDB_WITHIN, "10.0.0.0/9"), "");
    assert_string_equal(found(&s, SDB_WITHIN, "10.0.0.0/8"), "1");
    assert_string_equal(found(&s, SDB_WITHIN, "0.0.0.0/0"), "1");
    store_close(&s);
}

/* A longest match was asked for a network: it found a longer one inside it, or, where the path ended at a
** fork, nothing although a shorter one covers it. */
static void test_match_of_a_network(void **state)
{
    (void)state;
    store s;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, "10.1.2.3/32", NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_LONGEST, "10.1.0.0/16"), "");
    txn = begin(&s);
    assert_int_equal(put(txn, &s, 2, "10.0.0.0/8", NULL), SDB_OK);
    assert_int_equal(put(txn, &s, 3, "10.1.2.200/32", NULL), SDB_OK); /* a fork at 10.1.2.0/24 */
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_LONGEST, "10.1.0.0/16"), "2");
    assert_string_equal(found(&s, SDB_LONGEST, "10.1.2.0/24"), "2");
    assert_string_equal(found(&s, SDB_LONGEST, "10.1.2.3"), "1");
    store_close(&s);
}

/* A prefix with host bits was another key than the same prefix without. */
static void test_host_bits(void **state)
{
    (void)state;
    store s;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, "10.0.0.100/8", NULL), SDB_OK);
    assert_int_equal(put(txn, &s, 2, "10.0.0.0/8", NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_EXACT, "10.200.0.1/8"), "1 2");
    txn = begin(&s);
    take(txn, &s, 1);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_EXACT, "10.0.0.0/8"), "2");
    store_close(&s);
}

/* The rows of one prefix stood in an array that was written in place: older snapshots saw it, and what was
** rolled back stayed. */
static void test_rows_of_a_prefix(void **state)
{
    (void)state;
    store s;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    for (int64_t id = 1; id <= 3; id++)
        assert_int_equal(put(txn, &s, id, "10.0.0.0/8", "a"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    for (int commits = 0; commits < 2; commits++) {
        txn = begin(&s);
        assert_int_equal(put(txn, &s, 2, "10.0.0.0/8", "b"), SDB_OK);
        assert_int_equal(put(txn, &s, 4, "10.0.0.0/8", "b"), SDB_OK);
        take(txn, &s, 1);
        if (commits)
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        else
            sdb_txn_abort(txn);
        assert_string_equal(found(&s, SDB_EXACT, "10.0.0.0/8"), "1 2 3");
    }
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_EXACT, "10.0.0.0/8"), "2 3 4");
    store_close(&s);
}

/* Deleting left forks with one branch, at the root too. */
static void test_forks(void **state)
{
    (void)state;
    store s;
    sdb_memory before, after;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, "10.0.0.0/16", NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(s.db, &before);
    for (int i = 0; i < 3; i++) {
        static const char *const OTHER[] = {"10.1.0.0/16", "192.0.0.0/8", "10.0.128.0/17"};
        txn = begin(&s);
        assert_int_equal(put(txn, &s, 2, OTHER[i], NULL), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        txn = begin(&s);
        take(txn, &s, 2);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        sdb_memory_used(s.db, &after);
        assert_int_equal(after.live, before.live);
    }
    store_close(&s);
}

/* A second row took the first one's place in a unique index on prefixes. */
static void test_unique_prefix(void **state)
{
    (void)state;
    store s;
    store_open(&s, true);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, "10.0.0.0/8", NULL), SDB_OK);
    assert_int_equal(put(txn, &s, 2, "10.5.0.0/8", NULL), SDB_EXISTS);
    assert_int_equal(put(txn, &s, 2, "10.0.0.0/9", NULL), SDB_OK);
    assert_int_equal(put(txn, &s, 3, NULL, NULL), SDB_OK);
    assert_int_equal(put(txn, &s, 4, NULL, NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(found(&s, SDB_WITHIN, "0.0.0.0/0"), "1 2");
    store_close(&s);
}

/* ---------------------------------------------------------------- sets of keys */

/* A key that a row had twice was deleted twice. */
static void test_key_twice(void **state)
{
    (void)state;
    store s;
    store_open(&s, false);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, NULL, "aba"), SDB_OK);
    assert_int_equal(put(txn, &s, 2, NULL, "a"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(tagged(&s, "a"), "1 2");
    txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, NULL, "bb"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(tagged(&s, "a"), "2");
    assert_string_equal(tagged(&s, "b"), "1");
    txn = begin(&s);
    take(txn, &s, 1);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(s.snap);
    assert_string_equal(tagged(&s, "b"), "");
    store_close(&s);
}

/* ---------------------------------------------------------------- feeds and watches */

static const char *changed(const store *s, sdb_changes *changes, int most)
{
    static char out[256];
    size_t n = 0;
    out[0] = 0;
    sdb_snapshot_take(s->snap);
    assert_int_equal(sdb_changes_open(changes, s->snap, s->t, "f"), SDB_OK);
    for (; most > 0 && sdb_changes_next(changes) == SDB_OK; most--) {
        const sdb_row *row = sdb_changes_row(changes);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s%d", n ? " " : "",
                              sdb_row_is_deleted(row) ? "-" : "", (int)sdb_row_rowid(row));
    }
    return out;
}

/* A tracker made in a transaction that was rolled back went on, and missed every deletion; one that was
** read in part lost the rest, or hung. */
static void test_feed_of_an_abort(void **state)
{
    (void)state;
    store s;
    sdb_changes *changes;
    store_open(&s, false);
    assert_int_equal(sdb_changes_new(s.db, &changes), SDB_OK);
    sdb_txn *txn = begin(&s);
    for (int64_t id = 1; id <= 4; id++)
        assert_int_equal(put(txn, &s, id, NULL, NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    txn = begin(&s);
    assert_int_equal(sdb_txn_create_feed(txn, s.t, "f"), SDB_OK);
    sdb_txn_abort(txn);
    sdb_snapshot_take(s.snap);
    assert_int_equal(sdb_changes_open(changes, s.snap, s.t, "f"), SDB_MISUSE);
    txn = begin(&s);
    assert_int_equal(sdb_txn_create_feed(txn, s.t, "f"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    txn = begin(&s);
    take(txn, &s, 1);
    assert_int_equal(put(txn, &s, 2, NULL, "a"), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_string_equal(changed(&s, changes, 2), "3 4");
    uint64_t seen = sdb_row_revision(sdb_changes_row(changes));
    assert_string_equal(changed(&s, changes, 99), "3 4 -1 2"); /* what was not acknowledged */
    txn = begin(&s);
    assert_int_equal(sdb_txn_acknowledge(txn, s.t, "f", seen), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_string_equal(changed(&s, changes, 99), "-1 2");
    sdb_changes_free(changes);
    store_close(&s);
}

/* Waiting for several gave an empty list when the time was over while gathering, or before it was. */
static void test_settle(void **state)
{
    (void)state;
    store s;
    sdb_watch *watch[2], *out[2];
    sdb_watch_set *set;
    int n;
    store_open(&s, false);
    assert_int_equal(sdb_watch_set_new(s.db, &set), SDB_OK);
    sdb_snapshot_take(s.snap);
    for (int i = 0; i < 2; i++) {
        sdb_value id = {.type = SDB_INTEGER, .u.i = i};
        assert_int_equal(sdb_watch_new(s.db, &watch[i]), SDB_OK);
        assert_int_equal(
            sdb_watch_arm(watch[i], s.snap, s.t, 0, &(sdb_range){.eq = &id, .n_eq = 1}), SDB_OK);
        assert_int_equal(sdb_watch_set_add(set, watch[i]), SDB_OK);
    }
    assert_int_equal(sdb_watch_set_wait(set, 5, 5, out, 2, &n), SDB_DONE); /* nothing has happened */
    assert_int_equal(n, 0);
    sdb_txn *txn = begin(&s);
    assert_int_equal(put(txn, &s, 1, NULL, NULL), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_watch_set_wait(set, 5, 60000, out, 2, &n), SDB_OK); /* over while gathering */
    assert_int_equal(n, 1);
    assert_ptr_equal(out[0], watch[1]);
    assert_true(sdb_watch_set_has(set, watch[0]) && !sdb_watch_set_has(set, watch[1]));
    sdb_watch_free(watch[0]);
    sdb_watch_free(watch[1]);
    sdb_watch_set_free(set);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disjoint_prefix),  cmocka_unit_test(test_match_of_a_network),
        cmocka_unit_test(test_host_bits),        cmocka_unit_test(test_rows_of_a_prefix),
        cmocka_unit_test(test_forks),            cmocka_unit_test(test_unique_prefix),
        cmocka_unit_test(test_key_twice),        cmocka_unit_test(test_feed_of_an_abort),
        cmocka_unit_test(test_settle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
