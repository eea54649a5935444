/* store_actor.h - for fuzz_store.c: two transactions over two tables and all that they can do, also in calls
** that get no memory and under a limit. */
#ifndef STATEDB_TEST_STORE_ACTOR_H
#define STATEDB_TEST_STORE_ACTOR_H

#include "fuzz.h"
#include "store_watch.h"

#include "../core/mem.h"

enum { TABLES = 2, ACTORS = 2, LEVELS = 3, OWN = 8, WATCHES = 4 };

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
    touched touched;
} actor;

static sdb_db *db;
static model committed;
static uint64_t commits;
static int indexes_made;
static actor actors[ACTORS];
static watcher watchers[WATCHES];
static bool is_faulty;  /* an allocation of the next call may fail */
static bool is_limited; /* and memory may not suffice */

static const char *table_name(int k, bool is_renamed)
{
    static const char *const name[TABLES][2] = {{"t0", "r0"}, {"t1", "r1"}};
    return name[k][is_renamed];
}

static bool owns(const actor *a, const sdb_table *t)
{
    for (int i = 0; i < a->n_own; i++)
        if (t && a->own[i] == t)
            return true;
    return false;
}

static actor *other_of(const actor *a)
{
    return &actors[a == actors];
}

/* ---------------------------------------------------------------- faults */

