/* t_multi.c - multi indexes of tables: what sets cost, what is refused, uniqueness, watches, cursors, threads. */
#include "tags.h"

#include <pthread.h>

enum { MANY = 400 };

/* ---------------------------------------------------------------- sets */

/* A key twice in a set is there once; an empty text and NULL are keys; a row without keys is not in the
** index. Through insert, change and delete. */
static void test_sets(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    open_table(&db, &t);
    sdb_value a = text("a"), b = text("b"), empty = text(""), null = {.type = SDB_NULL};
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b,a,a", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "-", 0), SDB_OK);
    assert_int_equal(put(txn, t, 4, ",~,,b,~", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "1");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &b), "1 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &empty), "2 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &null), "4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "4 2 1");
    assert_string_equal(rows_in_txn(db, txn, t, "by_fold", NULL), "1 4 2");
    assert_int_equal(put(txn, t, 1, "b,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "b,a,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "", 0), SDB_OK);
    assert_int_equal(put(txn, t, 4, "-", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &b), "1 2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &empty), "3");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &null), "");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "3 2 1");
    assert_sound(txn);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, i)), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "");
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* Thousands of keys in one row, in no order. */
static void test_large_set(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    static char tags[KEYS * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    size_t n = 0;
    open_table(&db, &t);
    for (uint64_t i = 0; i < KEYS; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", (int)(i * 7919 % 3000));
    sdb_value one = text("t1234"), none = text("t3000");
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "t1234", 0), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &one), "1 2");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &none), "");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "1 2");
    assert_sound(txn);
    tags[n - 6] = 0; /* some keys less */
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* What changes no key of a row leaves the index alone, and one tag more is one entry more. */
static void test_touched(void **state)
{
    (void)state;
    static char tags[MANY * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_snapshot *snap;
    sdb_memory used;
    size_t n = 0;
    open_table(&db, &t);
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", i);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 0), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);

    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    int before = atomic_load(&n_extracted);
    assert_int_equal(put(txn, t, 1, tags, 1), SDB_OK);
    assert_int_equal(atomic_load(&n_extracted), before + 1); /* the new row's; the old one's are the same */
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_in_range(used.retired, n, n + 200); /* the row */

    snprintf(tags + n, sizeof tags - n, ",one-more");
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, tags, 1), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_in_range(used.retired, n, n + 4000); /* with the two paths of nodes, not 800 entries */
    sdb_snapshot_free(snap);
    close_store(db, t);
}

/* ---------------------------------------------------------------- refusals */

static void test_refused(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    static const sdb_part two[] = {{1, SDB_BINARY, false}, {2, SDB_BINARY, false}};
    sdb_index_def wide = {.name = "w", .n_parts = 2, .parts = two, .kind = SDB_MULTI,
                          .extract = tags_extract};
    sdb_index_def mute = {.name = "m", .n_parts = 1, .parts = &BY_TAG, .kind = SDB_MULTI};
    sdb_value v[3], a = text("a");
    const sdb_row *row;
    uint64_t count;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &wide), SDB_MISUSE);
    assert_int_equal(sdb_txn_create_index(txn, t, &mute), SDB_MISUSE);
    assert_int_equal(put(txn, t, 1, "a,!", 0), SDB_NOTSET);
    assert_int_equal(put(txn, t, 1, "a", 0), SDB_OK);
    assert_int_equal(put(txn, t, 1, "b,!,c", 0), SDB_NOTSET); /* it stays what it was */
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", &a), "1");
    row_values(v, "!", 0);
    assert_int_equal(sdb_stage(txn, t, 2, v), SDB_NOTSET);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_MISUSE); /* nothing is staged */

    /* rows that an index made later cannot take */
    assert_int_equal(sdb_txn_drop_index(txn, t, 3), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, t, 1), SDB_OK);
    assert_int_equal(put(txn, t, 2, "a,!", 0), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &INDEXES[0]), SDB_NOTSET);
    assert_int_equal(sdb_txn_indexes(txn, t), 1);
    row = sdb_txn_get(txn, t, 2);
    assert_int_equal(sdb_delete(txn, t, row), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &INDEXES[0]), SDB_OK);
    assert_sound(txn);

    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 2), SDB_OK);
    assert_int_equal(sdb_cursor_seek_prefix(cur, SDB_WITHIN, &a, false), SDB_MISUSE);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){.eq = v, .n_eq = 2}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){.eq = &a, .n_eq = 1, .lower = &a}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){0}, &count), SDB_MISUSE);
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &a, .n_eq = 1}, &count), SDB_OK);
    assert_int_equal(count, 1);
    sdb_cursor_free(cur);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);

    sdb_snapshot *snap;
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_snapshot_find_many(snap, t, 2, &a, 1, &row), SDB_MISUSE);
    sdb_snapshot_free(snap);
    close_store(db, t);
}

