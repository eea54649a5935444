/* feed.c - feeds: the trees they live on, and reading, acknowledging, making and dropping them (see
** feed.h and statedb.h). */
#include "feed.h"

#include "key.h"
#include "mem.h"
#include "txn.h"

#include <assert.h>

/* ---------------------------------------------------------------- leaves */

enum { REVISION_KEY = 8 };

static const uint8_t *revision_key(uint8_t *out, uint64_t revision)
{
    sdb_key_put_rowid(out, (int64_t)revision); /* both are 8 bytes in order */
    return out;
}

static size_t revision_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len,
                            int *byte)
{
    (void)ctx;
    return sdb_key_diff_rowid(key, len, 0, (int64_t)sdb_row_revision(leaf), byte);
}

static int revision_build(const void *ctx, const void *leaf, sdb_buf *out)
{
    (void)ctx;
    int rc = sdb_buf_reserve(out, REVISION_KEY);
    if (rc == SDB_OK) {
        revision_key(out->at + out->n, sdb_row_revision(leaf));
        out->n += REVISION_KEY;
    }
    return rc;
}

const sdb_leaves sdb_revision_leaves = {revision_diff, revision_build, NULL};

static int seek_behind(sdb_iter *it, uint64_t revision)
{
    uint8_t key[REVISION_KEY];
    return sdb_iter_seek(it, revision_key(key, revision + 1), sizeof key);
}

static const sdb_leaves *rowid_leaves(const sdb_version *v)
{
    return &v->set->at[SDB_BY_ROWID]->leaves;
}

/* ---------------------------------------------------------------- lists of feeds */

/* A list with room for n feeds whose names take so many bytes. */
static sdb_feeds *feeds_new(int n, size_t names)
{
    sdb_feeds *f = sdb_zalloc(sizeof *f + (size_t)n * sizeof *f->at + names);
    if (f)
        f->n_ref = 1;
    return f;
}

/* The feeds of a list but `without` (-1: all), with room for one more of that name. */
static sdb_feeds *feeds_copy(const sdb_feeds *from, int without, const char *more)
{
    int n = from ? from->n : 0;
    size_t names = more ? strlen(more) + 1 : 0;
    for (int i = 0; i < n; i++)
        names += strlen(from->at[i].name) + 1;
    sdb_feeds *f = feeds_new(n + 1, names);
    if (!f)
        return NULL;
    char *name = (char *)(f->at + n + 1);
    for (int i = 0; i <= n; i++) {
        const char *text = i < n ? from->at[i].name : more;
        if (i == without || !text)
            continue;
        f->at[f->n] = i < n ? from->at[i] : (sdb_feed){0};
        f->at[f->n++].name = name;
        memcpy(name, text, strlen(text) + 1);
        name += strlen(text) + 1;
    }
    return f;
}

static int feeds_find(const sdb_feeds *f, const char *name)
{
    for (int i = 0; f && i < f->n; i++)
        if (sdb_name_is(f->at[i].name, name))
            return i;
    return -1;
}

/* Deletions up to there are not for the feed. */
static uint64_t feed_mourned(const sdb_feed *f)
{
    return f->seen > f->born ? f->seen : f->born;
}

sdb_history sdb_history_ref(const sdb_history *h)
{
    if (h->feeds)
        atomic_fetch_add_explicit(&h->feeds->n_ref, 1, memory_order_relaxed);
    return *h;
}

static void feeds_unref(sdb_feeds *f)
{
    if (f && atomic_fetch_sub_explicit(&f->n_ref, 1, memory_order_acq_rel) == 1)
        sdb_free(f);
}

void sdb_history_unref(sdb_history *h)
{
    feeds_unref(h->feeds);
    h->feeds = NULL;
}

/* ---------------------------------------------------------------- changes of rows */

size_t sdb_history_need(const sdb_arena *a)
{
    return 6 * sdb_radix_need(a, REVISION_KEY); /* out and in, in three trees */
}

size_t sdb_history_need_links(const sdb_arena *a)
{
    return 6 * sdb_radix_need_links(a, REVISION_KEY) + 1; /* and a grave taken away */
}

