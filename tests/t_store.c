/* t_store.c - stores, transactions, snapshots and cursors through the public interface, against a
** model that is a plain array; and every allocation made to fail. */
#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the table under test */

/* t(id = rowid, a, u, s); indexes: 1 (a, s DESC), 2 unique (u), 3 unique (s NOCASE, a) */
static const sdb_part BY_A[] = {{1, SDB_BINARY, false}, {3, SDB_BINARY, true}};
static const sdb_part BY_U[] = {{2, SDB_BINARY, false}};
static const sdb_part BY_S[] = {{3, SDB_NOCASE, false}, {1, SDB_BINARY, false}};
static const sdb_index_def INDEXES[] = {
    {.name = "by_a", .unique = false, .n_parts = 2, .parts = BY_A},
    {.name = "by_u", .unique = true, .n_parts = 1, .parts = BY_U},
    {.name = "by_s", .unique = true, .n_parts = 2, .parts = BY_S}};

static sdb_table_def def_of(const char *name)
{
    return (sdb_table_def){.name = name,
                           .sql = "a note",
                           .n_columns = 4,
                           .rowid_column = 0,
                           .n_indexes = 3,
                           .indexes = INDEXES};
}

enum { ROWS = 48 };

/* A row's content; a and u are NULL where negative. */
typedef struct content {
    bool is_there;
    int a, u, s;
} content;

typedef struct model {
    content row[ROWS];
    uint64_t n;
} model;

/* Text of several lengths, some longer than a page; case differs within one NOCASE class. */
static const char *text_of(int s)
{
    static char text[64][20100];
    if (!text[s][0]) {
        size_t len = s % 7 == 0 ? 20000 : (size_t)(s % 16);
        memset(text[s], s % 2 ? 'x' : 'X', len);
        snprintf(text[s] + len, 100, "%d", s / 2);
    }
    return text[s];
}

static void values_of(const content *c, sdb_value *v)
{
    v[0] = (sdb_value){.type = SDB_NULL};
    v[1] = c->a < 0   ? (sdb_value){.type = SDB_NULL}
           : c->a % 3 ? (sdb_value){.type = SDB_INTEGER, .u.i = c->a}
                      : (sdb_value){.type = SDB_REAL, .u.r = c->a};
    v[2] = c->u < 0 ? (sdb_value){.type = SDB_NULL}
                    : (sdb_value){.type = SDB_BLOB, .n = 4, .u.p = &c->u};
    const char *s = text_of(c->s);
    v[3] = (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static bool row_equals(const sdb_table *t, const sdb_row *row, int id, const content *c)
{
    sdb_value want[4];
    values_of(c, want);
    if (sdb_row_rowid(row) != id)
        return false;
    for (int i = 1; i < 4; i++) {
        sdb_value got = sdb_row_value(t, row, i);
        if (got.type != want[i].type)
            return false;
        if (got.type == SDB_INTEGER && got.u.i != want[i].u.i)
            return false;
        if (got.type == SDB_REAL && got.u.r != want[i].u.r)
            return false;
        if (got.type >= SDB_TEXT && (got.n != want[i].n || memcmp(got.u.p, want[i].u.p, got.n)))
            return false;
    }
    sdb_value id_value = sdb_row_value(t, row, 0);
    return id_value.type == SDB_INTEGER && id_value.u.i == id;
}

/* Another row that holds the unique key of this content, or -1. */
static int clash_of(const model *m, int id, const content *c)
{
    for (int i = 0; i < ROWS; i++) {
        const content *o = &m->row[i];
        if (i == id || !o->is_there)
            continue;
        if (c->u >= 0 && o->u == c->u)
            return i;
        const char *x = text_of(c->s), *y = text_of(o->s);
        bool same = strlen(x) == strlen(y);
        for (size_t k = 0; same && x[k]; k++)
            same = (x[k] | 32) == (y[k] | 32);
        if (same && c->a >= 0 && o->a == c->a)
            return i;
    }
    return -1;
}

static content content_random(void)
{
    return (content){true, (int)rnd(8) - 2, (int)rnd(64) - 24, (int)rnd(30)};
}

/* What an open cursor shows in both directions is the model's rows, each once, in index order. */
static void assert_cursor(sdb_cursor *cur, const sdb_table *t, const model *m)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        bool seen[ROWS] = {false};
        uint64_t n = 0, counted;
        sdb_range all = {.reverse = reverse};
        assert_int_equal(sdb_cursor_count(cur, &all, &counted), SDB_OK);
        assert_int_equal(counted, m->n);
        for (int rc = sdb_cursor_seek(cur, &all); rc == SDB_OK; rc = sdb_cursor_next(cur)) {
            const sdb_row *row = sdb_cursor_row(cur);
            int id = (int)sdb_row_rowid(row);
            assert_true(id >= 0 && id < ROWS && !seen[id] && m->row[id].is_there);
            assert_true(row_equals(t, row, id, &m->row[id]));
            seen[id] = true;
            n++;
        }
        assert_int_equal(n, m->n);
    }
}

