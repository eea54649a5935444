/* store_check.h - for fuzz_store.c: reading a store in every way there is, and comparing with the model. */
#ifndef STATEDB_TEST_STORE_CHECK_H
#define STATEDB_TEST_STORE_CHECK_H

#include "store_model.h"

static void check_row(const sdb_table *t, const sdb_row *row, int id, const content *c)
{
    sdb_value want[4];
    values_of(c, id, want);
    CHECK(row && sdb_row_rowid(row) == id);
    CHECK(sdb_row_revision(row) == c->revision);
    for (int i = 0; i < 4; i++) {
        sdb_value got = sdb_row_value(t, row, i);
        CHECK(got.type == want[i].type);
        if (got.type >= SDB_TEXT)
            CHECK(got.n == want[i].n && memcmp(got.u.p, want[i].u.p, got.n) == 0);
        else if (got.type != SDB_NULL)
            CHECK(got.u.i == want[i].u.i);
    }
}

/* ---------------------------------------------------------------- cursors */

/* The cursor has been sought (rc): it goes through just these rows. Then over some of them at once. */
static void check_rows(sdb_cursor *cur, int rc, const shot *s, const int *id, int n)
{
    for (int i = 0; i < n; i++, rc = sdb_cursor_next(cur)) {
        CHECK(rc == SDB_OK);
        check_row(s->t, sdb_cursor_row(cur), id[i], &s->row[id[i]]);
    }
    CHECK(rc == SDB_DONE && !sdb_cursor_row(cur));
}

static void check_skip(sdb_cursor *cur, const sdb_range *r, const shot *s, const int *id, int n)
{
    for (int by = 0; by <= n; by += 1 + n / 3) {
        if (sdb_cursor_seek(cur, r) != SDB_OK)
            return;
        CHECK(sdb_cursor_skip(cur, (uint64_t)by) == (by < n ? SDB_OK : SDB_DONE));
        if (by < n)
            check_row(s->t, sdb_cursor_row(cur), id[by], &s->row[id[by]]);
    }
}

/* What the span means as a range; lo and hi are its values. */
static sdb_range range_of(const span *p, bool reverse, const sdb_value *lo, const sdb_value *hi)
{
    sdb_range r = {.eq = lo, .n_eq = p->is_equal, .reverse = reverse};
    if (!p->is_equal)
        r.lower = p->has_lower ? lo : NULL, r.upper = p->has_upper ? hi : NULL;
    r.lower_open = p->lower_open;
    r.upper_open = p->upper_open;
    return r;
}

/* k is what the cursor goes by; a prefix index has no bounds, and refuses what is no prefix. */
static void check_span(sdb_cursor *cur, const shot *s, kind k, const span *p)
{
    sdb_value lo = value_first(k, &p->lo, p->lo_id), hi = value_first(k, &p->hi, p->hi_id);
    for (int reverse = 0; reverse < 2; reverse++) {
        int id[ROWS], n = rows_of(s, k, p, reverse, id), rc;
        sdb_range r = range_of(p, reverse, &lo, &hi);
        uint64_t count;
        rc = sdb_cursor_count(cur, &r, &count);
        if (is_lpm(k) || (k == BY_BIT && !p->is_equal))
            CHECK(rc == SDB_MISUSE);
        else
            CHECK(rc == SDB_OK && count == (uint64_t)n);
        rc = sdb_cursor_seek(cur, &r);
        if (is_lpm(k) && (r.lower || r.upper))
            CHECK(rc == SDB_MISUSE);
        else if (is_lpm(k) && p->is_equal && p->lo.net == BAD_NET)
            CHECK(rc == SDB_NOTPREFIX);
        else {
            check_rows(cur, rc, s, id, n);
            check_skip(cur, &r, s, id, n);
        }
    }
}

static void check_prefixes(sdb_cursor *cur, const shot *s, int wanted)
{
    sdb_value v = value_net(wanted);
    for (int op = SDB_EXACT; op <= SDB_WITHIN; op++) {
        for (int reverse = 0; reverse < 2; reverse++) {
            int id[ROWS], n = rows_of_prefix(s, op, wanted, reverse, id);
            int rc = sdb_cursor_seek_prefix(cur, op, &v, reverse);
            if (wanted == BAD_NET)
                CHECK(rc == SDB_NOTPREFIX);
            else
                check_rows(cur, rc, s, id, n);
        }
    }
}

/* The cursor stands on any index of the version; with rows sorted for it, on none that the table has. */
static void check_sorted(sdb_cursor *cur, const shot *s, const span *p)
{
    static const kind SORTED[] = {BY_X_Y, BY_Y_NOCASE, BY_X_REVISION, BY_REVISION};
    kind k = SORTED[p->lo_id & 3];
    sdb_sorted *sorted;
    CHECK(sdb_sorted_new(cur, &DEFS[k], NULL, &sorted) == SDB_OK);
    CHECK(sdb_cursor_read(cur, sorted) == SDB_OK);
    check_span(cur, s, k, &(span){0});
    check_span(cur, s, k, p);
    sdb_cursor_close(cur);
    sdb_sorted_free(sorted);
}