int sdb_grave_new(sdb_version *v, const sdb_edit *e, const sdb_row *row, uint64_t revision,
                  sdb_link *out)
{
    sdb_table *t = v->table;
    size_t size = sdb_row_size(row, t->n_columns, t->rowid_column);
    int rc = sdb_arena_alloc(&t->arena, size, out);
    if (rc != SDB_OK)
        return rc;
    sdb_row *grave = sdb_at(t->arena.base, *out);
    memcpy(grave, row, size);
    sdb_row_set_stamp(grave, e->stamp);
    grave->revision = revision | SDB_ROW_DEAD;
    return SDB_OK;
}

static void revision_put(sdb_edit *e, sdb_link *root, const sdb_row *row, sdb_link link)
{
    uint8_t key[REVISION_KEY];
    sdb_link gone = sdb_radix_put(&sdb_revision_leaves, e, root,
                                  revision_key(key, sdb_row_revision(row)), sizeof key, link);
    assert(!gone);
    (void)gone;
}

static void revision_take(sdb_edit *e, sdb_link *root, const sdb_row *row, sdb_link link)
{
    uint8_t key[REVISION_KEY];
    sdb_radix_take(e, root, revision_key(key, sdb_row_revision(row)), sizeof key, link);
}

/* A grave is not needed any more. */
static void grave_remove(sdb_version *v, sdb_edit *e, sdb_link grave)
{
    sdb_history *h = &v->history;
    const sdb_row *row = sdb_row_at(v->table, grave);
    uint8_t key[SDB_ROWID_KEY];
    revision_take(e, &h->dead_by_revision, row, grave);
    sdb_key_put_rowid(key, row->rowid);
    sdb_radix_take(e, &h->dead_by_rowid, key, sizeof key, grave);
    if (sdb_row_stamp(row) > e->floor)
        sdb_object_free(v->table, grave);
    else
        sdb_links_push(&e->retired, grave);
}

void sdb_history_change(sdb_version *v, sdb_edit *e, const sdb_row *row, const sdb_row *old,
                        sdb_link grave)
{
    sdb_history *h = &v->history;
    const sdb_table *t = v->table;
    uint8_t key[SDB_ROWID_KEY];
    if (old)
        revision_take(e, &h->by_revision, old, sdb_row_link(t, old));
    if (row) {
        revision_put(e, &h->by_revision, row, sdb_row_link(t, row));
        sdb_link back = sdb_index_row(t->arena.base, h->dead_by_rowid, row->rowid);
        if (back)
            grave_remove(v, e, back);
    }
    if (grave) {
        revision_put(e, &h->dead_by_revision, sdb_row_at(t, grave), grave);
        sdb_key_put_rowid(key, sdb_row_at(t, grave)->rowid);
        sdb_radix_put(rowid_leaves(v), e, &h->dead_by_rowid, key, sizeof key, grave);
    }
}

typedef struct sweep {
    sdb_table *table;
    uint64_t floor;
} sweep;

static void sweep_grave(void *ctx, sdb_link link)
{
    const sweep *s = ctx;
    if (sdb_row_stamp(sdb_row_at(s->table, link)) > s->floor)
        sdb_object_free(s->table, link);
}

void sdb_history_free_after(sdb_version *v, uint64_t floor)
{
    sweep s = {v->table, floor};
    sdb_radix_free(&v->table->arena, v->history.by_revision, floor, NULL, NULL);
    sdb_radix_free(&v->table->arena, v->history.dead_by_revision, floor, NULL, NULL);
    sdb_radix_free(&v->table->arena, v->history.dead_by_rowid, floor, sweep_grave, &s);
}

const char *sdb_history_check(const sdb_version *v)
{
    const sdb_history *h = &v->history;
    const uint8_t *base = v->table->arena.base;
    uint64_t rows, dead, graves;
    const char *wrong =
        sdb_radix_check(&sdb_revision_leaves, base, h->by_revision, SDB_STAMP_MAX, &rows);
    if (!wrong)
        wrong = sdb_radix_check(&sdb_revision_leaves, base, h->dead_by_revision, SDB_STAMP_MAX, &dead);
    if (!wrong)
        wrong = sdb_radix_check(rowid_leaves(v), base, h->dead_by_rowid, SDB_STAMP_MAX, &graves);
    if (!wrong && rows != (h->feeds ? sdb_version_count(v) : 0))
        wrong = "the revisions are not those of the rows";
    if (!wrong && dead != graves)
        wrong = "the graves by revision are not the graves by rowid";
    return wrong;
}

/* ---------------------------------------------------------------- feeds */