/* ---------------------------------------------------------------- random life */

enum { VIEWS = 6, LEVELS = 4 };

/* Something that goes on seeing a moment: a cursor, on a snapshot or on the transaction. */
typedef struct view {
    sdb_snapshot *snap;
    sdb_cursor *cur;
    bool is_open;
    model model;
} view;

typedef struct life {
    sdb_db *db;
    sdb_table *table; /* counted */
    sdb_txn *txn;
    model now, committed;
    int n_levels;
    int level[LEVELS];
    model level_model[LEVELS];
    view view[VIEWS];
} life;

static void life_open(life *l)
{
    memset(l, 0, sizeof *l);
    assert_int_equal(sdb_open(&l->db), SDB_OK);
    assert_int_equal(sdb_txn_begin(l->db, &l->txn), SDB_OK);
    sdb_table_def def = def_of("t");
    sdb_table *t;
    assert_int_equal(sdb_txn_create_table(l->txn, &def, &t), SDB_OK);
    l->table = sdb_table_ref(t);
    assert_int_equal(sdb_txn_commit(l->txn), SDB_OK);
    l->txn = NULL;
    for (int i = 0; i < VIEWS; i++) {
        assert_int_equal(sdb_snapshot_new(l->db, &l->view[i].snap), SDB_OK);
        assert_int_equal(sdb_cursor_new(l->db, &l->view[i].cur), SDB_OK);
    }
}

static void view_close(view *v)
{
    sdb_cursor_close(v->cur);
    sdb_snapshot_drop(v->snap);
    v->is_open = false;
}

static void step_view(life *l)
{
    view *v = &l->view[rnd(VIEWS)];
    if (v->is_open) {
        view_close(v);
        return;
    }
    int index = (int)rnd(4);
    if (l->txn && rnd(2)) {
        assert_int_equal(sdb_cursor_open_txn(v->cur, l->txn, l->table, index), SDB_OK);
        v->model = l->now;
    } else {
        sdb_snapshot_take(v->snap);
        assert_int_equal(sdb_snapshot_count(v->snap, l->table), l->committed.n);
        assert_int_equal(sdb_cursor_open(v->cur, v->snap, l->table, index), SDB_OK);
        v->model = l->committed;
    }
    v->is_open = true;
}

static void step_savepoint(life *l)
{
    assert_int_equal(sdb_txn_savepoint(l->txn, &l->level[l->n_levels]), SDB_OK);
    assert_int_equal(l->level[l->n_levels], l->n_levels);
    l->level_model[l->n_levels++] = l->now;
}

/* What was found before a savepoint is good after it. */
static void put_in_steps(life *l, int id, const sdb_value *v, const sdb_row *row, bool has_clash)
{
    assert_int_equal(sdb_stage(l->txn, l->table, id, v), SDB_OK);
    for (int i = 0; i < 4 && rnd(2); i++)
        if (sdb_stage_clash(l->txn, i, row))
            assert_true(has_clash);
    if (rnd(2) && l->n_levels < LEVELS)
        step_savepoint(l);
    assert_int_equal(sdb_stage_put(l->txn, row), has_clash ? SDB_EXISTS : SDB_OK);
    sdb_stage_drop(l->txn);
}

