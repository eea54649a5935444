/* t_compare.c - changes that depend on what is there: sdb_put_if, sdb_delete_if, sdb_modify,
** sdb_delete_all. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the table under test */

/* t(id = rowid, n, u, s); by_n (n), unique by_u (u) */
static const sdb_part BY_N = {1, SDB_BINARY, false}, BY_U = {2, SDB_BINARY, false};
static const sdb_index_def INDEXES[] = {
    {.name = "by_n", .n_parts = 1, .parts = &BY_N},
    {.name = "by_u", .unique = true, .n_parts = 1, .parts = &BY_U},
};
static const sdb_table_def DEF = {
    .name = "t", .n_columns = 4, .rowid_column = 0, .n_indexes = 2, .indexes = INDEXES};

typedef struct fixture {
    sdb_db *db;
    sdb_table *t; /* counted */
    sdb_snapshot *snap;
    sdb_txn *txn;
} fixture;

static sdb_value integer(int64_t i)
{
    return (sdb_value){.type = SDB_INTEGER, .u.i = i};
}

static sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static void values_of(int64_t n, int64_t u, const char *s, sdb_value *v)
{
    v[0] = (sdb_value){.type = SDB_NULL};
    v[1] = integer(n);
    v[2] = u < 0 ? (sdb_value){.type = SDB_NULL} : integer(u);
    v[3] = text(s);
}

static int put(fixture *f, int64_t id, int64_t n, int64_t u)
{
    sdb_value v[4];
    values_of(n, u, "text", v);
    return sdb_put(f->txn, f->t, id, v);
}

static int put_if(fixture *f, int64_t id, int64_t n, int64_t u, uint64_t revision)
{
    sdb_value v[4];
    values_of(n, u, "text", v);
    return sdb_put_if(f->txn, f->t, id, v, revision);
}

static void begin(fixture *f)
{
    assert_int_equal(sdb_txn_begin(f->db, &f->txn), SDB_OK);
}

static void commit(fixture *f)
{
    assert_int_equal(sdb_txn_commit(f->txn), SDB_OK);
    f->txn = NULL;
}

static void fixture_open(fixture *f)
{
    sdb_table *t;
    memset(f, 0, sizeof *f);
    assert_int_equal(sdb_open(&f->db), SDB_OK);
    assert_int_equal(sdb_snapshot_new(f->db, &f->snap), SDB_OK);
    begin(f);
    assert_int_equal(sdb_txn_create_table(f->txn, &DEF, &t), SDB_OK);
    f->t = sdb_table_ref(t);
    commit(f);
    begin(f);
}

static void fixture_close(fixture *f)
{
    sdb_txn_abort(f->txn);
    char *wrong = sdb_check(f->db);
    if (wrong)
        fail_msg("%s", wrong);
    sdb_snapshot_free(f->snap);
    sdb_table_unref(f->t);
    sdb_unref(f->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static int64_t n_of(fixture *f, int64_t id)
{
    const sdb_row *row = sdb_txn_get(f->txn, f->t, id);
    return row ? sdb_row_value(f->t, row, 1).u.i : -1;
}

static uint64_t revision_of(fixture *f, int64_t id)
{
    const sdb_row *row = sdb_txn_get(f->txn, f->t, id);
    return row ? sdb_row_revision(row) : SDB_ABSENT;
}

static uint64_t table_revision(fixture *f)
{
    sdb_snapshot_take(f->snap);
    uint64_t revision = sdb_snapshot_revision(f->snap, f->t);
    sdb_snapshot_drop(f->snap);
    return revision;
}

/* ---------------------------------------------------------------- compare */

static void test_put_if(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_int_equal(put_if(&f, 1, 10, 1, 1), SDB_DONE);
    assert_int_equal(put_if(&f, 1, 10, 1, SDB_ABSENT), SDB_OK);
    assert_int_equal(put_if(&f, 1, 11, 1, SDB_ABSENT), SDB_CHANGED);
    uint64_t first = revision_of(&f, 1);
    assert_int_equal(first, 1);
    assert_int_equal(put_if(&f, 1, 11, 1, first), SDB_OK);
    assert_int_equal(put_if(&f, 1, 12, 1, first), SDB_CHANGED);
    assert_int_equal(n_of(&f, 1), 11);
    assert_int_equal(put_if(&f, 2, 20, 1, SDB_ABSENT), SDB_EXISTS); /* of the unique index */
    assert_int_equal(put_if(&f, 2, 20, 2, SDB_ABSENT), SDB_OK);
    assert_int_equal(put_if(&f, 2, 20, 1, revision_of(&f, 2)), SDB_EXISTS);
    assert_int_equal(n_of(&f, 2), 20);

    uint64_t second = revision_of(&f, 1);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 3, 1), SDB_DONE);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 3, SDB_ABSENT), SDB_DONE);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, first), SDB_CHANGED);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, SDB_ABSENT), SDB_CHANGED);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 2);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, second), SDB_OK);
    assert_int_equal(put_if(&f, 1, 10, 1, second), SDB_DONE);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 1);
    commit(&f);
    assert_int_equal(table_revision(&f), 4); /* three puts and a delete */
    fixture_close(&f);
}