/* Build by_revision over the rows there are. */
static int history_build(sdb_version *v, sdb_edit *e)
{
    const sdb_table *t = v->table;
    sdb_iter it;
    sdb_link root = 0;
    sdb_iter_init(&it);
    sdb_iter_open(&it, rowid_leaves(v), t->arena.base, v->root[SDB_BY_ROWID]);
    int rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        rc = sdb_arena_reserve(e->arena, sdb_radix_need(e->arena, REVISION_KEY), true);
        if (rc != SDB_OK)
            break;
        revision_put(e, &root, sdb_row_at(t, it.leaf), it.leaf);
        rc = sdb_iter_next(&it);
    }
    sdb_iter_fini(&it);
    if (rc != SDB_DONE) {
        sdb_radix_free(e->arena, root, e->floor, NULL, NULL);
        return rc;
    }
    v->history.by_revision = root;
    return SDB_OK;
}

/* Replace the list; free the graves that no feed in the new one waits for. When it fails, some of
** them are gone. */
static int feeds_set(sdb_version *v, sdb_edit *e, sdb_feeds *feeds)
{
    sdb_history *h = &v->history;
    uint64_t low = UINT64_MAX;
    for (int i = 0; i < feeds->n; i++) {
        uint64_t mourned = feed_mourned(&feeds->at[i]);
        low = mourned < low ? mourned : low;
    }
    sdb_iter it;
    sdb_iter_init(&it);
    for (;;) {
        sdb_iter_open(&it, &sdb_revision_leaves, v->table->arena.base, h->dead_by_revision);
        int rc = sdb_iter_first(&it);
        if (rc == SDB_DONE || sdb_row_revision(sdb_row_at(v->table, it.leaf)) > low)
            break;
        rc = sdb_arena_reserve(e->arena, 2 * sdb_radix_need(e->arena, REVISION_KEY), false);
        if (rc == SDB_OK)
            rc = sdb_links_reserve(&e->retired,
                                   2 * sdb_radix_need_links(e->arena, REVISION_KEY) + 1);
        if (rc != SDB_OK)
            return rc;
        grave_remove(v, e, it.leaf);
    }
    if (feeds->n == 0) { /* no feed: no history either */
        int rc = sdb_radix_retire(e, h->by_revision);
        if (rc != SDB_OK)
            return rc;
        assert(!h->dead_by_revision && !h->dead_by_rowid);
        h->by_revision = 0;
    }
    feeds_unref(h->feeds);
    h->feeds = feeds->n ? feeds : NULL;
    return SDB_OK;
}

/* The same, wholly or not at all. Takes over the list. */
static int feeds_change(sdb_txn *txn, sdb_table *table, sdb_feeds *feeds)
{
    sdb_work *w;
    int savepoint, rc = sdb_txn_savepoint(txn, &savepoint);
    if (rc != SDB_OK) {
        feeds_unref(feeds);
        return rc;
    }
    rc = sdb_txn_open_work(txn, table, &w);
    if (rc == SDB_OK)
        rc = feeds_set(w->now, &w->edit, feeds);
    if (rc != SDB_OK)
        sdb_txn_rollback_to(txn, savepoint);
    if (rc != SDB_OK || feeds->n == 0)
        feeds_unref(feeds);
    sdb_txn_release(txn, savepoint);
    return rc;
}

int sdb_txn_create_feed(sdb_txn *txn, sdb_table *table, const char *name)
{
    sdb_work *w;
    if (strlen(name) > SDB_MAX_NAME)
        return SDB_TOOBIG;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    sdb_history *h = &w->now->history;
    if (feeds_find(h->feeds, name) >= 0)
        return SDB_EXISTS;
    sdb_feeds *feeds = feeds_copy(h->feeds, -1, name);
    if (!feeds)
        return SDB_NOMEM;
    feeds->at[feeds->n - 1].id = sdb_tick(txn->db);
    feeds->at[feeds->n - 1].born = w->now->revision;
    if (!h->feeds)
        rc = history_build(w->now, &w->edit);
    if (rc != SDB_OK) {
        feeds_unref(feeds);
        return rc;
    }
    feeds_unref(h->feeds);
    h->feeds = feeds;
    return SDB_OK;
}

int sdb_txn_drop_feed(sdb_txn *txn, sdb_table *table, const char *name)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    sdb_history *h = &w->now->history;
    int at = feeds_find(h->feeds, name);
    if (at < 0)
        return SDB_DONE;
    sdb_feeds *feeds = feeds_copy(h->feeds, at, NULL);
    if (!feeds)
        return SDB_NOMEM;
    return feeds_change(txn, table, feeds);
}

