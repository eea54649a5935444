/* fuzz_store.c - bytes as a script of two transactions over two tables, with all that a store can do:
** rows written in every way, indexes of every kind and tables that come, go and are renamed, savepoints,
** feeds, watches, snapshots with and without names, cursors that stay open, differences, a limit, and calls
** that get no memory; against a model that is plain arrays (store_model.h). */
#include "store_actor.h"

enum { VIEWS = 3, NAMED = 2, STEPS = 200 };

/* Something that goes on seeing a moment: two cursors on it, one of which walks slowly. */
typedef struct view {
    sdb_snapshot *snap; /* held, unless it is one of a transaction */
    sdb_cursor *cur, *walk;
    bool is_open;
    int table;
    model all; /* what the snapshot shows */
    shot shot;
    int index, place;
    span span;
} view;

static view views[VIEWS];
static model named[NAMED];
static bool is_named[NAMED];
static sdb_snapshot *extra;
static sdb_cursor *reader;
static sdb_changes *changes;
static sdb_diff *diff;

static const char *const SNAPSHOT[NAMED] = {"n0", "n1"};

/* ---------------------------------------------------------------- checks */

static void check_view(view *v)
{
    const shot *s = &v->shot;
    kind k = s->kinds[v->index];
    int id[ROWS], n = rows_of(s, k, &(span){0}, false, id);
    check_span(v->cur, s, k, &(span){0});
    check_span(v->cur, s, k, &v->span);
    if (is_lpm(k))
        check_prefixes(v->cur, s, v->span.lo.net);
    int rc = v->place ? sdb_cursor_next(v->walk) : sdb_cursor_seek(v->walk, &(sdb_range){0});
    CHECK(rc == (v->place < n ? SDB_OK : SDB_DONE));
    if (v->place < n)
        check_row(s->t, sdb_cursor_row(v->walk), id[v->place], &s->row[id[v->place]]);
    v->place = v->place < n ? v->place + 1 : 0;
    if (!sdb_snapshot_held(v->snap))
        return;
    check_batch(v->snap, s);
    check_feeds(v->snap, changes, s);
    if (v->place == 1) {
        CHECK(sdb_cursor_open(reader, v->snap, s->t, v->index) == SDB_OK);
        check_sorted(reader, s, &v->span);
    }
}

static void check_diffs(void)
{
    for (int i = 0; i < VIEWS; i++) {
        const view *a = &views[i], *b = &views[(i + 1) % VIEWS];
        if (!a->is_open || !b->is_open || !sdb_snapshot_held(a->snap) || !sdb_snapshot_held(b->snap))
            continue;
        const shot *x = &a->all.at[a->table], *y = &b->all.at[a->table];
        check_diff(diff, a->snap, b->snap, x, y, a->shot.t);
    }
}

static void check_sound(char *wrong)
{
    if (wrong)
        fprintf(stderr, "%s\n", wrong);
    CHECK(!wrong);
}

static void check_actor(const actor *a)
{
    check_sound(sdb_txn_check(a->txn));
    for (int k = 0; a->has_looked && k < TABLES; k++) {
        const shot *s = &a->now.at[k];
        CHECK(sdb_txn_table(a->txn, table_name(k, s->is_renamed)) == s->t);
        if (!s->t)
            continue;
        for (int id = 0; id < ROWS; id++) {
            const sdb_row *row = sdb_txn_get(a->txn, s->t, id);
            CHECK(!row == !s->row[id].is_there);
            if (row)
                check_row(s->t, row, id, &s->row[id]);
        }
        sdb_table_info info;
        CHECK(sdb_txn_count(a->txn, s->t) == (uint64_t)s->n);
        CHECK(sdb_txn_revision(a->txn, s->t) == s->revision);
        CHECK(sdb_txn_indexes(a->txn, s->t) == s->n_kinds - 1);
        CHECK(sdb_txn_table_info(a->txn, s->t, &info) == SDB_OK);
        CHECK(info.feeds == s->feed[0].is_there + s->feed[1].is_there);
        uint64_t graves = 0;
        for (int id = 0; id < ROWS; id++)
            graves += s->grave[id].is_there;
        CHECK(info.deletions == graves);
    }
}

