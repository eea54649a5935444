/* fuzz_store.c - bytes as a script of two transactions over two tables, with savepoints, snapshots,
** cursors, indexes and tables that come and go, and calls that get no memory, against a model that
** is plain arrays. */
#include "fuzz.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

enum { ROWS = 12, TABLES = 2, ACTORS = 2, VIEWS = 3, LEVELS = 3, OWN = 8, STEPS = 200 };

/* ---------------------------------------------------------------- rows and indexes */

/* x: 0 is NULL, 1..5 numbers, 6..7 blobs. y: 0 is NULL, else a text; y and y ^ 1 differ in case. */
typedef struct content {
    bool is_there;
    int8_t x, y;
} content;

static const char *text_of(int y)
{
    static char text[16][17002];
    if (!text[y][0])
        memset(text[y], (y & 1 ? 'a' : 'A') + y / 2, y / 2 == 3 ? 17001 : 1 + (size_t)y / 2);
    return text[y];
}

static sdb_value value_x(int x)
{
    if (x > 5)
        return (sdb_value){.type = SDB_BLOB, .n = (uint32_t)x, .u.p = "\0\0\0\0\0\0\0"};
    if (x % 2 == 1)
        return (sdb_value){.type = SDB_INTEGER, .u.i = x};
    return x ? (sdb_value){.type = SDB_REAL, .u.r = x} : (sdb_value){.type = SDB_NULL};
}

static sdb_value value_y(int y)
{
    return y ? (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(text_of(y)), .u.p = text_of(y)}
             : (sdb_value){.type = SDB_NULL};
}

/* Four indexes that a table may have, in any order; BY_ID is index 0. */
typedef enum { BY_ID, BY_X_Y, BY_Y_NOCASE, BY_Y, BY_X, KINDS } kind;

static const sdb_part PARTS[KINDS][2] = {[BY_X_Y] = {{1, SDB_BINARY, true}, {2, SDB_BINARY, false}},
                                         [BY_Y_NOCASE] = {{2, SDB_NOCASE, false}},
                                         [BY_Y] = {{2, SDB_BINARY, true}},
                                         [BY_X] = {{1, SDB_BINARY, false}}};
static const sdb_index_def DEFS[KINDS] = {
    [BY_X_Y] = {.name = "xy", .n_parts = 2, .parts = PARTS[BY_X_Y]},
    [BY_Y_NOCASE] = {.name = "yn", .unique = true, .n_parts = 1, .parts = PARTS[BY_Y_NOCASE]},
    [BY_Y] = {.name = "y", .n_parts = 1, .parts = PARTS[BY_Y]},
    [BY_X] = {.name = "x", .unique = true, .n_parts = 1, .parts = PARTS[BY_X]}};

/* Where the first column's value stands among all values of it, NULL at 0. */
static int rank_first(kind k, const content *c, int id)
{
    if (k == BY_ID)
        return id;
    if (k == BY_X_Y || k == BY_X)
        return c->x;
    return !c->y ? 0 : k == BY_Y_NOCASE ? 1 + c->y / 2 : 1 + (c->y & 1) * 8 + c->y / 2;
}

static int compare(kind k, const content *a, int id_a, const content *b, int id_b)
{
    int c = rank_first(k, a, id_a) - rank_first(k, b, id_b);
    if (k == BY_X_Y || k == BY_Y)
        c = -c;
    if (c == 0 && k == BY_X_Y)
        c = rank_first(BY_Y, a, id_a) - rank_first(BY_Y, b, id_b);
    return c ? c : id_a - id_b;
}

/* ---------------------------------------------------------------- the model */

/* One table at one moment. */
typedef struct shot {
    sdb_table *t; /* NULL: it is not there */
    uint64_t commit;
    int n_kinds, n;
    kind kinds[KINDS];
    content row[ROWS];
} shot;

typedef struct model {
    shot at[TABLES];
} model;

typedef struct actor {
    sdb_txn *txn;
    model now;
    sdb_table *own[OWN]; /* what it has locked */
    int n_own, n_levels;
    model level[LEVELS];
    bool has_looked;
} actor;

/* A part of an index: the first column's value, from and to. */
typedef struct span {
    bool is_equal, has_lower, has_upper, lower_open, upper_open;
    content lo, hi;
    int lo_id, hi_id;
} span;

/* Something that goes on seeing a moment: two cursors on it, one of which walks slowly. */
typedef struct view {
    sdb_snapshot *snap;
    sdb_cursor *cur, *walk;
    bool is_open;
    shot shot;
    int index, place;
    span span;
} view;