int sdb_txn_acknowledge(sdb_txn *txn, sdb_table *table, const char *name, uint64_t revision)
{
    sdb_work *w;
    int rc = sdb_txn_open_work(txn, table, &w);
    if (rc != SDB_OK)
        return rc;
    sdb_history *h = &w->now->history;
    int at = feeds_find(h->feeds, name);
    if (at < 0)
        return SDB_DONE;
    if (revision > w->now->revision)
        revision = w->now->revision;
    if (revision <= h->feeds->at[at].seen)
        return SDB_OK;
    sdb_feeds *feeds = feeds_copy(h->feeds, -1, NULL);
    if (!feeds)
        return SDB_NOMEM;
    feeds->at[at].seen = revision;
    return feeds_change(txn, table, feeds);
}

/* ---------------------------------------------------------------- what there is */

static int version_feeds(const sdb_version *v)
{
    return v && v->history.feeds ? v->history.feeds->n : 0;
}

static int version_find_feed(const sdb_version *v, const char *name)
{
    return v ? feeds_find(v->history.feeds, name) : -1;
}

/* The bytes of the graves behind a revision. */
static uint64_t graves_size(const sdb_version *v, uint64_t behind)
{
    uint64_t size = 0;
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &sdb_revision_leaves, v->table->arena.base, v->history.dead_by_revision);
    for (int rc = seek_behind(&it, behind); rc == SDB_OK; rc = sdb_iter_next(&it))
        size += sdb_object_size(v->table, it.leaf);
    sdb_iter_fini(&it);
    return size;
}

static void version_feed(const sdb_version *v, int feed, sdb_feed_info *out)
{
    *out = (sdb_feed_info){0};
    if (feed < 0 || feed >= version_feeds(v))
        return;
    const sdb_feed *f = &v->history.feeds->at[feed];
    const uint8_t *base = v->table->arena.base;
    uint8_t key[REVISION_KEY];
    *out = (sdb_feed_info){.name = f->name, .acknowledged = f->seen, .revision = v->revision};
    revision_key(key, f->seen + 1);
    out->rows = sdb_version_count(v) - sdb_radix_rank(&sdb_revision_leaves, base,
                                                      v->history.by_revision, key, sizeof key);
    revision_key(key, feed_mourned(f) + 1);
    out->deletions = sdb_radix_count(base, v->history.dead_by_revision) -
                     sdb_radix_rank(&sdb_revision_leaves, base, v->history.dead_by_revision, key,
                                    sizeof key);
    out->bytes = graves_size(v, feed_mourned(f));
}

int sdb_snapshot_feeds(const sdb_snapshot *snap, const sdb_table *table)
{
    return version_feeds(sdb_snapshot_version(snap, table));
}

void sdb_snapshot_feed(const sdb_snapshot *snap, const sdb_table *table, int feed, sdb_feed_info *out)
{
    version_feed(sdb_snapshot_version(snap, table), feed, out);
}

int sdb_snapshot_find_feed(const sdb_snapshot *snap, const sdb_table *table, const char *name)
{
    return version_find_feed(sdb_snapshot_version(snap, table), name);
}

int sdb_txn_feeds(const sdb_txn *txn, const sdb_table *table)
{
    return version_feeds(sdb_txn_version(txn, table));
}

void sdb_txn_feed(const sdb_txn *txn, const sdb_table *table, int feed, sdb_feed_info *out)
{
    version_feed(sdb_txn_version(txn, table), feed, out);
}

int sdb_txn_find_feed(const sdb_txn *txn, const sdb_table *table, const char *name)
{
    return version_find_feed(sdb_txn_version(txn, table), name);
}

/* ---------------------------------------------------------------- reading */

/* Two iterators, over rows and over graves; the one that stands at the smaller revision is next. */
struct sdb_changes {
    sdb_table *table;
    sdb_feed feed; /* where it stands */
    sdb_iter rows, dead;
    const sdb_row *row;
};

static void changes_init(sdb_changes *c)
{
    *c = (sdb_changes){0};
    sdb_iter_init(&c->rows);
    sdb_iter_init(&c->dead);
}