static void step_write(life *l)
{
    int id = (int)rnd(ROWS);
    content *old = &l->now.row[id];
    const sdb_row *row = sdb_txn_get(l->txn, l->table, id);
    assert_int_equal(row != NULL, old->is_there);
    if (rnd(3) == 0) {
        if (!row)
            return;
        assert_int_equal(sdb_delete(l->txn, l->table, row), SDB_OK);
        old->is_there = false;
        l->now.n--;
        return;
    }
    content c = content_random();
    sdb_value v[4];
    values_of(&c, v);
    int clash = clash_of(&l->now, id, &c);
    if (clash >= 0 && rnd(2)) { /* as REPLACE: delete what is in the way while the row is staged */
        assert_int_equal(sdb_stage(l->txn, l->table, id, v), SDB_OK);
        for (int i = 1; i < 4; i++) {
            const sdb_row *other = sdb_stage_clash(l->txn, i, row);
            if (!other)
                continue;
            int gone = (int)sdb_row_rowid(other);
            assert_int_equal(sdb_delete(l->txn, l->table, other), SDB_OK);
            l->now.row[gone].is_there = false;
            l->now.n--;
        }
        assert_int_equal(sdb_stage_put(l->txn, row), SDB_OK);
        clash = -1;
    } else if (rnd(2)) {
        put_in_steps(l, id, v, row, clash >= 0);
    } else {
        assert_int_equal(sdb_put(l->txn, l->table, id, v), clash < 0 ? SDB_OK : SDB_EXISTS);
    }
    if (clash < 0) {
        l->now.n += !old->is_there;
        *old = c;
    }
    assert_int_equal(sdb_txn_count(l->txn, l->table), l->now.n);
}

static void step_txn(life *l)
{
    int what = (int)rnd(8);
    if (what < 3 && l->n_levels < LEVELS) {
        step_savepoint(l);
    } else if (what < 5 && l->n_levels) {
        int to = (int)rnd((uint64_t)l->n_levels);
        sdb_txn_rollback_to(l->txn, to);
        l->now = l->level_model[to];
        l->n_levels = to + 1;
    } else if (what < 6 && l->n_levels) {
        l->n_levels = (int)rnd((uint64_t)l->n_levels);
        sdb_txn_release(l->txn, l->n_levels);
    } else if (what == 6) {
        assert_int_equal(sdb_txn_commit(l->txn), SDB_OK);
        l->committed = l->now;
        l->txn = NULL;
    } else if (what == 7) {
        if (rnd(2))
            assert_int_equal(sdb_txn_prepare(l->txn), SDB_OK);
        sdb_txn_abort(l->txn);
        l->now = l->committed;
        l->txn = NULL;
    }
    if (!l->txn)
        l->n_levels = 0;
}

/* One more index comes and goes: "extra" on (s), and sometimes unique on (u), which may not be
** possible. */
static void step_index(life *l)
{
    int extra = sdb_txn_find_index(l->txn, l->table, "EXTRA");
    if (extra && rnd(2)) {
        assert_int_equal(sdb_txn_drop_index(l->txn, l->table, extra), SDB_OK);
        assert_int_equal(sdb_txn_find_index(l->txn, l->table, "extra"), 0);
        return;
    }
    static const sdb_part part = {3, SDB_RTRIM, true};
    sdb_index_def def = {.name = "extra", .unique = rnd(3) == 0, .n_parts = 1, .parts = &part};
    bool has_twins = false;
    for (int i = 0; i < ROWS; i++)
        for (int o = 0; o < i; o++)
            has_twins |= l->now.row[i].is_there && l->now.row[o].is_there &&
                         strcmp(text_of(l->now.row[i].s), text_of(l->now.row[o].s)) == 0;
    int rc = sdb_txn_create_index(l->txn, l->table, &def);
    assert_int_equal(rc, extra ? SDB_EXISTS : def.unique && has_twins ? SDB_DUPLICATE : SDB_OK);
    if (rc == SDB_OK && def.unique) /* it would forbid more than the model knows */
        assert_int_equal(sdb_txn_drop_index(l->txn, l->table, sdb_txn_indexes(l->txn, l->table)),
                         SDB_OK);
}

static void assert_sound(sdb_db *db, sdb_txn *txn)
{
    char *wrong = txn ? sdb_txn_check(txn) : sdb_check(db);
    if (wrong)
        fail_msg("%s", wrong);
}

static void life_check(life *l)
{
    assert_sound(l->db, l->txn);
    for (int i = 0; i < VIEWS; i++)
        if (l->view[i].is_open)
            assert_cursor(l->view[i].cur, l->table, &l->view[i].model);
}