/* What was compared and not put leaves no trace: no revision, no watch. */
static void test_unchanged(void **state)
{
    (void)state;
    fixture f;
    sdb_watch *w;
    fixture_open(&f);
    assert_int_equal(put(&f, 1, 10, 1), SDB_OK);
    assert_int_equal(put(&f, 2, 20, 2), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_watch_new(f.db, &w), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm(w, f.snap, f.t, 0, &(sdb_range){0}), SDB_OK);
    sdb_snapshot_drop(f.snap);
    begin(&f);
    assert_int_equal(put_if(&f, 1, 11, 1, 7), SDB_CHANGED);
    assert_int_equal(put_if(&f, 1, 11, 1, SDB_ABSENT), SDB_CHANGED);
    assert_int_equal(put_if(&f, 3, 11, 1, 7), SDB_DONE);
    assert_int_equal(put_if(&f, 1, 11, 2, 1), SDB_EXISTS);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 1, 7), SDB_CHANGED);
    assert_int_equal(sdb_delete_if(f.txn, f.t, 3, 7), SDB_DONE);
    commit(&f);
    assert_int_equal(table_revision(&f), 2);
    assert_false(sdb_watch_fired(w));
    begin(&f);
    assert_int_equal(put_if(&f, 1, 10, 1, 1), SDB_OK); /* an equal row is a change */
    commit(&f);
    assert_int_equal(table_revision(&f), 3);
    assert_true(sdb_watch_fired(w));
    sdb_watch_free(w);
    fixture_close(&f);
}

/* The comparison is with the newest version, or there is none. */
static void test_two_writers(void **state)
{
    (void)state;
    fixture f;
    sdb_txn *other;
    sdb_value v[4];
    values_of(12, 1, "", v);
    fixture_open(&f);
    assert_int_equal(put(&f, 1, 10, 1), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK); /* has not looked yet */
    begin(&f);
    assert_int_equal(put_if(&f, 1, 11, 1, 1), SDB_OK);
    assert_int_equal(sdb_put_if(other, f.t, 1, v, 1), SDB_BUSY);
    assert_int_equal(sdb_delete_if(other, f.t, 1, 1), SDB_BUSY);
    commit(&f);
    assert_int_equal(sdb_put_if(other, f.t, 1, v, 1), SDB_CHANGED);
    sdb_txn_abort(other);
    assert_int_equal(sdb_txn_begin(f.db, &other), SDB_OK);
    assert_non_null(sdb_txn_get(other, f.t, 1));
    begin(&f);
    assert_int_equal(put_if(&f, 1, 12, 1, 2), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_put_if(other, f.t, 1, v, 2), SDB_STALE); /* it has looked */
    sdb_txn_abort(other);
    fixture_close(&f);
}

enum { THREADS = 4, TIMES = 400 };