static void check_all(void)
{
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].txn)
            check_actor(&actors[i]);
    check_sound(sdb_check(db));
    for (int i = 0; i < VIEWS; i++)
        if (views[i].is_open)
            check_view(&views[i]);
    check_diffs();
}

/* ---------------------------------------------------------------- readers */

static span input_span(input *in)
{
    uint8_t flags = input_byte(in);
    span p = {flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, input_content(in),
              input_content(in), input_byte(in) % 14 - 1, input_byte(in) % 14 - 1};
    p.lo.revision = (uint64_t)(p.lo_id + 1) * 3;
    p.hi.revision = (uint64_t)(p.hi_id + 1) * 4;
    return p;
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
    uint8_t what = input_byte(in), from = input_byte(in) % 4;
    view *v = &views[what % VIEWS];
    if (v->is_open) {
        view_close(v);
        return;
    }
    bool on_txn = a->txn && what & 128, on_named = !on_txn && from < NAMED && is_named[from];
    v->all = on_txn ? a->now : on_named ? named[from] : committed;
    v->table = k;
    v->shot = v->all.at[k];
    if (!v->shot.t)
        return;
    v->index = (what >> 2) % v->shot.n_kinds;
    v->place = 0;
    v->span = input_span(in);
    if (on_txn) {
        a->has_looked |= !owns(a, v->shot.t); /* where there was no memory, perhaps not */
        if (!is_done(sdb_cursor_open_txn(v->cur, a->txn, v->shot.t, v->index), SDB_OK))
            return;
        v->is_open = true;
        fault_end();
        CHECK(sdb_cursor_open_txn(v->walk, a->txn, v->shot.t, v->index) == SDB_OK);
        return;
    }
    if (on_named)
        CHECK(sdb_snapshot_load(v->snap, SNAPSHOT[from]) == SDB_OK);
    else
        sdb_snapshot_take(v->snap);
    CHECK(sdb_snapshot_table(v->snap, table_name(k, v->shot.is_renamed)) == v->shot.t);
    CHECK(sdb_snapshot_count(v->snap, v->shot.t) == (uint64_t)v->shot.n);
    CHECK(sdb_snapshot_revision(v->snap, v->shot.t) == v->shot.revision);
    CHECK(sdb_snapshot_indexes(v->snap, v->shot.t) == v->shot.n_kinds - 1);
    CHECK(sdb_cursor_open(v->cur, v->snap, v->shot.t, v->index) == SDB_OK);
    CHECK(sdb_cursor_open(v->walk, v->snap, v->shot.t, v->index) == SDB_OK);
    v->is_open = true;
}

/* Keep a snapshot by name, that of a view or the newest; or let one go. */
static void step_named(input *in)
{
    uint8_t what = input_byte(in);
    int i = what & 1;
    const view *v = &views[(what >> 2) % VIEWS];
    if (what & 2) {
        CHECK(sdb_snapshot_forget(db, SNAPSHOT[i]) == (is_named[i] ? SDB_OK : SDB_DONE));
        is_named[i] = false;
        return;
    }
    bool of_view = v->is_open && sdb_snapshot_held(v->snap);
    int rc = sdb_snapshot_save(db, SNAPSHOT[i], of_view ? v->snap : NULL);
    if (is_done(rc, is_named[i] ? SDB_EXISTS : SDB_OK)) {
        named[i] = of_view ? v->all : committed;
        is_named[i] = true;
    }
}

static void step_watch(int k, input *in)
{
    uint8_t what = input_byte(in), how = input_byte(in);
    watcher *w = &watchers[what % WATCHES];
    const view *v = &views[(what >> 2) % VIEWS];
    bool of_view = what & 64 && v->is_open && sdb_snapshot_held(v->snap);
    const shot *s = of_view ? &v->all.at[k] : &committed.at[k];
    if (what & 128) {
        sdb_watch_disarm(w->w);
        w->is_armed = false;
        return;
    }
    if (!s->t)
        return;
    w->is_prefix = how & 1;
    w->op = how >> 1 & 3;
    w->net = how >> 4;
    w->span = input_span(in);
    w->table = k;
    int index = input_byte(in) % s->n_kinds;
    w->k = s->kinds[index];
    w->writer = NULL;
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].txn && owns(&actors[i], s->t))
            w->writer = &actors[i].touched;
    if (!of_view)
        sdb_snapshot_take(extra);
    watch_arm(w, of_view ? v->snap : extra, s, index,
              s->t == committed.at[k].t && s->commit == committed.at[k].commit, is_faulty);
    sdb_snapshot_drop(extra);
}

