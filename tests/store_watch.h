/* store_watch.h - for fuzz_store.c: watches, and whether a commit must fire them, or may. */
#ifndef STATEDB_TEST_STORE_WATCH_H
#define STATEDB_TEST_STORE_WATCH_H

#include "store_check.h"

/* What a transaction has written, whether that was rolled back or not: the rows as they were before and
** after each change. */
typedef struct touched {
    struct {
        const sdb_table *t;
        int id;
        content row;
    } at[256];
    int n;
    bool is_any; /* it has dropped something, or done more than there is room for */
} touched;

static void touch(touched *all, const sdb_table *t, int id, const content *row)
{
    if (all->n == sizeof all->at / sizeof *all->at) {
        all->is_any = true;
        return;
    }
    all->at[all->n].t = t;
    all->at[all->n].id = id;
    all->at[all->n++].row = *row;
}

typedef struct watcher {
    sdb_watch *w;
    bool is_armed; /* and has not fired */
    int table;
    const sdb_table *t;
    kind k;
    int made;           /* of its index */
    bool is_prefix;     /* armed for a search for a prefix, else for a span */
    sdb_prefix_op op;
    int net, longest;
    span span;
    int n, id[ROWS];    /* what was found when it was armed */
    uint64_t revision[ROWS];
    const touched *writer; /* who was writing the table then: that one's commit may fire it */
} watcher;

static int watch_rows(const watcher *w, const shot *s, int *id)
{
    return w->is_prefix ? rows_of_prefix(s, w->op, w->net, false, id)
                        : rows_of(s, w->k, &w->span, false, id);
}

/* Arm it for a snapshot that shows this; is_newest: and nothing has been committed since. */
static void watch_arm(watcher *w, const sdb_snapshot *snap, const shot *s, int index, bool is_newest,
                      bool is_faulty)
{
    sdb_value lo = value_first(w->k, &w->span.lo, w->span.lo_id),
              hi = value_first(w->k, &w->span.hi, w->span.hi_id), net = value_net(w->net);
    sdb_range r = range_of(&w->span, false, &lo, &hi);
    int want = SDB_OK;
    if (w->is_prefix ? !is_lpm(w->k) : is_lpm(w->k) && (r.lower || r.upper))
        want = SDB_MISUSE;
    else if (is_lpm(w->k) && (w->is_prefix ? w->net == BAD_NET
                                           : w->span.is_equal && w->span.lo.net == BAD_NET))
        want = SDB_NOTPREFIX;
    int rc = w->is_prefix ? sdb_watch_arm_prefix(w->w, snap, s->t, index, w->op, &net)
                          : sdb_watch_arm(w->w, snap, s->t, index, &r);
    CHECK(rc == want || (is_faulty && rc == SDB_NOMEM));
    w->is_armed = rc == SDB_OK && is_newest;
    CHECK(rc != SDB_OK || sdb_watch_fired(w->w) == !is_newest);
    w->t = s->t;
    w->made = s->made[index];
    w->longest = longest_of(s, w->net);
    w->n = watch_rows(w, s, w->id);
    for (int i = 0; i < w->n; i++)
        w->revision[i] = s->row[w->id[i]].revision;
}

static bool watch_must_fire(const watcher *w, const shot *now)
{
    int id[ROWS];
    int index = w->k == BY_ID ? 0 : index_of(now, w->k);
    if (now->t != w->t || now->made[index] != w->made || now->kinds[index] != w->k)
        return true;
    bool is_same = watch_rows(w, now, id) == w->n;
    for (int i = 0; i < w->n && is_same; i++)
        is_same = id[i] == w->id[i] && now->row[id[i]].revision == w->revision[i];
    return !is_same;
}

static bool watch_may_fire(const watcher *w, const touched *by)
{
    if (by->is_any || w->writer == by)
        return true;
    for (int i = 0; i < by->n; i++) {
        const content *row = &by->at[i].row;
        if (by->at[i].t != w->t)
            continue;
        if (!w->is_prefix ? is_within(&w->span, w->k, row, by->at[i].id)
            : w->op == SDB_LONGEST
                ? is_found(SDB_COVERS, row->net, w->net) && bits_of(row->net) >= w->longest
                : is_found(w->op, row->net, w->net))
            return true;
    }
    return false;
}

/* A transaction has ended. wrote: it had locked the watch's table, and committed; `now` is what there is
** since. */
static void watch_check(watcher *w, const touched *by, const shot *now, bool wrote)
{
    if (!w->is_armed)
        return;
    bool fired = sdb_watch_fired(w->w);
    CHECK(fired || !wrote || !watch_must_fire(w, now));
    CHECK(!fired || (wrote && (watch_must_fire(w, now) || watch_may_fire(w, by))));
    w->is_armed = !fired;
    if (w->writer == by)
        w->writer = NULL;
}

#endif