/* ---------------------------------------------------------------- snapshots */

static void check_batch(const sdb_snapshot *snap, const shot *s)
{
    int64_t rowid[ROWS];
    const sdb_row *row[16];
    for (int i = 0; i < ROWS; i++)
        rowid[i] = ROWS - 1 - i;
    sdb_snapshot_get_many(snap, s->t, rowid, ROWS, row);
    for (int i = 0; i < ROWS; i++) {
        const content *c = &s->row[rowid[i]];
        CHECK(!row[i] == !c->is_there);
        if (row[i])
            check_row(s->t, row[i], (int)rowid[i], c);
    }
    for (int index = 1; index < s->n_kinds; index++) {
        kind k = s->kinds[index];
        int n = k == BY_X ? 8 : 16;
        sdb_value key[16];
        if (k != BY_X && k != BY_Y_NOCASE)
            continue;
        for (int i = 0; i < n; i++)
            key[i] = k == BY_X ? value_x(i) : value_y(i);
        CHECK(sdb_snapshot_find_many(snap, s->t, index, key, (size_t)n, row) == SDB_OK);
        for (int i = 0; i < n; i++) {
            content c = {.x = (int8_t)i, .y = (int8_t)i};
            int id = -1;
            for (int o = 0; i && o < ROWS; o++)
                if (s->row[o].is_there && rank_first(k, &s->row[o], o) == rank_first(k, &c, 0))
                    id = o;
            CHECK(!row[i] == (id < 0));
            if (row[i])
                check_row(s->t, row[i], id, &s->row[id]);
        }
    }
}

static const char *feed_name(int which)
{
    return which ? "f1" : "f0";
}

/* The next of the changes behind `since` (deletions: behind `dead`): the row of the smallest revision. */
static int change_next(const shot *s, uint64_t since, uint64_t dead, bool *is_dead)
{
    int id = -1;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < ROWS; i++) {
        const content *row = &s->row[i], *grave = &s->grave[i];
        if (row->is_there && row->revision > since && row->revision < best)
            best = row->revision, id = i, *is_dead = false;
        if (grave->is_there && grave->revision > since && grave->revision > dead &&
            grave->revision < best)
            best = grave->revision, id = i, *is_dead = true;
    }
    return id;
}

static void check_changes(const sdb_snapshot *snap, sdb_changes *changes, const shot *s, int which)
{
    const feed *f = &s->feed[which];
    uint64_t since = f->seen;
    bool is_dead = false;
    CHECK(sdb_changes_open(changes, snap, s->t, feed_name(which)) == (f->is_there ? SDB_OK : SDB_MISUSE));
    if (!f->is_there)
        return;
    for (int id; (id = change_next(s, since, f->born, &is_dead)) >= 0;) {
        const content *c = is_dead ? &s->grave[id] : &s->row[id];
        CHECK(sdb_changes_next(changes) == SDB_OK);
        const sdb_row *row = sdb_changes_row(changes);
        CHECK(sdb_row_is_deleted(row) == is_dead);
        check_row(s->t, row, id, c);
        since = c->revision;
    }
    CHECK(sdb_changes_next(changes) == SDB_DONE);
}

static void check_feeds(const sdb_snapshot *snap, sdb_changes *changes, const shot *s)
{
    int n = sdb_snapshot_feeds(snap, s->t);
    CHECK(n == s->feed[0].is_there + s->feed[1].is_there);
    for (int i = 0; i < n; i++) {
        sdb_feed_info info;
        uint64_t rows = 0, deletions = 0;
        sdb_snapshot_feed(snap, s->t, i, &info);
        const feed *f = &s->feed[strcmp(info.name, feed_name(0)) != 0];
        for (int id = 0; id < ROWS; id++) {
            rows += s->row[id].is_there && s->row[id].revision > f->seen;
            deletions += s->grave[id].is_there && s->grave[id].revision > feed_since(f);
        }
        CHECK(f->is_there && info.acknowledged == f->seen && info.revision == s->revision);
        CHECK(info.rows == rows && info.deletions == deletions);
    }
    for (int which = 0; which < FEEDS; which++)
        check_changes(snap, changes, s, which);
}

/* What differs between two moments of a table; either may be without it. */
static void check_diff(sdb_diff *diff, const sdb_snapshot *before, const sdb_snapshot *after,
                       const shot *a, const shot *b, sdb_table *t)
{
    CHECK(sdb_diff_open(diff, before, after, t) == SDB_OK);
    for (int id = 0; id < ROWS; id++) {
        const content *x = &a->row[id], *y = &b->row[id];
        bool was = a->t == t && x->is_there, is = b->t == t && y->is_there;
        if (was == is && (!is || x->revision == y->revision))
            continue;
        CHECK(sdb_diff_next(diff) == SDB_OK);
        CHECK(!sdb_diff_before(diff) == !was && !sdb_diff_after(diff) == !is);
        if (was)
            check_row(t, sdb_diff_before(diff), id, x);
        if (is)
            check_row(t, sdb_diff_after(diff), id, y);
    }
    CHECK(sdb_diff_next(diff) == SDB_DONE);
}

#endif