static void changes_fini(sdb_changes *c)
{
    sdb_iter_fini(&c->rows);
    sdb_iter_fini(&c->dead);
}

int sdb_changes_new(sdb_db *db, sdb_changes **out)
{
    (void)db;
    sdb_changes *c = sdb_malloc(sizeof *c);
    if (!c)
        return SDB_NOMEM;
    changes_init(c);
    *out = c;
    return SDB_OK;
}

void sdb_changes_free(sdb_changes *c)
{
    if (c)
        changes_fini(c);
    sdb_free(c);
}

/* Go behind what the feed has seen, and behind a revision. */
static int changes_seek(sdb_changes *c, uint64_t behind)
{
    uint64_t seen = c->feed.seen, mourned = feed_mourned(&c->feed);
    c->row = NULL;
    int rc = seek_behind(&c->rows, behind > seen ? behind : seen);
    if (rc >= 0)
        rc = seek_behind(&c->dead, behind > mourned ? behind : mourned);
    return rc < 0 ? rc : SDB_OK;
}

/* What a feed has to show of a version; without one (NULL), nothing. */
static int changes_set(sdb_changes *c, sdb_table *table, const sdb_version *v, const sdb_feed *f)
{
    const uint8_t *base = table->arena.base;
    c->table = table;
    c->feed = *f;
    sdb_iter_open(&c->rows, &sdb_revision_leaves, base, v ? v->history.by_revision : 0);
    sdb_iter_open(&c->dead, &sdb_revision_leaves, base, v ? v->history.dead_by_revision : 0);
    return changes_seek(c, 0);
}

int sdb_changes_open(sdb_changes *c, const sdb_snapshot *snap, sdb_table *table, const char *feed)
{
    const sdb_version *v = sdb_snapshot_version(snap, table);
    int at = version_find_feed(v, feed);
    c->row = NULL;
    c->table = NULL;
    return at < 0 ? SDB_MISUSE : changes_set(c, table, v, &v->history.feeds->at[at]);
}

/* In the base, if the feed was there. */
static int changes_set_txn(sdb_changes *c, const sdb_txn *txn, sdb_table *table, const char *feed)
{
    const sdb_version *now = sdb_txn_version(txn, table);
    const sdb_version *base = sdb_snapshot_version(&txn->base, table);
    int at = version_find_feed(now, feed), was_at = version_find_feed(base, feed);
    c->row = NULL;
    c->table = NULL;
    if (at < 0)
        return SDB_MISUSE;
    const sdb_feed *f = &now->history.feeds->at[at];
    if (was_at >= 0 && base->history.feeds->at[was_at].id != f->id)
        was_at = -1;
    return changes_set(c, table, was_at < 0 ? NULL : base, f);
}

int sdb_changes_open_txn(sdb_changes *c, const sdb_txn *txn, sdb_snapshot *snap, sdb_table *table,
                         const char *feed)
{
    int rc = changes_set_txn(c, txn, table, feed);
    if (rc == SDB_OK)
        rc = sdb_txn_snapshot(txn, snap);
    return rc;
}

int sdb_changes_seek(sdb_changes *c, uint64_t behind)
{
    return c->table ? changes_seek(c, behind) : SDB_MISUSE;
}

int sdb_changes_next(sdb_changes *c)
{
    if (!c->table)
        return SDB_MISUSE;
    const sdb_row *row = c->rows.leaf ? sdb_row_at(c->table, c->rows.leaf) : NULL;
    const sdb_row *dead = c->dead.leaf ? sdb_row_at(c->table, c->dead.leaf) : NULL;
    bool is_dead = dead && (!row || sdb_row_revision(dead) < sdb_row_revision(row));
    c->row = is_dead ? dead : row;
    if (!c->row)
        return SDB_DONE;
    int rc = sdb_iter_next(is_dead ? &c->dead : &c->rows);
    return rc < 0 ? rc : SDB_OK;
}

const sdb_row *sdb_changes_row(const sdb_changes *c)
{
    return c->row;
}

int sdb_txn_next_change(const sdb_txn *txn, sdb_table *table, const char *feed, uint64_t *revision)
{
    sdb_changes c;
    changes_init(&c);
    int rc = changes_set_txn(&c, txn, table, feed);
    if (rc == SDB_OK)
        rc = sdb_changes_next(&c);
    if (rc == SDB_OK)
        *revision = sdb_row_revision(c.row);
    changes_fini(&c);
    return rc;
}
