/* t_multi_model.c - multi indexes of tables, against a plain search through all rows. */
#include "tags.h"

enum { ROWS = 40 };

/* ---------------------------------------------------------------- the model */

typedef struct model {
    bool is_there[ROWS];
    char tags[ROWS][TAGS];
    int n[ROWS];
} model;

static void tags_random(char *out)
{
    static const char *const words[] = {"a",  "b",  "c", "blue", "Blue", "black", "",   "~", "7",
                                        "70", "12", "A", "bl",   "long-long-long-tag", "long-long-long-tax"};
    size_t n = 0, k = rnd(6);
    strcpy(out, "-");
    for (size_t i = 0; i < k && n < TAGS - 24; i++)
        n += (size_t)snprintf(out + n, TAGS - n, "%s%s", i ? "," : "",
                              words[rnd(sizeof words / sizeof *words)]);
}

static int value_order(const sdb_value *a, const sdb_value *b, bool fold)
{
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->type == SDB_INTEGER)
        return (a->u.i > b->u.i) - (a->u.i < b->u.i);
    for (uint32_t i = 0; a->type == SDB_TEXT; i++) {
        int x = i < a->n ? ((const unsigned char *)a->u.p)[i] : -1;
        int y = i < b->n ? ((const unsigned char *)b->u.p)[i] : -1;
        x += fold && x >= 'A' && x <= 'Z' ? 32 : 0;
        y += fold && y >= 'A' && y <= 'Z' ? 32 : 0;
        if (x != y)
            return x < y ? -1 : 1;
        if (x < 0)
            break;
    }
    return 0;
}

typedef struct hit {
    sdb_value key;
    int row;
} hit;

static bool hit_fold;
static int hit_sign;

/* As in the index: by key, in its direction, then by rowid. */
static int hit_order(const void *a, const void *b)
{
    const hit *x = a, *y = b;
    int c = value_order(&x->key, &y->key, hit_fold) * hit_sign;
    return c ? c : (x->row > y->row) - (x->row < y->row);
}

static bool is_within(const sdb_value *key, const sdb_range *r, bool fold)
{
    if (r->n_eq)
        return value_order(key, r->eq, fold) == 0;
    if (r->lower) {
        int c = value_order(key, r->lower, fold);
        if (c < 0 || (c == 0 && r->lower_open))
            return false;
    }
    if (r->upper) {
        int c = value_order(key, r->upper, fold);
        if (c > 0 || (c == 0 && r->upper_open))
            return false;
    }
    return true;
}

/* Every key of every row in the range, in order. */
static size_t model_hits(const model *m, const sdb_range *r, bool is_fold, hit *out)
{
    size_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!m->is_there[i] || strcmp(m->tags[i], "-") == 0)
            continue;
        for (const char *at = m->tags[i]; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            hit h = {.row = i};
            assert_int_equal(tag_value(at, strcspn(at, ","), &h.key), SDB_OK);
            if (is_within(&h.key, r, is_fold))
                out[n++] = h;
        }
    }
    hit_fold = is_fold;
    hit_sign = is_fold ? -1 : 1;
    qsort(out, n, sizeof *out, hit_order);
    return n;
}

static void assert_range(sdb_cursor *cur, const model *m, const sdb_range *r, bool is_fold)
{
    static hit hits[ROWS * 8];
    bool seen[ROWS] = {false};
    size_t n = model_hits(m, r, is_fold, hits), n_rows = 0;
    uint64_t count;
    int rc = sdb_cursor_seek(cur, r);
    for (size_t i = 0; i < n; i++) {
        const hit *h = &hits[r->reverse ? n - 1 - i : i];
        if (seen[h->row])
            continue;
        seen[h->row] = true;
        n_rows++;
        assert_int_equal(rc, SDB_OK);
        assert_int_equal(sdb_row_rowid(sdb_cursor_row(cur)), h->row);
        rc = sdb_cursor_next(cur);
    }
    assert_int_equal(rc, SDB_DONE);
    rc = sdb_cursor_count(cur, r, &count);
    assert_int_equal(rc, r->n_eq ? SDB_OK : SDB_MISUSE);
    if (r->n_eq)
        assert_int_equal(count, n_rows);
}