/* Read in a snapshot, compute, put if it is still so: no addition is lost. */
static void *count_up(void *arg)
{
    fixture f = *(fixture *)arg;
    int rc = sdb_snapshot_new(f.db, &f.snap);
    for (int i = 0; rc == SDB_OK && i < TIMES; i++) {
        do {
            const sdb_row *row;
            int64_t id = 1;
            sdb_snapshot_take(f.snap);
            sdb_snapshot_get_many(f.snap, f.t, &id, 1, &row);
            int64_t n = row ? sdb_row_value(f.t, row, 1).u.i : 0;
            uint64_t revision = row ? sdb_row_revision(row) : SDB_ABSENT;
            sdb_snapshot_drop(f.snap);
            rc = sdb_txn_begin(f.db, &f.txn);
            if (rc != SDB_OK)
                break;
            sdb_txn_set_timeout(f.txn, -1);
            rc = put_if(&f, id, n + 1, 1, revision);
            if (rc == SDB_OK)
                rc = sdb_txn_commit(f.txn);
            else
                sdb_txn_abort(f.txn);
        } while (rc == SDB_CHANGED);
    }
    sdb_snapshot_free(f.snap);
    return (void *)(intptr_t)rc;
}

static void test_threads(void **state)
{
    (void)state;
    fixture f;
    pthread_t thread[THREADS];
    fixture_open(&f);
    commit(&f);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_up, &f), 0);
    for (int i = 0; i < THREADS; i++) {
        void *rc;
        pthread_join(thread[i], &rc);
        assert_null(rc);
    }
    begin(&f);
    assert_int_equal(n_of(&f, 1), THREADS * TIMES);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- modify */

static int add_one(void *ctx, const sdb_row *old, sdb_value *values)
{
    (void)ctx;
    values[1] = integer(old ? values[1].u.i + 1 : 0);
    return SDB_OK;
}

static int leave(void *ctx, const sdb_row *old, sdb_value *values)
{
    (void)old;
    values[1] = integer(-1);
    return *(int *)ctx;
}

/* Text that lies in the row to be replaced, shortened. */
static int cut_text(void *ctx, const sdb_row *old, sdb_value *values)
{
    (void)ctx;
    assert_non_null(old);
    values[3].n /= 2;
    values[3].u.p = (const char *)values[3].u.p + 1;
    values[0] = integer(77); /* not looked at */
    return SDB_OK;
}

static void test_modify(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < 5; i++)
        assert_int_equal(sdb_modify(f.txn, f.t, 1, add_one, NULL), SDB_OK);
    assert_int_equal(n_of(&f, 1), 4);
    assert_int_equal(sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 1), 3).type, SDB_NULL);
    for (int rc = -3; rc <= 3; rc++) {
        if (rc != SDB_OK)
            assert_int_equal(sdb_modify(f.txn, f.t, 1, leave, &rc), rc);
    }
    int rc = -100;
    assert_int_equal(sdb_modify(f.txn, f.t, 1, leave, &rc), -100);
    assert_int_equal(revision_of(&f, 1), 5);

    sdb_value v[4];
    values_of(5, 5, "abcdefgh", v);
    assert_int_equal(sdb_put(f.txn, f.t, 2, v), SDB_OK);
    assert_int_equal(sdb_modify(f.txn, f.t, 2, cut_text, NULL), SDB_OK);
    sdb_value got = sdb_row_value(f.t, sdb_txn_get(f.txn, f.t, 2), 3);
    assert_int_equal(got.n, 4);
    assert_memory_equal(got.u.p, "bcde", 5);
    commit(&f);
    begin(&f);
    assert_int_equal(sdb_modify(f.txn, f.t, 2, cut_text, NULL), SDB_OK);
    assert_int_equal(n_of(&f, 2), 5);
    fixture_close(&f);
}

typedef struct meddle {
    fixture *f;
    int what;
    int savepoint;
} meddle;

enum {
    OTHER_ROW,
    NESTED_OTHER,
    SAME_ROW,
    NESTED_SAME,
    DELETE_IT,
    THERE_AND_BACK,
    ALL,
    OLDER_STATE,
    DROP,
    CLASH,
    WHATS
};