/* ---------------------------------------------------------------- the script */

/* One step: who and on which table; what; and what that wants. */
static void step(input *in)
{
    uint8_t who = input_byte(in), what = input_byte(in) % 32;
    actor *a = &actors[who & 1];
    int k = who >> 1 & 1;
    uint8_t fault = who & 128 ? who >> 2 & 31 : 0;
    if (what >= 26) { /* readers */
        fault_begin(fault);
        if (what < 29)
            step_view(a, k, in);
        else if (what < 30)
            step_named(in);
        else
            step_watch(k, in);
    } else if (what == 25) {
        limit_set(input_byte(in));
    } else if (!a->txn) {
        fault_begin(fault);
        step_begin(a);
    } else if (what < 16) {
        if (!actor_lock(a, k, what == 15 ? fault : 0) || what == 15)
            return;
        fault_begin(fault);
        step_write(a, &a->now.at[k], what, in);
    } else {
        fault_begin(fault);
        if (what < 19)
            step_table(a, k, what == 18);
        else if (what < 22)
            step_savepoint(a, input_byte(in));
        else
            step_end(a, input_byte(in));
    }
    fault_end();
}

static void store_open(void)
{
    CHECK(sdb_open(&db) == SDB_OK);
    committed = (model){0};
    is_limited = false;
    for (int i = 0; i < VIEWS; i++) {
        views[i] = (view){0};
        CHECK(sdb_snapshot_new(db, &views[i].snap) == SDB_OK);
        CHECK(sdb_cursor_new(db, &views[i].cur) == SDB_OK);
        CHECK(sdb_cursor_new(db, &views[i].walk) == SDB_OK);
    }
    for (int i = 0; i < WATCHES; i++) {
        watchers[i] = (watcher){0};
        CHECK(sdb_watch_new(db, &watchers[i].w) == SDB_OK);
    }
    CHECK(sdb_snapshot_new(db, &extra) == SDB_OK);
    CHECK(sdb_cursor_new(db, &reader) == SDB_OK);
    CHECK(sdb_changes_new(db, &changes) == SDB_OK);
    CHECK(sdb_diff_new(db, &diff) == SDB_OK);
}

static void store_close(void)
{
    sdb_memory used;
    calm();
    for (int i = 0; i < ACTORS; i++) {
        sdb_txn_abort(actors[i].txn);
        actors[i].txn = NULL;
    }
    for (int i = 0; i < VIEWS; i++)
        view_close(&views[i]);
    for (int i = 0; i < NAMED; i++) {
        CHECK(sdb_snapshot_forget(db, SNAPSHOT[i]) == (is_named[i] ? SDB_OK : SDB_DONE));
        is_named[i] = false;
    }
    sdb_snapshot_take(extra); /* collects what had no memory to be collected with */
    sdb_snapshot_drop(extra);
    sdb_memory_used(db, &used);
    CHECK(used.retired == 0);
    for (int i = 0; i < VIEWS; i++) {
        sdb_cursor_free(views[i].walk);
        sdb_cursor_free(views[i].cur);
        sdb_snapshot_free(views[i].snap);
    }
    for (int i = 0; i < WATCHES; i++)
        sdb_watch_free(watchers[i].w);
    sdb_snapshot_free(extra);
    sdb_cursor_free(reader);
    sdb_changes_free(changes);
    sdb_diff_free(diff);
    sdb_unref(db);
    CHECK(sdb_mem_blocks() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    store_open();
    for (int i = 0; i < STEPS && in.n; i++) {
        step(&in);
        check_all();
    }
    store_close();
    return 0;
}