static sdb_db *db;
static model committed;
static uint64_t commits;
static actor actors[ACTORS];
static view views[VIEWS];
static bool is_faulty; /* an allocation of the next call may fail */

static bool owns(const actor *a, const sdb_table *t)
{
    for (int i = 0; i < a->n_own; i++)
        if (t && a->own[i] == t)
            return true;
    return false;
}

/* Another row that a unique index does not allow beside this one, or -1. */
static int clash_of(const shot *s, int id, const content *c)
{
    for (int i = 1; i < s->n_kinds; i++) {
        kind k = s->kinds[i];
        for (int o = 0; DEFS[k].unique && rank_first(k, c, id) && o < ROWS; o++)
            if (o != id && s->row[o].is_there && rank_first(k, &s->row[o], o) == rank_first(k, c, id))
                return o;
    }
    return -1;
}

/* ---------------------------------------------------------------- checks */

static void check_row(const sdb_table *t, const sdb_row *row, int id, const content *c)
{
    sdb_value want[2] = {value_x(c->x), value_y(c->y)};
    CHECK(sdb_row_rowid(row) == id);
    CHECK(sdb_row_value(t, row, 0).u.i == id);
    for (int i = 0; i < 2; i++) {
        sdb_value got = sdb_row_value(t, row, i + 1);
        CHECK(got.type == want[i].type);
        if (got.type >= SDB_TEXT)
            CHECK(got.n == want[i].n && memcmp(got.u.p, want[i].u.p, got.n) == 0);
        else if (got.type != SDB_NULL)
            CHECK(got.u.i == want[i].u.i);
    }
}

static bool is_within(const span *p, kind k, const content *c, int id)
{
    int at = rank_first(k, c, id), lo = rank_first(k, &p->lo, p->lo_id),
        hi = rank_first(k, &p->hi, p->hi_id);
    if (p->is_equal)
        return at == lo;
    return !(p->has_lower && (at < lo || (p->lower_open && at == lo))) &&
           !(p->has_upper && (at > hi || (p->upper_open && at == hi)));
}

static sdb_value value_first(kind k, const content *c, int id)
{
    return k == BY_ID                  ? (sdb_value){.type = SDB_INTEGER, .u.i = id}
           : k == BY_X_Y || k == BY_X ? value_x(c->x)
                                       : value_y(c->y);
}

/* The rows of a span, in order. */
static int rows_of(const shot *s, kind k, const span *p, int *id)
{
    int n = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!s->row[i].is_there || !is_within(p, k, &s->row[i], i))
            continue;
        int at = n++;
        for (; at > 0 && compare(k, &s->row[i], i, &s->row[id[at - 1]], id[at - 1]) < 0; at--)
            id[at] = id[at - 1];
        id[at] = i;
    }
    return n;
}

static void check_span(sdb_cursor *cur, const shot *s, int index, const span *p)
{
    kind k = s->kinds[index];
    int id[ROWS], n = rows_of(s, k, p, id);
    sdb_value lo = value_first(k, &p->lo, p->lo_id), hi = value_first(k, &p->hi, p->hi_id);
    for (int reverse = 0; reverse < 2; reverse++) {
        sdb_range r = {.eq = &lo, .n_eq = p->is_equal, .reverse = reverse};
        uint64_t count;
        int i = 0;
        if (!p->is_equal)
            r.lower = p->has_lower ? &lo : NULL, r.upper = p->has_upper ? &hi : NULL;
        r.lower_open = p->lower_open;
        r.upper_open = p->upper_open;
        CHECK(sdb_cursor_count(cur, &r, &count) == SDB_OK && count == (uint64_t)n);
        for (int rc = sdb_cursor_seek(cur, &r); rc == SDB_OK; rc = sdb_cursor_next(cur), i++) {
            CHECK(i < n);
            int want = id[reverse ? n - 1 - i : i];
            check_row(s->t, sdb_cursor_row(cur), want, &s->row[want]);
        }
        CHECK(i == n);
    }
}

static void check_view(view *v)
{
    int id[ROWS], n = rows_of(&v->shot, v->shot.kinds[v->index], &(span){0}, id);
    check_span(v->cur, &v->shot, v->index, &(span){0});
    check_span(v->cur, &v->shot, v->index, &v->span);
    int rc = v->place ? sdb_cursor_next(v->walk) : sdb_cursor_seek(v->walk, &(sdb_range){0});
    CHECK(rc == (v->place < n ? SDB_OK : SDB_DONE));
    if (v->place < n)
        check_row(v->shot.t, sdb_cursor_row(v->walk), id[v->place], &v->shot.row[id[v->place]]);
    v->place = v->place < n ? v->place + 1 : 0;
}