/* A store that is full refuses a row with many keys, and is as it was. */
static void test_full(void **state)
{
    (void)state;
    static char tags[MANY * 8];
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    size_t n = 0;
    int rc, rows = 0;
    open_table(&db, &t);
    sdb_set_limit(db, 8 << 20);
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(tags + n, sizeof tags - n, "%st%d", i ? "," : "", i);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    while ((rc = put(txn, t, rows + 1, tags, 0)) == SDB_OK)
        rows++;
    assert_int_equal(rc, SDB_FULL);
    assert_true(rows > 10);
    assert_sound(txn);
    assert_int_equal(sdb_txn_count(txn, t), rows);
    assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, 1)), SDB_OK);
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* ---------------------------------------------------------------- unique */

static void test_unique(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_value v[3], b = text("b");
    int once;
    open_table(&db, &t);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b", 0), SDB_OK);
    assert_int_equal(put(txn, t, 2, "b,c", 0), SDB_OK);
    assert_int_equal(sdb_txn_create_index(txn, t, &ONCE), SDB_DUPLICATE);
    assert_int_equal(put(txn, t, 2, "c,c,~,~", 0), SDB_OK);
    assert_int_equal(put(txn, t, 3, "~", 0), SDB_OK); /* NULLs are not alike */
    assert_int_equal(sdb_txn_create_index(txn, t, &ONCE), SDB_OK);
    once = sdb_txn_find_index(txn, t, "once");
    assert_int_equal(put(txn, t, 4, "d,b", 0), SDB_EXISTS);
    assert_int_equal(put(txn, t, 4, "d,~", 0), SDB_OK);
    assert_int_equal(put(txn, t, 1, "b,a,b,e", 0), SDB_OK); /* its own do not count */
    assert_int_equal(put(txn, t, 1, "b,d", 0), SDB_EXISTS);
    assert_string_equal(rows_in_txn(db, txn, t, "once", &b), "1");
    assert_sound(txn);

    /* the row under another rowid, with its keys */
    const sdb_row *old = sdb_txn_get(txn, t, 1);
    row_values(v, "b,x", 0);
    assert_int_equal(sdb_stage(txn, t, 7, v), SDB_OK);
    assert_ptr_equal(sdb_stage_clash(txn, once, NULL), old);
    assert_null(sdb_stage_clash(txn, once, old));
    assert_int_equal(sdb_stage_put(txn, old), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "once", &b), "7");

    /* several rows in the way, one after the other */
    row_values(v, "x,c,d", 0);
    assert_int_equal(sdb_stage(txn, t, 9, v), SDB_OK);
    int n = 0;
    for (const sdb_row *victim; (victim = sdb_stage_clash(txn, once, NULL)) != NULL; n++)
        assert_int_equal(sdb_delete(txn, t, victim), SDB_OK);
    assert_int_equal(n, 3);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_OK);
    assert_string_equal(rows_in_txn(db, txn, t, "once", NULL), "3 9");
    assert_sound(txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    close_store(db, t);
}

/* ---------------------------------------------------------------- watches */

static sdb_watch *watch(sdb_db *db, sdb_table *t, const sdb_range *range)
{
    sdb_watch *w;
    sdb_snapshot *snap;
    assert_int_equal(sdb_watch_new(db, &w), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_snapshot_take(snap);
    assert_int_equal(sdb_watch_arm(w, snap, t, 1, range), SDB_OK);
    sdb_snapshot_free(snap);
    return w;
}

/* A watch of a key hears of the rows that have it or had it, and of no others. */
static void test_watches(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c", "d"};
    static const struct {
        const char *tags;
        int n;
        const char *fired;
    } steps[] = {
        {"a,b", 0, "ab"}, {"a,c", 0, "abc"}, {"a,c", 1, "ac"}, {"d", 1, "acd"}, {NULL, 0, "d"},
        {"-", 0, ""},     {NULL, 0, ""},
    };
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    open_table(&db, &t);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sdb_watch *w[4], *range;
        char fired[5] = "";
        sdb_value lower = text("b"), upper = text("c");
        for (int k = 0; k < 4; k++) {
            sdb_value key = text(keys[k]);
            w[k] = watch(db, t, &(sdb_range){.eq = &key, .n_eq = 1});
        }
        range = watch(db, t, &(sdb_range){.lower = &lower, .upper = &upper});
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        if (steps[i].tags)
            assert_int_equal(put(txn, t, 1, steps[i].tags, steps[i].n), SDB_OK);
        else
            assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, 1)), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        assert_true(sdb_watch_fired(range) == (strpbrk(steps[i].fired, "bc") != NULL));
        sdb_watch_free(range);
        for (int k = 0; k < 4; k++) {
            if (sdb_watch_fired(w[k]))
                strcat(fired, keys[k]);
            sdb_watch_free(w[k]);
        }
        assert_string_equal(fired, steps[i].fired);
    }
    close_store(db, t);
}