static int meddle_with(void *ctx, const sdb_row *old, sdb_value *values)
{
    meddle *m = ctx;
    fixture *f = m->f;
    int sp;
    switch (m->what) {
    case OTHER_ROW:
        assert_int_equal(put(f, 2, 21, 2), SDB_OK);
        break;
    case NESTED_OTHER:
        assert_int_equal(sdb_modify(f->txn, f->t, 2, add_one, NULL), SDB_OK);
        break;
    case SAME_ROW:
        assert_int_equal(put(f, 1, 50, 1), SDB_OK);
        assert_int_equal(put(f, 1, 10, 1), SDB_OK);
        break;
    case NESTED_SAME:
        assert_int_equal(sdb_modify(f->txn, f->t, 1, add_one, NULL), SDB_OK);
        break;
    case DELETE_IT:
        assert_int_equal(sdb_delete(f->txn, f->t, old), SDB_OK);
        break;
    case THERE_AND_BACK:
        assert_int_equal(sdb_txn_savepoint(f->txn, &sp), SDB_OK);
        assert_int_equal(put(f, 1, 50, 1), SDB_OK);
        assert_int_equal(put(f, 3, 50, 3), SDB_OK);
        sdb_txn_rollback_to(f->txn, sp);
        sdb_txn_release(f->txn, sp);
        break;
    case ALL:
        assert_int_equal(sdb_delete_all(f->txn, f->t), SDB_OK);
        break;
    case OLDER_STATE:
        sdb_txn_rollback_to(f->txn, m->savepoint);
        break;
    case DROP:
        assert_int_equal(sdb_txn_drop_table(f->txn, f->t), SDB_OK);
        break;
    default:
        values[2] = integer(2);
        break;
    }
    assert_int_equal(sdb_row_value(f->t, old, 1).u.i, 10); /* whatever it did, the row is there */
    assert_int_equal(values[3].n, 4);
    assert_memory_equal(values[3].u.p, "text", 5);
    values[1] = integer(99);
    return SDB_OK;
}

/* The function may change other rows, and go back; when it has changed the very row, that
** stands. */
static void test_reentrant(void **state)
{
    (void)state;
    static const int want[WHATS] = {SDB_OK, SDB_OK,      SDB_CHANGED, SDB_CHANGED, SDB_CHANGED,
                                    SDB_OK, SDB_CHANGED, SDB_CHANGED, SDB_CHANGED, SDB_EXISTS};
    static const int64_t row_1[WHATS] = {99, 99, 10, 11, -1, 99, -1, 7, -1, 10};
    static const int64_t row_2[WHATS] = {21, 21, 20, 20, 20, 20, -1, -1, -1, 20};
    for (int what = 0; what < WHATS; what++) {
        for (int committed = 0; committed < 2; committed++) {
            fixture f;
            fixture_open(&f);
            meddle m = {&f, what, 0};
            assert_int_equal(put(&f, 1, 7, 1), SDB_OK);
            if (what == OLDER_STATE)
                assert_int_equal(sdb_txn_savepoint(f.txn, &m.savepoint), SDB_OK);
            assert_int_equal(put(&f, 1, 10, 1), SDB_OK);
            assert_int_equal(put(&f, 2, 20, 2), SDB_OK);
            if (committed && what != OLDER_STATE) {
                commit(&f);
                begin(&f);
            }
            assert_int_equal(sdb_modify(f.txn, f.t, 1, meddle_with, &m), want[what]);
            assert_int_equal(n_of(&f, 1), row_1[what]);
            assert_int_equal(n_of(&f, 2), row_2[what]);
            char *wrong = sdb_txn_check(f.txn);
            if (wrong)
                fail_msg("%s", wrong);
            commit(&f);
            fixture_close(&f);
        }
    }
}

static int undo_table(void *ctx, const sdb_row *old, sdb_value *values)
{
    (void)values;
    assert_null(old);
    meddle *m = ctx;
    sdb_txn_rollback_to(m->f->txn, m->savepoint);
    return SDB_OK;
}

/* The table itself may be gone when the function returns. */
static void test_table_undone(void **state)
{
    (void)state;
    fixture f;
    sdb_table *u;
    fixture_open(&f);
    meddle m = {.f = &f};
    sdb_table_def def = DEF;
    def.name = "u";
    assert_int_equal(sdb_txn_savepoint(f.txn, &m.savepoint), SDB_OK);
    assert_int_equal(sdb_txn_create_table(f.txn, &def, &u), SDB_OK);
    assert_int_equal(sdb_modify(f.txn, u, 1, undo_table, &m), SDB_MISUSE);
    assert_int_equal(put(&f, 1, 1, 1), SDB_OK);
    commit(&f);
    fixture_close(&f);
}