static void check_sound(char *wrong)
{
    if (wrong)
        fprintf(stderr, "%s\n", wrong);
    CHECK(!wrong);
}

static void check_all(void)
{
    for (int i = 0; i < ACTORS; i++) {
        const actor *a = &actors[i];
        if (a->txn)
            check_sound(sdb_txn_check(a->txn));
        for (int k = 0; a->txn && a->has_looked && k < TABLES; k++) {
            const shot *s = &a->now.at[k];
            CHECK(sdb_txn_table(a->txn, k ? "t1" : "t0") == s->t);
            for (int id = 0; s->t && id < ROWS; id++) {
                const sdb_row *row = sdb_txn_get(a->txn, s->t, id);
                CHECK(!row == !s->row[id].is_there);
                if (row)
                    check_row(s->t, row, id, &s->row[id]);
            }
            CHECK(!s->t || sdb_txn_count(a->txn, s->t) == (uint64_t)s->n);
            CHECK(!s->t || sdb_txn_indexes(a->txn, s->t) == s->n_kinds - 1);
        }
    }
    check_sound(sdb_check(db));
    for (int i = 0; i < VIEWS; i++)
        if (views[i].is_open)
            check_view(&views[i]);
}

/* ---------------------------------------------------------------- steps */

static content input_content(input *in)
{
    uint8_t b = input_byte(in);
    return (content){true, b & 7, b >> 3 & 15};
}

/* The call had what it wanted, or no memory; and then it has changed nothing. */
static bool is_done(int rc, int want)
{
    CHECK(rc == want || (is_faulty && rc == SDB_NOMEM));
    return rc == SDB_OK;
}

static void fault_begin(uint8_t n)
{
    is_faulty = n > 0;
    sdb_mem_inject(n, false);
}

static void fault_end(void)
{
    is_faulty = false;
    sdb_mem_inject(0, false);
}

static void rebase(actor *a)
{
    for (int k = 0; k < TABLES; k++) {
        shot *s = &a->now.at[k];
        if (!owns(a, s->t) && (s->t || !owns(a, committed.at[k].t)))
            *s = committed.at[k];
    }
}

/* Lock a table; whether it can be written now. */
static bool actor_lock(actor *a, int k, uint8_t fault)
{
    const actor *other = &actors[a == actors];
    shot *s = &a->now.at[k];
    if (!s->t || a->n_own == OWN)
        return false;
    if (owns(a, s->t)) {
        CHECK(sdb_txn_lock(a->txn, s->t) == SDB_OK);
        return true;
    }
    int want = SDB_OK;
    if (other->txn && owns(other, s->t))
        want = SDB_BUSY;
    else if (s->t != committed.at[k].t)
        want = SDB_STALE;
    else if (s->commit != committed.at[k].commit)
        want = a->has_looked || a->n_levels ? SDB_STALE : SDB_OK;
    else
        fault_begin(fault); /* elsewhere it may have got a new snapshot and no lock */
    sdb_table *t = s->t;
    bool is_old = s->commit != committed.at[k].commit;
    bool done = is_done(sdb_txn_lock(a->txn, t), want);
    fault_end();
    if (done && is_old)
        rebase(a);
    if (done)
        a->own[a->n_own++] = t;
    return done;
}

static void step_begin(actor *a)
{
    if (!is_done(sdb_txn_begin(db, &a->txn), SDB_OK))
        return;
    a->now = committed;
    a->n_own = a->n_levels = 0;
    a->has_looked = false;
}

static void step_put(actor *a, shot *s, input *in, bool is_replace)
{
    int id = input_byte(in) % ROWS;
    content c = input_content(in);
    sdb_value v[3] = {{.type = SDB_INTEGER, .u.i = id}, value_x(c.x), value_y(c.y)};
    int clash = clash_of(s, id, &c);
    if (is_replace) { /* delete what is in the way while the row is staged */
        fault_end();
        CHECK(sdb_stage(a->txn, s->t, id, v) == SDB_OK);
        const sdb_row *old = sdb_txn_get(a->txn, s->t, id);
        for (int i = 1; i < s->n_kinds; i++) {
            const sdb_row *other = sdb_stage_clash(a->txn, i, old);
            if (!other)
                continue;
            int64_t gone = sdb_row_rowid(other);
            CHECK(gone != id && s->row[gone].is_there);
            CHECK(sdb_delete(a->txn, s->t, other) == SDB_OK);
            s->row[gone].is_there = false;
            s->n--;
        }
        CHECK(clash_of(s, id, &c) < 0);
        CHECK(sdb_stage_put(a->txn, old) == SDB_OK);
    } else if (!is_done(sdb_put(a->txn, s->t, id, v), clash < 0 ? SDB_OK : SDB_EXISTS)) {
        return;
    }
    s->n += !s->row[id].is_there;
    s->row[id] = c;
}