static void life_close(life *l)
{
    sdb_memory used;
    sdb_txn_abort(l->txn);
    for (int i = 0; i < VIEWS; i++)
        view_close(&l->view[i]);
    /* Nobody looks any more: what is left is the newest version alone. */
    sdb_memory_used(l->db, &used);
    assert_int_equal(used.retired, 0);
    assert_int_equal(sdb_txn_begin(l->db, &l->txn), SDB_OK);
    for (int i = 0; i < ROWS; i++) {
        const sdb_row *row = sdb_txn_get(l->txn, l->table, i);
        if (row)
            assert_int_equal(sdb_delete(l->txn, l->table, row), SDB_OK);
    }
    assert_int_equal(sdb_txn_commit(l->txn), SDB_OK);
    sdb_memory_used(l->db, &used);
    assert_int_equal(used.live, 0);
    for (int i = 0; i < VIEWS; i++) {
        sdb_cursor_free(l->view[i].cur);
        sdb_snapshot_free(l->view[i].snap);
    }
    sdb_table_unref(l->table);
    sdb_unref(l->db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_life(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rng = seed * 0x9e3779b97f4a7c15u;
        static life l;
        life_open(&l);
        for (int step = 0; step < 600; step++) {
            if (!l.txn) {
                assert_int_equal(sdb_txn_begin(l.db, &l.txn), SDB_OK);
                l.now = l.committed;
            }
            uint64_t what = rnd(21);
            if (what < 13)
                step_write(&l);
            else if (what < 16)
                step_view(&l);
            else if (what < 17)
                step_index(&l);
            else
                step_txn(&l);
            if (step % 3 == 0)
                life_check(&l);
        }
        life_close(&l);
    }
}

/* ---------------------------------------------------------------- tables in transactions */

static void put_some(sdb_txn *txn, sdb_table *t, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        content c = {true, i, i, i % 30};
        sdb_value v[4];
        values_of(&c, v);
        assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
    }
}