/* Some ranges, both ways. */
static void assert_answers(sdb_cursor *cur, const model *m, bool is_fold)
{
    char a[TAGS], b[TAGS];
    for (int i = 0; i < 4; i++) {
        sdb_value lower, upper;
        do
            tags_random(a);
        while (a[0] == '-');
        do
            tags_random(b);
        while (b[0] == '-');
        assert_int_equal(tag_value(a, strcspn(a, ","), &lower), SDB_OK);
        assert_int_equal(tag_value(b, strcspn(b, ","), &upper), SDB_OK);
        sdb_range r = {.lower_open = rnd(2), .upper_open = rnd(2)};
        if (i == 0) {
            r.eq = &lower;
            r.n_eq = 1;
        } else if (i < 3) {
            r.lower = rnd(4) ? &lower : NULL;
            r.upper = rnd(4) ? &upper : NULL;
        }
        assert_range(cur, m, &r, is_fold);
        r.reverse = true;
        assert_range(cur, m, &r, is_fold);
    }
}

static void assert_model(sdb_cursor *cur, sdb_txn *txn, sdb_table *t, const model *m)
{
    assert_sound(txn);
    for (int is_fold = 0; is_fold < 2; is_fold++) {
        int index = sdb_txn_find_index(txn, t, is_fold ? "by_fold" : "by_tag");
        assert_int_equal(sdb_cursor_open_txn(cur, txn, t, index), SDB_OK);
        assert_answers(cur, m, is_fold);
        sdb_cursor_close(cur);
    }
}

/* ---------------------------------------------------------------- random changes */

/* One change; the model follows when it succeeds. */
typedef struct change {
    enum { PUT, DELETE, MOVE, REINDEX } kind;
    int row, to;
    char tags[TAGS];
    int n;
} change;

static change change_random(const model *m)
{
    change c = {.kind = PUT, .row = (int)rnd(ROWS), .to = (int)rnd(ROWS), .n = (int)rnd(5)};
    bool is_there = m->is_there[c.row];
    if (rnd(30) == 0)
        c.kind = REINDEX;
    else if (is_there && rnd(4) == 0)
        c.kind = DELETE;
    else if (is_there && !m->is_there[c.to] && rnd(5) == 0)
        c.kind = MOVE;
    if (is_there && rnd(2))
        strcpy(c.tags, m->tags[c.row]);
    else
        tags_random(c.tags);
    return c;
}

static int reindex(sdb_txn *txn, sdb_table *t)
{
    int sp, rc = sdb_txn_savepoint(txn, &sp);
    if (rc != SDB_OK)
        return rc;
    rc = sdb_txn_drop_index(txn, t, sdb_txn_find_index(txn, t, "by_tag"));
    if (rc == SDB_OK)
        rc = sdb_txn_create_index(txn, t, &INDEXES[0]);
    if (rc != SDB_OK)
        sdb_txn_rollback_to(txn, sp);
    sdb_txn_release(txn, sp);
    return rc;
}

static int change_make(sdb_txn *txn, sdb_table *t, const change *c, model *m)
{
    sdb_value v[3];
    const sdb_row *old = sdb_txn_get(txn, t, c->row);
    int to = c->kind == MOVE ? c->to : c->row, rc;
    row_values(v, c->tags, c->n);
    if (c->kind == REINDEX) {
        return reindex(txn, t);
    } else if (c->kind == DELETE) {
        rc = sdb_delete(txn, t, old);
    } else {
        rc = sdb_stage(txn, t, to, v);
        if (rc == SDB_OK)
            rc = sdb_stage_put(txn, old);
    }
    if (rc != SDB_OK)
        return rc;
    m->is_there[c->row] = false;
    if (c->kind != DELETE) {
        m->is_there[to] = true;
        strcpy(m->tags[to], c->tags);
        m->n[to] = c->n;
    }
    return SDB_OK;
}