static void step_delete(actor *a, shot *s, input *in)
{
    int id = input_byte(in) % ROWS;
    const sdb_row *row = sdb_txn_get(a->txn, s->t, id);
    CHECK(!row == !s->row[id].is_there);
    if (row && is_done(sdb_delete(a->txn, s->t, row), SDB_OK)) {
        s->row[id].is_there = false;
        s->n--;
    }
}

static void step_index(actor *a, shot *s, input *in)
{
    kind k = 1 + input_byte(in) % (KINDS - 1);
    int at = 1;
    while (at < s->n_kinds && s->kinds[at] != k)
        at++;
    CHECK(sdb_txn_find_index(a->txn, s->t, DEFS[k].name) == (at < s->n_kinds ? at : 0));
    if (at < s->n_kinds) {
        if (is_done(sdb_txn_drop_index(a->txn, s->t, at), SDB_OK))
            memmove(s->kinds + at, s->kinds + at + 1, (size_t)(--s->n_kinds - at) * sizeof(kind));
        return;
    }
    shot with = *s;
    with.kinds[with.n_kinds++] = k;
    bool has_twins = false;
    for (int i = 0; i < ROWS; i++)
        has_twins |= s->row[i].is_there && clash_of(&with, i, &s->row[i]) >= 0;
    if (is_done(sdb_txn_create_index(a->txn, s->t, &DEFS[k]), has_twins ? SDB_DUPLICATE : SDB_OK))
        *s = with;
}

/* Create the table, or drop it. */
static void step_table(actor *a, int k)
{
    sdb_table_def def = {.name = k ? "t1" : "t0", .n_columns = 3, .rowid_column = k ? -1 : 0,
                         .n_indexes = 2, .indexes = DEFS + BY_X_Y}; /* and BY_Y_NOCASE */
    shot *s = &a->now.at[k];
    sdb_table *t;
    if (s->t) {
        CHECK(sdb_txn_create_table(a->txn, &def, &t) != SDB_OK);
        if (owns(a, s->t) && is_done(sdb_txn_drop_table(a->txn, s->t), SDB_OK))
            *s = (shot){0};
        return;
    }
    if (a->n_own == OWN)
        return;
    const actor *other = &actors[a == actors];
    const sdb_table *theirs = other->txn ? other->now.at[k].t : NULL;
    int rc = sdb_txn_create_table(a->txn, &def, &t);
    bool is_hidden = committed.at[k].t && !owns(a, committed.at[k].t);
    if (rc == SDB_BUSY) /* they make it, or have made it and rolled back, or write one not seen here */
        CHECK(other->n_own > 0);
    else if (rc == SDB_STALE)
        CHECK(is_hidden);
    else if (is_done(rc, SDB_OK)) {
        CHECK(!is_hidden && !(theirs && owns(other, theirs)));
        *s = (shot){.t = t, .n_kinds = 3, .kinds = {BY_ID, BY_X_Y, BY_Y_NOCASE}};
        a->own[a->n_own++] = t;
    }
}

static void step_savepoint(actor *a, uint8_t what)
{
    int at;
    if (what % 4 < 2 && a->n_levels < LEVELS) {
        if (is_done(sdb_txn_savepoint(a->txn, &at), SDB_OK)) {
            CHECK(at == a->n_levels);
            a->level[a->n_levels++] = a->now;
        }
        return;
    }
    if (!a->n_levels)
        return;
    at = what / 4 % a->n_levels;
    if (what % 4 == 2) {
        sdb_txn_rollback_to(a->txn, at);
        a->now = a->level[at];
        a->n_levels = at + 1;
    } else {
        sdb_txn_release(a->txn, at);
        a->n_levels = at;
    }
}

static void step_end(actor *a, uint8_t what)
{
    if (what % 4 == 0) {
        sdb_txn_abort(a->txn);
        a->txn = NULL;
    } else if (what % 4 == 1) {
        is_done(sdb_txn_prepare(a->txn), SDB_OK);
    } else if (is_done(sdb_txn_commit(a->txn), SDB_OK)) {
        commits++;
        for (int k = 0; k < TABLES; k++) {
            shot *s = &a->now.at[k];
            if (!owns(a, s->t) && (s->t || !owns(a, committed.at[k].t)))
                continue;
            s->commit = commits;
            committed.at[k] = *s;
        }
        a->txn = NULL;
    }
}