static void test_tables(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t, *u;
    sdb_snapshot *snap;
    sdb_memory used;
    int sp;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
    sdb_table_def def = def_of("t"), other = def_of("u");

    /* a table created and rolled back, then created under the same name and committed */
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    put_some(txn, t, 0, 20);
    assert_int_equal(sdb_txn_create_table(txn, &def, &u), SDB_EXISTS);
    def.name = "T"; /* the case does not matter */
    assert_int_equal(sdb_txn_create_table(txn, &def, &u), SDB_EXISTS);
    def.name = "t";
    assert_ptr_equal(sdb_txn_table(txn, "T"), t);
    assert_ptr_equal(sdb_txn_next_table(txn, NULL), t);
    assert_null(sdb_txn_next_table(txn, t));
    assert_int_equal(sdb_txn_rename_table(txn, t, "T"), SDB_OK);
    assert_string_equal(sdb_txn_name(txn, t), "T");
    sdb_txn_rollback_to(txn, sp);
    assert_null(sdb_txn_table(txn, "t"));
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    put_some(txn, t, 0, 10);
    sdb_snapshot_take(snap);
    assert_null(sdb_snapshot_table(snap, "t"));
    sdb_snapshot_drop(snap);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_snapshot_take(snap);
    assert_ptr_equal(sdb_snapshot_table(snap, "t"), t);
    assert_int_equal(sdb_snapshot_count(snap, t), 10);
    assert_string_equal(sdb_table_sql(t), "a note");

    /* dropped while a snapshot is held: the snapshot goes on reading it */
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(txn, t), SDB_OK);
    assert_null(sdb_txn_table(txn, "t"));
    assert_int_equal(sdb_txn_drop_table(txn, t), SDB_MISUSE);
    assert_int_equal(sdb_txn_create_table(txn, &def, &u), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_snapshot_count(snap, t), 10);
    sdb_cursor *cur;
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_open(cur, snap, t, 1), SDB_OK);
    int n = 0;
    for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK; rc = sdb_cursor_next(cur))
        n++;
    assert_int_equal(n, 10);
    sdb_cursor_free(cur);
    sdb_snapshot_drop(snap); /* the old table goes with it */

    /* a drop undone, a rename, a lock held by another, a stale snapshot */
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    put_some(txn, u, 0, 5);
    assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
    assert_int_equal(sdb_txn_drop_table(txn, u), SDB_OK);
    sdb_txn_rollback_to(txn, sp);
    assert_ptr_equal(sdb_txn_table(txn, "t"), u);
    assert_int_equal(sdb_txn_count(txn, u), 5);
    assert_int_equal(sdb_txn_rename_table(txn, u, "v"), SDB_OK);
    assert_null(sdb_txn_table(txn, "t"));
    assert_ptr_equal(sdb_txn_table(txn, "v"), u);
    sdb_txn *second, *third;
    assert_int_equal(sdb_txn_begin(db, &second), SDB_OK);
    assert_ptr_equal(sdb_txn_table(second, "t"), u);
    assert_int_equal(sdb_txn_count(second, u), 0); /* it has looked: its snapshot stays */
    assert_int_equal(sdb_txn_lock(second, u), SDB_BUSY);
    sdb_table *w;
    assert_int_equal(sdb_txn_create_table(second, &other, &w), SDB_OK);
    assert_int_equal(sdb_txn_prepare(second), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &third), SDB_OK);
    assert_int_equal(sdb_txn_create_table(third, &other, &w), SDB_BUSY);
    sdb_table_def more = def_of("more"); /* the prepared root has to make room */
    assert_int_equal(sdb_txn_create_table(third, &more, &w), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_txn_lock(second, u), SDB_STALE);
    assert_int_equal(sdb_txn_commit(third), SDB_OK);
    assert_int_equal(sdb_txn_commit(second), SDB_OK);
    sdb_snapshot_take(snap);
    assert_non_null(sdb_snapshot_table(snap, "u"));
    assert_non_null(sdb_snapshot_table(snap, "v"));
    assert_non_null(sdb_snapshot_table(snap, "more"));
    sdb_snapshot_drop(snap);
    assert_sound(db, NULL);

    /* a cursor outlives the rollback and the commit that take its table away */
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
        put_some(txn, t, 0, 12);
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 2), SDB_OK);
        if (commit) {
            assert_int_equal(sdb_txn_drop_table(txn, t), SDB_OK);
            assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        } else {
            sdb_txn_abort(txn);
        }
        n = 0;
        for (int rc = sdb_cursor_seek(cur, &(sdb_range){0}); rc == SDB_OK;
             rc = sdb_cursor_next(cur))
            n++;
        assert_int_equal(n, 12);
        sdb_cursor_close(cur);
    }
    sdb_cursor_free(cur);
    sdb_memory_used(db, &used);
    assert_int_equal(used.retired, 0);
    sdb_snapshot_free(snap);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_misuse(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    static const sdb_part bad_part = {9, SDB_BINARY, false};
    static const sdb_part revision = {SDB_REVISION_COLUMN, SDB_BINARY, false};
    static const sdb_index_def bad[] = {
        {.name = "i", .unique = false, .n_parts = 1, .parts = &bad_part},
        {.name = "i", .unique = true, .n_parts = 1, .parts = &revision},
        {.name = "i", .unique = false, .n_parts = 1, .parts = &revision, .kind = SDB_LPM}};
    static const sdb_index_def twice[] = {
        {.name = "i", .unique = false, .n_parts = 1, .parts = BY_U},
        {.name = "I", .unique = false, .n_parts = 1, .parts = BY_U}};
    sdb_table_def def = def_of("t");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        def.n_indexes = 1, def.indexes = bad + i;
        assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_MISUSE);
    }
    def.n_indexes = 2, def.indexes = twice;
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_EXISTS);
    def = def_of("t");
    def.rowid_column = 4;
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_MISUSE);
    char *name = malloc(SDB_MAX_NAME + 2);
    memset(name, 'n', SDB_MAX_NAME + 1);
    name[SDB_MAX_NAME + 1] = 0;
    def = def_of(name);
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_TOOBIG);
    free(name);
    def = def_of("t");
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    put_some(txn, t, 0, 2);
    assert_int_equal(sdb_stage_put(txn, NULL), SDB_MISUSE);
    sdb_cursor *cur;
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){0}), SDB_MISUSE);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 4), SDB_MISUSE);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 1), SDB_OK);
    sdb_value v[4] = {{.type = SDB_NULL}};
    sdb_range range = {.eq = v, .n_eq = 3};
    assert_int_equal(sdb_cursor_seek(cur, &range), SDB_MISUSE);
    sdb_cursor_free(cur);
    sdb_txn_abort(txn);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- memory */