static int number_all(void *ctx, const sdb_row *old, sdb_value *values)
{
    (void)old;
    for (int i = 0; i < 100; i++)
        values[i].type = SDB_INTEGER, values[i].u.i += *(int *)ctx + i;
    return SDB_OK;
}

static void test_wide(void **state)
{
    (void)state;
    fixture f;
    sdb_table *u;
    int step = 1;
    fixture_open(&f);
    sdb_table_def def = {.name = "wide", .n_columns = 100, .rowid_column = -1};
    assert_int_equal(sdb_txn_create_table(f.txn, &def, &u), SDB_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sdb_modify(f.txn, u, 1, number_all, &step), SDB_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(sdb_row_value(u, sdb_txn_get(f.txn, u, 1), i).u.i, 3 * (1 + i));
    fixture_close(&f);
}

/* ---------------------------------------------------------------- against a model */

enum { ROWS = 40, VIEWS = 4 };

typedef struct model {
    int64_t n[ROWS]; /* -1: not there */
    uint64_t revision[ROWS];
    uint64_t count;
} model;

static void assert_model(fixture *f, const model *m)
{
    assert_int_equal(sdb_txn_count(f->txn, f->t), m->count);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(n_of(f, i), m->n[i]);
        assert_int_equal(revision_of(f, i), m->revision[i]);
    }
}

static void assert_view(sdb_cursor *cur, const sdb_table *t, const model *m)
{
    uint64_t seen = 0;
    for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur)) {
        const sdb_row *row = sdb_cursor_row(cur);
        int64_t id = sdb_row_rowid(row);
        assert_int_equal(sdb_row_value(t, row, 1).u.i, m->n[id]);
        assert_int_equal(sdb_row_revision(row), m->revision[id]);
        seen++;
    }
    assert_int_equal(seen, m->count);
}

static void model_set(model *m, int id, int64_t n, uint64_t *revision)
{
    m->count += (n >= 0) - (m->n[id] >= 0);
    ++*revision;
    m->n[id] = n;
    m->revision[id] = n >= 0 ? *revision : SDB_ABSENT;
}

static void model_step(fixture *f, model *m, uint64_t *revision)
{
    int id = (int)rnd(ROWS);
    bool is_right = rnd(3);
    uint64_t expected = is_right ? m->revision[id] : m->revision[id] + 1 - 2 * rnd(2);
    int want = is_right       ? SDB_OK
               : m->n[id] < 0 ? (expected == SDB_ABSENT ? SDB_OK : SDB_DONE)
                              : SDB_CHANGED;
    switch (rnd(8)) {
    case 0:
    case 1:
    case 2:
        assert_int_equal(put_if(f, id, 1000 + id, -1, expected), want);
        if (want == SDB_OK)
            model_set(m, id, 1000 + id, revision);
        break;
    case 3:
    case 4:
        want = want == SDB_OK && m->n[id] < 0 ? SDB_DONE : want;
        assert_int_equal(sdb_delete_if(f->txn, f->t, id, expected), want);
        if (want == SDB_OK)
            model_set(m, id, -1, revision);
        break;
    case 5:
    case 6:
        assert_int_equal(sdb_modify(f->txn, f->t, id, add_one, NULL), SDB_OK);
        model_set(m, id, m->n[id] < 0 ? 0 : m->n[id] + 1, revision);
        break;
    default:
        if (rnd(6))
            break;
        assert_int_equal(sdb_delete_all(f->txn, f->t), SDB_OK);
        for (int i = 0; i < ROWS; i++)
            if (m->n[i] >= 0)
                model_set(m, i, -1, revision);
        break;
    }
}