/* ---------------------------------------------------------------- cursors and threads */

/* A cursor goes on when its index has gone, and when that is undone. */
static void test_cursor_outlives(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    int sp;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(put(txn, t, i, i % 2 ? "a,b" : "b,c", 0), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    assert_int_equal(sdb_delete_all(txn, t), SDB_OK);
    assert_int_equal(sdb_txn_drop_index(txn, t, 1), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){.reverse = true}), "4 2 5 3 1");
    sdb_txn_rollback_to(txn, sp);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    assert_string_equal(rows_in_txn(db, txn, t, "by_tag", NULL), "");
    sdb_txn_abort(txn);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3 5 2 4");
    sdb_cursor_free(cur);
    close_store(db, t);
}

/* Rows sorted for a reader whose cursor is on a multi index: all of them, with its tags or without. */
static void test_sorted(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    sdb_cursor *cur;
    sdb_sorted *sorted;
    uint64_t n;
    open_table(&db, &t);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(put(txn, t, 1, "a,b", 3), SDB_OK);
    assert_int_equal(put(txn, t, 2, "-", 2), SDB_OK);
    assert_int_equal(put(txn, t, 3, "b", 1), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    assert_int_equal(sdb_sorted_new(cur, &INDEXES[0], NULL, &sorted), SDB_MISUSE);
    assert_int_equal(sdb_sorted_new(cur, &INDEXES[1], NULL, &sorted), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "1 3");
    assert_int_equal(sdb_cursor_read(cur, sorted), SDB_OK);
    assert_string_equal(rows_of(cur, &(sdb_range){0}), "3 2 1");
    assert_int_equal(sdb_cursor_count(cur, &(sdb_range){0}, &n), SDB_OK);
    assert_int_equal(n, 3);
    sdb_cursor_free(cur);
    sdb_sorted_free(sorted);
    sdb_txn_abort(txn);
    close_store(db, t);
}

typedef struct reader {
    sdb_db *db;
    sdb_table *t;
    atomic_bool *is_over;
} reader;

/* Each row has the tag "all" and one of "a" and "b". */
static void *read_rows(void *arg)
{
    const reader *r = arg;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    assert_int_equal(sdb_snapshot_new(r->db, &snap), SDB_OK);
    assert_int_equal(sdb_cursor_new(r->db, &cur), SDB_OK);
    while (!atomic_load(r->is_over)) {
        uint64_t a = 0, b = 0, all = 0, n = 0;
        sdb_value tag[] = {text("a"), text("b"), text("all")};
        sdb_snapshot_take(snap);
        assert_int_equal(sdb_cursor_open(cur, snap, r->t, 1), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[0], .n_eq = 1}, &a), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[1], .n_eq = 1}, &b), SDB_OK);
        assert_int_equal(sdb_cursor_count(cur, &(sdb_range){.eq = &tag[2], .n_eq = 1}, &all), SDB_OK);
        for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur))
            n++;
        assert_true(a + b == MANY && all == MANY && n == MANY);
        sdb_cursor_close(cur);
        sdb_snapshot_drop(snap);
    }
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static const char *const tags[] = {"a,all", "b,all", "all,b,all"};
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
    pthread_t thread[2];
    atomic_bool is_over = false;
    open_table(&db, &t);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(put(txn, t, i, tags[i % 3], 0), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    reader r = {db, t, &is_over};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_rows, &r), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        for (int k = 0; k < 10; k++)
            assert_int_equal(put(txn, t, (int64_t)rnd(MANY), tags[rnd(3)], i), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    close_store(db, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_large_set),
        cmocka_unit_test(test_touched),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_unique),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_cursor_outlives),
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