/* The same with its first allocation failing, then its second, ... */
static void change_make_hard(sdb_cursor *cur, sdb_txn *txn, sdb_table *t, const change *c, model *m)
{
    for (int64_t n = 1;; n++) {
        sdb_mem_inject(n, rnd(2));
        int rc = change_make(txn, t, c, m);
        bool has_failed = sdb_mem_inject(0, false) > 0;
        if (rc == SDB_OK) /* a fault may have been for something that is only nice to have */
            return;
        assert_true(has_failed && rc == SDB_NOMEM);
        if (n % 4 == 1)
            assert_model(cur, txn, t, m);
    }
}

/* With or without a feed, for which deleted rows are kept. */
static void test_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rng = seed * 0x9e3779b97f4a7c15u;
        static model now, committed, held, seen, saved[8];
        sdb_db *db;
        sdb_table *t;
        sdb_txn *txn;
        sdb_snapshot *snap;
        sdb_cursor *cur, *old, *open;
        memset(&now, 0, sizeof now);
        committed = now;
        open_table(&db, &t);
        assert_int_equal(sdb_snapshot_new(db, &snap), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &old), SDB_OK);
        assert_int_equal(sdb_cursor_new(db, &open), SDB_OK);
        bool is_open = false, has_feed = seed % 2;
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        if (has_feed)
            assert_int_equal(sdb_txn_create_feed(txn, t, "feed"), SDB_OK);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        for (int round = 0; round < 50; round++) {
            int n_saved = 0, sp;
            assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
            for (int n = (int)rnd(30); n >= 0; n--) {
                switch (rnd(12)) {
                case 0:
                    if (n_saved < 8) {
                        assert_int_equal(sdb_txn_savepoint(txn, &sp), SDB_OK);
                        assert_int_equal(sp, n_saved);
                        saved[n_saved++] = now;
                    }
                    break;
                case 1:
                    if (n_saved > 0) {
                        sp = (int)rnd((uint64_t)n_saved);
                        sdb_txn_rollback_to(txn, sp);
                        now = saved[sp];
                        n_saved = sp + 1;
                    }
                    break;
                case 2:
                    if (n_saved > 0) {
                        n_saved = (int)rnd((uint64_t)n_saved);
                        sdb_txn_release(txn, n_saved);
                    }
                    break;
                case 3:
                    if (!is_open) {
                        int index = sdb_txn_find_index(txn, t, "by_tag");
                        assert_int_equal(sdb_cursor_open_txn(open, txn, t, index), SDB_OK);
                        is_open = true;
                        seen = now;
                    } else {
                        sdb_cursor_close(open);
                        is_open = false;
                    }
                    break;
                default: {
                    change c = change_random(&now);
                    if (rnd(3) == 0)
                        change_make_hard(cur, txn, t, &c, &now);
                    else
                        assert_int_equal(change_make(txn, t, &c, &now), SDB_OK);
                }
                }
                if (is_open)
                    assert_answers(open, &seen, false);
                if (n % 3 == 0)
                    assert_model(cur, txn, t, &now);
            }
            if (has_feed && rnd(4) == 0)
                assert_int_equal(sdb_txn_acknowledge(txn, t, "feed", sdb_txn_revision(txn, t)), SDB_OK);
            if (rnd(4) == 0) {
                sdb_txn_abort(txn);
                now = committed;
            } else {
                assert_int_equal(sdb_txn_commit(txn), SDB_OK);
                committed = now;
            }
            if (is_open)
                assert_answers(open, &seen, false);
            sdb_cursor_close(open); /* by the thread of the transaction, whenever */
            is_open = false;
            if (sdb_snapshot_held(snap))
                assert_answers(old, &held, true);
            if (rnd(5) == 0) {
                int index = 1;
                sdb_cursor_close(old);
                sdb_snapshot_drop(snap);
                sdb_snapshot_take(snap);
                held = committed;
                while (strcmp(sdb_snapshot_index(snap, t, index)->name, "by_fold") != 0)
                    index++;
                assert_int_equal(sdb_cursor_open(old, snap, t, index), SDB_OK);
            }
        }
        sdb_cursor_free(open);
        sdb_cursor_free(old);
        sdb_cursor_free(cur);
        sdb_snapshot_free(snap);
        assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
        assert_int_equal(sdb_txn_drop_feed(txn, t, "feed"), has_feed ? SDB_OK : SDB_DONE);
        assert_int_equal(sdb_txn_commit(txn), SDB_OK);
        close_store(db, t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