/* Random changes, among savepoints, aborts, and cursors that go on seeing what they saw. */
static void test_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        fixture f;
        sdb_cursor *cur[VIEWS];
        bool is_open[VIEWS] = {false};
        model now = {.count = 0}, seen[VIEWS], saved, committed;
        uint64_t revision = 0, saved_revision = 0, committed_revision = 0;
        int savepoint = -1;
        rng = seed * 0x9e3779b97f4a7c15u;
        memset(now.n, 0xff, sizeof now.n);
        committed = saved = now;
        fixture_open(&f);
        for (int i = 0; i < VIEWS; i++)
            assert_int_equal(sdb_cursor_new(f.db, &cur[i]), SDB_OK);
        for (int step = 0; step < 500; step++) {
            int i = (int)rnd(VIEWS);
            uint64_t what = rnd(30);
            if (what < 20) {
                model_step(&f, &now, &revision);
            } else if (what < 24 && is_open[i]) {
                sdb_cursor_close(cur[i]);
                is_open[i] = false;
            } else if (what < 24) {
                assert_int_equal(sdb_cursor_open_txn(cur[i], f.txn, f.t, (int)rnd(3)), SDB_OK);
                is_open[i] = true;
                seen[i] = now;
            } else if (what < 26 && savepoint < 0) {
                assert_int_equal(sdb_txn_savepoint(f.txn, &savepoint), SDB_OK);
                saved = now;
                saved_revision = revision;
            } else if (what < 27 && savepoint >= 0) {
                sdb_txn_rollback_to(f.txn, savepoint);
                now = saved;
                revision = saved_revision;
            } else if (what < 28 && savepoint >= 0) {
                sdb_txn_release(f.txn, savepoint);
                savepoint = -1;
            } else if (what == 28) {
                if (rnd(2)) {
                    commit(&f);
                    committed = now;
                    committed_revision = revision;
                } else {
                    sdb_txn_abort(f.txn);
                    now = committed;
                    revision = committed_revision;
                }
                savepoint = -1;
                begin(&f);
            }
            assert_model(&f, &now);
            for (int k = 0; k < VIEWS; k++)
                if (is_open[k])
                    assert_view(cur[k], f.t, &seen[k]);
            char *wrong = sdb_txn_check(f.txn);
            if (wrong)
                fail_msg("%s", wrong);
        }
        for (int i = 0; i < VIEWS; i++)
            sdb_cursor_free(cur[i]);
        fixture_close(&f);
    }
}

/* ---------------------------------------------------------------- delete all */

static void test_delete_all(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    fixture f;
    sdb_memory used;
    sdb_watch *w;
    fixture_open(&f);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK); /* of none */
    for (int i = 0; i < MANY; i++)
        assert_int_equal(put(&f, i * 7919, i % 10, i), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_watch_new(f.db, &w), SDB_OK);
    sdb_snapshot_take(f.snap);
    sdb_value four = integer(4), no = integer(100);
    assert_int_equal(sdb_watch_arm(w, f.snap, f.t, 1, &(sdb_range){.eq = &four, .n_eq = 1}),
                     SDB_OK);
    begin(&f);
    assert_int_equal(put(&f, 3, 3, MANY), SDB_OK);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK);
    assert_int_equal(sdb_txn_count(f.txn, f.t), 0);
    assert_false(sdb_watch_fired(w));
    commit(&f);
    assert_true(sdb_watch_fired(w));
    assert_int_equal(sdb_snapshot_count(f.snap, f.t), MANY);
    sdb_snapshot_drop(f.snap);
    assert_int_equal(table_revision(&f), MANY + 1 + MANY + 1);
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.live, 0);

    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_watch_arm(w, f.snap, f.t, 1, &(sdb_range){.eq = &no, .n_eq = 1}), SDB_OK);
    sdb_snapshot_drop(f.snap);
    begin(&f);
    assert_int_equal(put(&f, 1, 1, 1), SDB_OK);
    commit(&f);
    begin(&f);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK);
    commit(&f);
    assert_false(sdb_watch_fired(w)); /* of another key */
    sdb_watch_free(w);
    fixture_close(&f);
}