static void view_close(view *v)
{
    sdb_cursor_close(v->walk);
    sdb_cursor_close(v->cur);
    sdb_snapshot_drop(v->snap);
    v->is_open = false;
}

static void step_view(actor *a, int k, input *in)
{
    uint8_t what = input_byte(in);
    view *v = &views[what % VIEWS];
    if (v->is_open) {
        view_close(v);
        return;
    }
    bool on_txn = a->txn && what & 128;
    v->shot = on_txn ? a->now.at[k] : committed.at[k];
    if (!v->shot.t)
        return;
    v->index = (what >> 2) % v->shot.n_kinds;
    v->place = 0;
    uint8_t flags = input_byte(in);
    v->span = (span){flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, input_content(in),
                     input_content(in), input_byte(in) % 14 - 1, input_byte(in) % 14 - 1};
    if (on_txn) {
        a->has_looked = true;
        if (!is_done(sdb_cursor_open_txn(v->cur, a->txn, v->shot.t, v->index), SDB_OK))
            return;
        v->is_open = true;
        fault_end();
        CHECK(sdb_cursor_open_txn(v->walk, a->txn, v->shot.t, v->index) == SDB_OK);
        return;
    }
    sdb_snapshot_take(v->snap);
    CHECK(sdb_snapshot_table(v->snap, k ? "t1" : "t0") == v->shot.t);
    CHECK(sdb_snapshot_count(v->snap, v->shot.t) == (uint64_t)v->shot.n);
    CHECK(sdb_snapshot_indexes(v->snap, v->shot.t) == v->shot.n_kinds - 1);
    CHECK(sdb_cursor_open(v->cur, v->snap, v->shot.t, v->index) == SDB_OK);
    CHECK(sdb_cursor_open(v->walk, v->snap, v->shot.t, v->index) == SDB_OK);
    v->is_open = true;
}

/* One step: who and on which table; what; and what that wants. */
static void step(input *in)
{
    uint8_t who = input_byte(in), what = input_byte(in) % 16;
    actor *a = &actors[who & 1];
    int k = who >> 1 & 1;
    uint8_t fault = who & 128 ? who >> 2 & 31 : 0;
    shot *s = &a->now.at[k];
    if (what == 15) {
        fault_begin(fault);
        step_view(a, k, in);
    } else if (!a->txn) {
        fault_begin(fault);
        step_begin(a);
    } else if (what < 10) {
        if (!actor_lock(a, k, what == 9 ? fault : 0) || what == 9)
            return;
        fault_begin(fault);
        if (what < 5)
            step_put(a, s, in, what == 0);
        else if (what < 7)
            step_delete(a, s, in);
        else
            step_index(a, s, in);
        a->has_looked |= what < 7; /* where there was no memory, perhaps not */
        fault_end();
        CHECK(sdb_txn_count(a->txn, s->t) == (uint64_t)s->n);
        a->has_looked = true;
    } else {
        fault_begin(fault);
        if (what == 10)
            step_table(a, k);
        else if (what < 13)
            step_savepoint(a, input_byte(in));
        else
            step_end(a, input_byte(in));
    }
    fault_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    sdb_memory used;
    CHECK(sdb_open(&db) == SDB_OK);
    committed = (model){0};
    for (int i = 0; i < VIEWS; i++) {
        views[i] = (view){0};
        CHECK(sdb_snapshot_new(db, &views[i].snap) == SDB_OK);
        CHECK(sdb_cursor_new(db, &views[i].cur) == SDB_OK);
        CHECK(sdb_cursor_new(db, &views[i].walk) == SDB_OK);
    }
    for (int i = 0; i < STEPS && in.n; i++) {
        step(&in);
        check_all();
    }
    for (int i = 0; i < ACTORS; i++) {
        sdb_txn_abort(actors[i].txn);
        actors[i].txn = NULL;
    }
    for (int i = 0; i < VIEWS; i++)
        view_close(&views[i]);
    sdb_snapshot_take(views[0].snap); /* collects what had no memory to be collected with */
    sdb_snapshot_drop(views[0].snap);
    sdb_memory_used(db, &used);
    CHECK(used.retired == 0);
    for (int i = 0; i < VIEWS; i++) {
        sdb_cursor_free(views[i].walk);
        sdb_cursor_free(views[i].cur);
        sdb_snapshot_free(views[i].snap);
    }
    sdb_unref(db);
    CHECK(sdb_mem_blocks() == 0);
    return 0;
}