/* The call had what it wanted, or no memory; and then it has changed nothing. */
static bool is_done(int rc, int want)
{
    bool is_allowed = rc == want || (is_faulty && rc == SDB_NOMEM) || (is_limited && rc == SDB_FULL);
    if (!is_allowed)
        fprintf(stderr, "%d, not %d\n", rc, want);
    CHECK(is_allowed);
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

static void limit_set(uint8_t what)
{
    sdb_stats stats;
    sdb_stats_read(db, &stats);
    is_limited = what > 0;
    sdb_set_limit(db, !is_limited ? 0 : what & 1 ? 1 : stats.memory.mapped + what * (uint64_t)1024);
}

/* What comes now has all the memory there is. */
static void calm(void)
{
    fault_end();
    limit_set(0);
}

/* ---------------------------------------------------------------- locks */

static content input_content(input *in)
{
    uint8_t b = input_byte(in), net = input_byte(in);
    return (content){.is_there = true, .x = b & 7, .y = b >> 3 & 15, .net = net % NETS};
}

static void rebase(actor *a)
{
    for (int level = 0; level <= a->n_levels; level++) {
        for (int k = 0; k < TABLES; k++) {
            shot *s = level < a->n_levels ? &a->level[level].at[k] : &a->now.at[k];
            if (!owns(a, s->t) && (s->t || !owns(a, committed.at[k].t)))
                *s = committed.at[k];
        }
    }
}

/* Its snapshot keeps a table that is there no more. */
static bool sees_dropped(const actor *a)
{
    bool sees = false;
    for (int k = 0; k < TABLES; k++)
        sees |= a->now.at[k].t && !owns(a, a->now.at[k].t) && a->now.at[k].t != committed.at[k].t;
    return sees;
}

/* Lock a table; whether it can be written now. */
static bool actor_lock(actor *a, int k, uint8_t fault)
{
    const actor *other = other_of(a);
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
        want = a->has_looked || sees_dropped(a) ? SDB_STALE : SDB_OK;
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
    a->touched.n = 0;
    a->touched.is_any = false;
}

/* ---------------------------------------------------------------- rows */

static void note_put(actor *a, shot *s, int id, const content *c)
{
    if (s->row[id].is_there)
        touch(&a->touched, s->t, id, &s->row[id]);
    touch(&a->touched, s->t, id, c);
    shot_put(s, id, c);
}

static void note_delete(actor *a, shot *s, int id)
{
    touch(&a->touched, s->t, id, &s->row[id]);
    shot_delete(s, id);
}

/* What putting this row says. */
static int put_result(const shot *s, int id, const content *c)
{
    return is_refused(s, c) ? SDB_NOTPREFIX : clash_of(s, id, c) < 0 ? SDB_OK : SDB_EXISTS;
}

/* Delete what is in the way while the row is staged. */
static void put_replacing(actor *a, shot *s, int id, const content *c)
{
    sdb_value v[4];
    calm();
    values_of(c, id, v);
    int rc = sdb_stage(a->txn, s->t, id, v);
    CHECK(rc == (is_refused(s, c) ? SDB_NOTPREFIX : SDB_OK));
    if (rc != SDB_OK)
        return;
    const sdb_row *old = sdb_txn_get(a->txn, s->t, id);
    for (int i = 1; i < s->n_kinds; i++) {
        const sdb_row *other = sdb_stage_clash(a->txn, i, old);
        if (!other)
            continue;
        int gone = (int)sdb_row_rowid(other);
        CHECK(gone != id && s->row[gone].is_there);
        CHECK(sdb_delete(a->txn, s->t, other) == SDB_OK);
        note_delete(a, s, gone);
    }
    CHECK(clash_of(s, id, c) < 0);
    CHECK(sdb_stage_put(a->txn, old) == SDB_OK);
    note_put(a, s, id, c);
}

/* Give a row another rowid, and other content: to a feed that is a deletion and a new row. */
static void put_moving(actor *a, shot *s, int id, const content *c, int from)
{
    sdb_value v[4];
    const sdb_row *old = sdb_txn_get(a->txn, s->t, from);
    CHECK(!old == !s->row[from].is_there);
    values_of(c, id, v);
    shot without = *s;
    without.row[from].is_there = false;
    int want = put_result(&without, id, c);
    if (want == SDB_OK && from != id && s->row[id].is_there)
        want = SDB_EXISTS;
    if (!old || !is_done(sdb_stage(a->txn, s->t, id, v), want == SDB_NOTPREFIX ? want : SDB_OK))
        return;
    if (!is_done(sdb_stage_put(a->txn, old), want))
        return;
    if (from != id) {
        touch(&a->touched, s->t, from, &s->row[from]);
        s->revision += has_feed(s);
        shot_bury(s, from);
    }
    note_put(a, s, id, c);
}

typedef struct change {
    const content *c;
    int id, rc;
} change;

static int modify(void *ctx, const sdb_row *old, sdb_value *values)
{
    const change *m = ctx;
    (void)old;
    values_of(m->c, m->id, values);
    return m->rc;
}

static void step_put(actor *a, shot *s, input *in, int how)
{
    int id = input_byte(in) % ROWS;
    content c = input_content(in);
    uint8_t more = input_byte(in);
    sdb_value v[4];
    values_of(&c, id, v);
    int want = put_result(s, id, &c), rc;
    const content *row = &s->row[id];
    switch (how) {
    case 0:
        put_replacing(a, s, id, &c);
        return;
    case 1:
        put_moving(a, s, id, &c, more % ROWS);
        return;
    case 2: { /* on condition */
        uint64_t revision = more % 3 == 0 ? SDB_ABSENT : row->revision + (more % 3 - 1);
        bool is_right = row->is_there ? revision == row->revision : revision == SDB_ABSENT;
        if (!row->is_there && revision != SDB_ABSENT)
            want = SDB_DONE;
        else if (!is_right)
            want = SDB_CHANGED;
        rc = sdb_put_if(a->txn, s->t, id, v, revision);
        break;
    }
    case 3: {
        change m = {&c, id, more % 4 ? SDB_OK : 77};
        rc = sdb_modify(a->txn, s->t, id, modify, &m);
        want = m.rc ? m.rc : want;
        break;
    }
    default:
        rc = sdb_put(a->txn, s->t, id, v);
    }
    if (is_done(rc, want))
        note_put(a, s, id, &c);
}

static void step_delete(actor *a, shot *s, input *in)
{
    uint8_t what = input_byte(in);
    int id = what % ROWS;
    content *row = &s->row[id];
    if (what > 250) {
        if (is_done(sdb_delete_all(a->txn, s->t), SDB_OK))
            for (id = 0; id < ROWS; id++)
                if (s->row[id].is_there)
                    note_delete(a, s, id);
        a->touched.is_any |= is_faulty || is_limited; /* what it did before it failed */
        return;
    }
    if (what > 200) {
        uint64_t revision = row->revision + (what & 1);
        int want = !row->is_there ? SDB_DONE : what & 1 ? SDB_CHANGED : SDB_OK;
        if (!row->is_there && revision == SDB_ABSENT)
            want = SDB_DONE;
        if (is_done(sdb_delete_if(a->txn, s->t, id, revision), want))
            note_delete(a, s, id);
        return;
    }
    const sdb_row *old = sdb_txn_get(a->txn, s->t, id);
    CHECK(!old == !row->is_there);
    if (old && is_done(sdb_delete(a->txn, s->t, old), SDB_OK))
        note_delete(a, s, id);
}

/* ---------------------------------------------------------------- definitions */

/* What building an index over the rows says: of the first row, by rowid, that it cannot take. */
static int build_result(const shot *s, kind k)
{
    shot with = {.n_kinds = 2, .kinds = {BY_ID, k}};
    for (int i = 0; i < ROWS; i++) {
        if (!s->row[i].is_there)
            continue;
        if (is_refused(&with, &s->row[i]))
            return SDB_NOTPREFIX;
        if (clash_of(&with, i, &s->row[i]) >= 0)
            return SDB_DUPLICATE;
        with.row[i] = s->row[i];
    }
    return SDB_OK;
}

static void step_index(actor *a, shot *s, input *in)
{
    kind k = 1 + input_byte(in) % (KINDS - 1);
    int at = index_of(s, k);
    CHECK(sdb_txn_find_index(a->txn, s->t, DEFS[k].name) == at);
    if (at) {
        if (!is_done(sdb_txn_drop_index(a->txn, s->t, at), SDB_OK))
            return;
        s->n_kinds--;
        memmove(s->kinds + at, s->kinds + at + 1, (size_t)(s->n_kinds - at) * sizeof *s->kinds);
        memmove(s->made + at, s->made + at + 1, (size_t)(s->n_kinds - at) * sizeof *s->made);
        a->touched.is_any = true;
        return;
    }
    if (is_done(sdb_txn_create_index(a->txn, s->t, &DEFS[k]), build_result(s, k))) {
        s->kinds[s->n_kinds] = k;
        s->made[s->n_kinds++] = ++indexes_made;
    }
}

static void step_feed(actor *a, shot *s, input *in)
{
    uint8_t what = input_byte(in);
    feed *f = &s->feed[what & 1];
    const char *name = feed_name(what & 1);
    uint64_t upto = (what >> 2) % 16 < 15 ? (what >> 2) % 16 * s->revision / 12 : UINT64_MAX;
    switch (what >> 1 & 3) {
    case 0:
        if (is_done(sdb_txn_create_feed(a->txn, s->t, name), f->is_there ? SDB_EXISTS : SDB_OK))
            *f = (feed){true, s->revision, 0};
        return;
    case 1:
        if (!is_done(sdb_txn_drop_feed(a->txn, s->t, name), f->is_there ? SDB_OK : SDB_DONE))
            return;
        f->is_there = false;
        break;
    default:
        if (!is_done(sdb_txn_acknowledge(a->txn, s->t, name, upto), f->is_there ? SDB_OK : SDB_DONE))
            return;
        upto = upto < s->revision ? upto : s->revision;
        f->seen = upto > f->seen ? upto : f->seen;
    }
    graves_sweep(s);
}

/* Create the table, rename it, or drop it. */
static void step_table(actor *a, int k, bool is_rename)
{
    shot *s = &a->now.at[k];
    sdb_table_def def = {.name = table_name(k, s->t && s->is_renamed), .n_columns = 4,
                         .rowid_column = k ? -1 : 0, .n_indexes = 2,
                         .indexes = DEFS + BY_X_Y}; /* and BY_Y_NOCASE */
    sdb_table *t;
    if (s->t) {
        CHECK(sdb_txn_create_table(a->txn, &def, &t) != SDB_OK);
        if (!owns(a, s->t))
            return;
        if (is_rename && !s->commit)
            return; /* a new table of the old name could come to be beside it */
        if (is_rename) {
            const char *name = table_name(k, !s->is_renamed);
            s->is_renamed ^= is_done(sdb_txn_rename_table(a->txn, s->t, name), SDB_OK);
        } else if (is_done(sdb_txn_drop_table(a->txn, s->t), SDB_OK)) {
            a->touched.is_any = true;
            *s = (shot){0};
        }
        return;
    }
    const actor *other = other_of(a);
    const sdb_table *theirs = other->txn ? other->now.at[k].t : NULL;
    bool is_hidden = committed.at[k].t && !owns(a, committed.at[k].t);
    if (a->n_own == OWN || (is_hidden && committed.at[k].is_renamed))
        return; /* the name is free, and there would be two */
    int rc = sdb_txn_create_table(a->txn, &def, &t);
    if (rc == SDB_BUSY) /* they make it, or have made it and rolled back, or write one not seen here */
        CHECK(other->n_own > 0);
    else if (rc == SDB_STALE)
        CHECK(is_hidden);
    else if (is_done(rc, SDB_OK)) {
        CHECK(!is_hidden && !(theirs && owns(other, theirs)));
        *s = (shot){.t = t, .n_kinds = 3, .kinds = {BY_ID, BY_X_Y, BY_Y_NOCASE}};
        for (int i = 0; i < 3; i++)
            s->made[i] = ++indexes_made;
        a->own[a->n_own++] = t;
    }
}

/* ---------------------------------------------------------------- savepoints and ends */

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
        CHECK(sdb_txn_rollback_to(a->txn, at) == SDB_OK);
        a->now = a->level[at];
        a->n_levels = at + 1;
    } else {
        CHECK(sdb_txn_release(a->txn, at) == SDB_OK);
        a->n_levels = at;
    }
}

static void watches_check(const actor *a, bool is_commit)
{
    for (int i = 0; i < WATCHES; i++) {
        watcher *w = &watchers[i];
        watch_check(w, &a->touched, &committed.at[w->table], is_commit && owns(a, w->t));
    }
}

static void step_end(actor *a, uint8_t what)
{
    if (what % 4 == 0) {
        sdb_txn_abort(a->txn);
        a->txn = NULL;
        watches_check(a, false);
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
        watches_check(a, true);
    }
}

/* A change of a table that the actor has locked. */
static void step_write(actor *a, shot *s, uint8_t what, input *in)
{
    if (what < 8)
        step_put(a, s, in, what);
    else if (what < 11)
        step_delete(a, s, in);
    else if (what < 13)
        step_index(a, s, in);
    else
        step_feed(a, s, in);
    fault_end();
    CHECK(sdb_txn_count(a->txn, s->t) == (uint64_t)s->n);
}

#endif