/* To a feed each row is a deletion, in order of revision. */
static void test_feed(void **state)
{
    (void)state;
    enum { MANY = 100 };
    fixture f;
    sdb_changes *changes;
    fixture_open(&f);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(put(&f, i, i, i), SDB_OK);
    commit(&f);
    begin(&f);
    assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "feed"), SDB_OK);
    assert_int_equal(put_if(&f, 1, 1, 1, MANY), SDB_CHANGED);
    assert_int_equal(sdb_txn_acknowledge(f.txn, f.t, "feed", MANY), SDB_OK);
    assert_int_equal(sdb_delete_all(f.txn, f.t), SDB_OK);
    commit(&f);
    assert_int_equal(sdb_changes_new(f.db, &changes), SDB_OK);
    sdb_snapshot_take(f.snap);
    assert_int_equal(sdb_changes_open(changes, f.snap, f.t, "feed"), SDB_OK);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(sdb_changes_next(changes), SDB_OK);
        const sdb_row *row = sdb_changes_row(changes);
        assert_true(sdb_row_is_deleted(row));
        assert_int_equal(sdb_row_rowid(row), i);
        assert_int_equal(sdb_row_revision(row), MANY + 1 + i);
    }
    assert_int_equal(sdb_changes_next(changes), SDB_DONE);
    sdb_changes_free(changes);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- no memory */

enum { STEPS = 5 };

static int step_run(fixture *f, int step)
{
    switch (step) {
    case 0:
        return put_if(f, 1, 100, 1, revision_of(f, 1));
    case 1:
        return sdb_modify(f->txn, f->t, 1, add_one, NULL);
    case 2:
        return sdb_delete_if(f->txn, f->t, 1, revision_of(f, 1));
    case 3:
        return put_if(f, 1, 3, 1, SDB_ABSENT);
    default:
        return sdb_delete_all(f->txn, f->t);
    }
}

/* The steps one after the other; in step `bad` the nth allocation fails, and then nothing of that
** step is there. Returns its result. */
static int script(fixture *f, sdb_cursor *cur, int bad, int64_t nth)
{
    static const int64_t n_after[] = {100, 101, -1, 3, -1};
    static const int more[] = {0, 0, -1, 1, -30};
    int rc = SDB_OK;
    begin(f);
    if (cur)
        assert_int_equal(sdb_cursor_open_txn(cur, f->txn, f->t, 0), SDB_OK);
    int64_t n = n_of(f, 1), count = (int64_t)sdb_txn_count(f->txn, f->t);
    for (int step = 0; step <= bad; step++) {
        sdb_mem_inject(step == bad ? nth : 0, false);
        rc = step_run(f, step);
        assert_int_equal(rc, sdb_mem_inject(0, false) ? SDB_NOMEM : SDB_OK);
        if (rc == SDB_OK) {
            n = n_after[step];
            count += more[step];
        }
        assert_int_equal(n_of(f, 1), n);
        assert_int_equal(sdb_txn_count(f->txn, f->t), count);
        char *wrong = sdb_txn_check(f->txn);
        if (wrong)
            fail_msg("%s", wrong);
    }
    if (cur)
        sdb_cursor_close(cur);
    sdb_txn_abort(f->txn);
    f->txn = NULL;
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    fixture f;
    sdb_cursor *cur;
    fixture_open(&f);
    assert_int_equal(sdb_cursor_new(f.db, &cur), SDB_OK);
    for (int i = 0; i < 30; i++)
        assert_int_equal(put(&f, i, i, i), SDB_OK);
    commit(&f);
    for (int held = 0; held < 4; held++) { /* a cursor; and then a feed */
        if (held == 2) {
            begin(&f);
            assert_int_equal(sdb_txn_create_feed(f.txn, f.t, "feed"), SDB_OK);
            commit(&f);
        }
        for (int bad = 0; bad < STEPS; bad++) {
            int64_t nth = 1;
            while (script(&f, held % 2 ? cur : NULL, bad, nth) != SDB_OK)
                nth++;
            assert_true(nth > (bad == STEPS - 1 ? 30 : 1)); /* delete_all asks before each row */
        }
    }
    sdb_cursor_free(cur);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_if),       cmocka_unit_test(test_unchanged),
        cmocka_unit_test(test_two_writers),  cmocka_unit_test(test_threads),
        cmocka_unit_test(test_modify),       cmocka_unit_test(test_reentrant),
        cmocka_unit_test(test_table_undone), cmocka_unit_test(test_wide),
        cmocka_unit_test(test_model),        cmocka_unit_test(test_delete_all),
        cmocka_unit_test(test_feed),         cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