/* A transaction of many statements, each under a cursor or a savepoint of its own, keeps no
** garbage. */
static void test_long_transaction(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_cursor *cur;
    sdb_memory used;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    sdb_table_def def = def_of("t");
    def.n_indexes = 1;
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    int outer, inner;
    content c = {true, 1, 1, 5};
    sdb_value v[4];
    values_of(&c, v);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
    assert_int_equal(sdb_txn_savepoint(txn, &outer), SDB_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
    sdb_memory_used(db, &used);
    uint64_t once = used.live;
    for (int i = 0; i < 20000; i++) {
        if (i % 2) {
            assert_int_equal(sdb_cursor_open_txn(cur, txn, t, 0), SDB_OK);
            assert_int_equal(sdb_cursor_seek(cur, &(sdb_range){0}), SDB_OK);
        } else {
            assert_int_equal(sdb_txn_savepoint(txn, &inner), SDB_OK);
        }
        assert_int_equal(sdb_put(txn, t, i % 1000, v), SDB_OK);
        if (i % 2)
            sdb_cursor_close(cur);
        else if (i % 4)
            sdb_txn_rollback_to(txn, inner), sdb_txn_release(txn, inner);
        else
            sdb_txn_release(txn, inner);
    }
    sdb_memory_used(db, &used);
    assert_true(used.live < once + once / 4);
    sdb_txn_abort(txn);
    sdb_memory_used(db, &used);
    assert_int_equal(used.live, 0);
    sdb_cursor_free(cur);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* A snapshot held for ever keeps one version, not all that follow. */
static void test_long_reader(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_snapshot *old, *young;
    sdb_memory used;
    assert_int_equal(sdb_open(&db), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &old), SDB_OK);
    assert_int_equal(sdb_snapshot_new(db, &young), SDB_OK);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    sdb_table_def def = def_of("t");
    def.n_indexes = 1;
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    content c = {true, 1, 1, 5};
    sdb_value v[4];
    values_of(&c, v);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sdb_put(txn, t, i, v), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    uint64_t once = used.live;
    sdb_snapshot_take(old);
    rng = 3;
    for (int i = 0; i < 30000; i++) {
        if (i % 7 == 0)
            sdb_snapshot_drop(young), sdb_snapshot_take(young);
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        v[1].u.i = (int64_t)rnd(100);
        assert_int_equal(sdb_put(txn, t, (int64_t)rnd(1000), v), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    }
    sdb_snapshot_drop(young);
    sdb_memory_used(db, &used);
    uint64_t with_old = used.live;
    assert_int_equal(sdb_snapshot_count(old, t), 1000);
    sdb_snapshot_drop(old);
    sdb_memory_used(db, &used);
    assert_int_equal(used.retired, 0);
    assert_true(with_old <= once + used.live); /* two versions, of thirty thousand */
    assert_sound(db, NULL);
    sdb_snapshot_free(old);
    sdb_snapshot_free(young);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_limit(void **state)
{
    (void)state;
    sdb_db *db;
    sdb_txn *txn;
    sdb_table *t;
    sdb_memory used;
    assert_int_equal(sdb_open(&db), SDB_OK);
    sdb_set_limit(db, 4 << 20);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    sdb_table_def def = def_of("t");
    def.n_indexes = 1;
    assert_int_equal(sdb_txn_create_table(txn, &def, &t), SDB_OK);
    content c = {true, 1, 1, 5};
    sdb_value v[4];
    values_of(&c, v);
    int rc, n = 0;
    while ((rc = sdb_put(txn, t, n, v)) == SDB_OK)
        n++;
    assert_int_equal(rc, SDB_FULL);
    assert_true(n > 10000);
    assert_int_equal(sdb_txn_count(txn, t), n);
    assert_sound(db, txn);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK); /* what is in can be kept, */
    sdb_memory_used(db, &used);
    assert_true(used.live <= 4 << 20);
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    for (int i = 0; i < n; i++) /* and taken out */
        assert_int_equal(sdb_delete(txn, t, sdb_txn_get(txn, t, i)), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_int_equal(used.live, 0);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- no memory */

#define TRY(call)                                \
    do {                                         \
        rc = (call);                             \
        assert_true(rc >= 0 || rc == SDB_NOMEM); \
        if (rc < 0)                              \
            goto done;                           \
    } while (0)

/* A bit of everything, up to the first failure. Whatever fails, the store is sound, its content is
** that of before or after the whole transaction, and all memory comes back. */
static int script(void)
{
    sdb_db *db = NULL;
    sdb_txn *txn = NULL;
    sdb_table *t, *u;
    sdb_snapshot *snap = NULL;
    sdb_cursor *cur = NULL;
    uint64_t committed = 0;
    int rc, sp;
    sdb_table_def def = def_of("t"), def_u = def_of("u");
    TRY(sdb_open(&db));
    TRY(sdb_snapshot_new(db, &snap));
    TRY(sdb_cursor_new(db, &cur));
    for (int round = 0; round < 3; round++) {
        TRY(sdb_txn_begin(db, &txn));
        t = sdb_txn_table(txn, "t");
        if (!t)
            TRY(sdb_txn_create_table(txn, &def, &t));
        for (int i = 0; i < 12; i++) {
            content c = {true, i + round, i, (i + round) % 30};
            sdb_value v[4];
            values_of(&c, v);
            uint64_t n = sdb_txn_count(txn, t);
            bool is_new = !sdb_txn_get(txn, t, i);
            rc = sdb_put(txn, t, i, v);
            assert_int_equal(sdb_txn_count(txn, t), n + (rc == SDB_OK && is_new));
            TRY(rc);
        }
        TRY(sdb_cursor_open_txn(cur, txn, t, 1));
        TRY(sdb_cursor_seek(cur, &(sdb_range){0}));
        TRY(sdb_txn_savepoint(txn, &sp));
        TRY(sdb_txn_create_table(txn, &def_u, &u));
        for (int i = 0; i < 6; i++) {
            const sdb_row *row = sdb_txn_get(txn, t, i);
            TRY(sdb_delete(txn, t, row));
        }
        sdb_txn_rollback_to(txn, sp);
        sdb_index_def more = {.name = "more", .unique = false, .n_parts = 1, .parts = BY_U};
        TRY(sdb_txn_create_index(txn, t, &more));
        assert_int_equal(sdb_txn_indexes(txn, t), 4);
        sdb_txn_rollback_to(txn, sp);
        sdb_cursor_close(cur);
        TRY(sdb_txn_create_index(txn, t, &more));
        TRY(sdb_txn_drop_index(txn, t, sdb_txn_find_index(txn, t, "by_a")));
        TRY(sdb_txn_drop_index(txn, t, sdb_txn_find_index(txn, t, "More")));
        sdb_index_def again = {.name = "by_a", .unique = false, .n_parts = 2, .parts = BY_A};
        TRY(sdb_txn_create_index(txn, t, &again));
        TRY(sdb_txn_rename_table(txn, t, "x"));
        TRY(sdb_txn_rename_table(txn, t, "t"));
        sdb_snapshot_take(snap);
        TRY(sdb_txn_prepare(txn));
        committed = sdb_txn_count(txn, t);
        TRY(sdb_txn_commit(txn));
        txn = NULL;
        sdb_snapshot_drop(snap);
    }
    TRY(sdb_txn_begin(db, &txn));
    TRY(sdb_txn_drop_table(txn, sdb_txn_table(txn, "t")));
    TRY(sdb_txn_commit(txn));
    txn = NULL;
    committed = 0;
done:
    sdb_mem_inject(0, false);
    if (txn)
        assert_sound(db, txn);
    if (cur)
        sdb_cursor_close(cur);
    sdb_txn_abort(txn);
    if (db) {
        assert_sound(db, NULL);
        if (snap) {
            sdb_snapshot_drop(snap);
            sdb_snapshot_take(snap);
            t = sdb_snapshot_table(snap, "t");
            assert_int_equal(t ? sdb_snapshot_count(snap, t) : 0, committed);
            sdb_snapshot_drop(snap); /* collects what an earlier one had no memory to */
            sdb_memory used;
            sdb_memory_used(db, &used);
            assert_int_equal(used.retired, 0);
        }
    }
    sdb_cursor_free(cur);
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
            assert_true(n < 20000);
            sdb_mem_inject(n, persistent);
            if (script() != SDB_NOMEM)
                break;
        }
        assert_true(n > 100); /* it has failed at many places */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_long_transaction),
        cmocka_unit_test(test_long_reader),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
