/* t_radix.c - the radix tree against a sorted array, with older versions kept and read again. */
#include "leaf.h"
#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the tree under test */

static void leaf_free(void *ctx, sdb_link link)
{
    tree *t = ctx;
    leaf *l = sdb_at(t->arena.base, link);
    sdb_arena_free(&t->arena, link, leaf_size(l->len));
}

/* Free what was retired; no older version may be read after it. */
static void tree_settle(tree *t)
{
    for (size_t i = 0; i < t->edit.retired.n; i++) {
        sdb_link link = t->edit.retired.at[i];
        if (link & SDB_LEAF)
            leaf_free(t, link);
        else
            sdb_arena_free(&t->arena, link,
                           sdb_node_size[sdb_node_kind(sdb_at(t->arena.base, link))]);
    }
    t->edit.retired.n = 0;
}

static void tree_close(tree *t)
{
    tree_settle(t);
    sdb_radix_free(&t->arena, t->root, 0, leaf_free, t);
    tree_fini(t);
}

static void tree_reserve(tree *t, size_t len)
{
    assert_int_equal(sdb_arena_reserve(&t->arena, sdb_radix_need(&t->arena, len), true), SDB_OK);
    assert_int_equal(
        sdb_links_reserve(&t->edit.retired, sdb_radix_need_links(&t->arena, len) + 1), SDB_OK);
}

static bool tree_put(tree *t, const uint8_t *key, size_t len)
{
    sdb_link link;
    tree_reserve(t, len);
    assert_int_equal(sdb_arena_alloc(&t->arena, leaf_size(len), &link), SDB_OK);
    leaf *l = sdb_at(t->arena.base, link);
    l->stamp = t->edit.stamp;
    l->len = (uint32_t)len;
    if (len)
        memcpy(l->key, key, len);
    uint64_t before = t->arena.live;
    sdb_link old = sdb_radix_get(&KEYED_LEAVES, t->arena.base, t->root, key, len);
    if (old && rnd(2))
        sdb_radix_replace(&t->edit, &t->root, key, len, old, link);
    else
        assert_int_equal(sdb_radix_put(&KEYED_LEAVES, &t->edit, &t->root, key, len, link), old);
    assert_true(t->arena.live <= before + sdb_radix_need(&t->arena, len));
    if (old)
        sdb_links_push(&t->edit.retired, old);
    return old != 0;
}

static bool tree_del(tree *t, const uint8_t *key, size_t len)
{
    tree_reserve(t, len);
    sdb_link old = sdb_radix_del(&KEYED_LEAVES, &t->edit, &t->root, key, len);
    if (old)
        sdb_links_push(&t->edit.retired, old);
    return old != 0;
}

static void tree_check(tree *t, uint64_t count)
{
    uint64_t leaves;
    const char *wrong = sdb_radix_check(&KEYED_LEAVES, t->arena.base, t->root, t->edit.stamp, &leaves);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(leaves, count);
    assert_int_equal(sdb_radix_count(t->arena.base, t->root), count);
    wrong = sdb_arena_check(&t->arena);
    if (wrong)
        fail_msg("%s", wrong);
}

/* ---------------------------------------------------------------- the model: a sorted array */

typedef struct model {
    const leaf **at; /* leaves of the tree, compared by content */
    size_t n;
} model;

static int bytes_compare(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    int c = memcmp(a, b, n < m ? n : m);
    return c ? c : n < m ? -1 : n > m;
}

static size_t model_find(const model *m, const uint8_t *key, size_t len, bool *hit)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (bytes_compare(m->at[mid]->key, m->at[mid]->len, key, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *hit = lo < m->n && bytes_compare(m->at[lo]->key, m->at[lo]->len, key, len) == 0;
    return lo;
}

static model model_copy(const model *m)
{
    model c = {malloc((m->n + 1) * sizeof *c.at), m->n};
    memcpy(c.at, m->at, m->n * sizeof *c.at);
    return c;
}

/* A version of the tree holds exactly the model's leaves, in both directions. */
static void assert_version(const tree *t, sdb_link root, const model *m)
{
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t->arena.base, root);
    size_t i = 0;
    for (int rc = sdb_iter_first(&it); rc == SDB_OK; rc = sdb_iter_next(&it), i++)
        assert_ptr_equal(sdb_at(t->arena.base, it.leaf), m->at[i]);
    assert_int_equal(i, m->n);
    sdb_link last = sdb_radix_last(t->arena.base, root);
    assert_ptr_equal(last ? sdb_at(t->arena.base, last) : NULL, i ? m->at[i - 1] : NULL);
    for (int rc = sdb_iter_last(&it); rc == SDB_OK; rc = sdb_iter_prev(&it))
        assert_ptr_equal(sdb_at(t->arena.base, it.leaf), m->at[--i]);
    assert_int_equal(i, 0);
    sdb_iter_fini(&it);
}

/* From leaf `at` of the iterator's, go n on or back: to leaf `want`, or to none. */
static void assert_skip(const tree *t, sdb_iter *it, const model *m, uint64_t n, bool back, size_t want,
                        bool is_there)
{
    assert_int_equal(sdb_iter_skip(it, n, back), is_there ? SDB_OK : SDB_DONE);
    if (is_there)
        assert_ptr_equal(sdb_at(t->arena.base, it->leaf), m->at[want]);
    else
        assert_int_equal(it->leaf, 0);
}

/* Places by number: of the whole tree, and of the leaves that begin with a key. */
static void assert_places(const tree *t, const model *m, const uint8_t *key, size_t len, size_t first,
                          size_t end)
{
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t->arena.base, t->root);
    for (int back = 0; back < 2 && m->n > 0; back++) {
        size_t a = rnd(m->n), n = rnd(m->n + 2);
        assert_int_equal(sdb_iter_first(&it), SDB_OK);
        assert_skip(t, &it, m, a, false, a, true);
        assert_int_equal(sdb_iter_rank(&it), a);
        assert_skip(t, &it, m, n, back, back ? a - n : a + n, back ? n <= a : a + n < m->n);
    }
    for (int back = 0; back < 2 && end > first; back++) {
        size_t n = rnd(end - first + 2);
        assert_int_equal(sdb_iter_prefix(&it, key, len, back), SDB_OK);
        assert_skip(t, &it, m, n, back, back ? end - 1 - n : first + n, n < end - first);
    }
    sdb_iter_fini(&it);
}

static void assert_seeks(const tree *t, const model *m, const uint8_t *key, size_t len)
{
    bool hit;
    size_t at = model_find(m, key, len, &hit);
    sdb_link got = sdb_radix_get(&KEYED_LEAVES, t->arena.base, t->root, key, len);
    assert_int_equal(got != 0, hit);
    assert_int_equal(sdb_radix_rank(&KEYED_LEAVES, t->arena.base, t->root, key, len), at);
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t->arena.base, t->root);
    for (int step = 0; step < 3; step++) { /* forwards and back from the lower bound */
        int rc = step == 0 ? sdb_iter_seek(&it, key, len)
                           : step == 1 ? sdb_iter_next(&it) : sdb_iter_prev(&it);
        size_t want = step == 1 ? at + 1 : at;
        assert_int_equal(rc, want < m->n ? SDB_OK : SDB_DONE);
        if (rc == SDB_DONE)
            break;
        assert_ptr_equal(sdb_at(t->arena.base, it.leaf), m->at[want]);
    }
    for (int back = 0; back < 2; back++) { /* all that begin with the key */
        size_t end = at, n = 0;
        while (end < m->n && m->at[end]->len >= len && memcmp(m->at[end]->key, key, len) == 0)
            end++;
        for (int rc = sdb_iter_prefix(&it, key, len, back); rc == SDB_OK;
             rc = back ? sdb_iter_prev(&it) : sdb_iter_next(&it), n++)
            assert_ptr_equal(sdb_at(t->arena.base, it.leaf), m->at[back ? end - 1 - n : at + n]);
        assert_int_equal(n, end - at);
        assert_places(t, m, key, len, at, end);
    }
    int rc = sdb_iter_seek_below(&it, key, len);
    assert_int_equal(rc, at > 0 ? SDB_OK : SDB_DONE);
    if (at > 0)
        assert_ptr_equal(sdb_at(t->arena.base, it.leaf), m->at[at - 1]);
    sdb_iter_fini(&it);
}

/* ---------------------------------------------------------------- key shapes */

enum { INTEGERS, DENSE, ALPHA, BYTES, SMALL_SET, CHAINS, SHAPES };

static size_t make_key(int shape, uint8_t *key)
{
    size_t len = 0;
    switch (shape) {
    case INTEGERS: { /* 8 big-endian bytes, spread */
        uint64_t v = rnd(4000) * 0x9e3779b97f4a7c15u;
        for (; len < 8; len++)
            key[len] = (uint8_t)(v >> (56 - 8 * len));
        break;
    }
    case DENSE: { /* 4 big-endian bytes, next to each other: full nodes */
        uint32_t v = (uint32_t)rnd(1500);
        for (; len < 4; len++)
            key[len] = (uint8_t)(v >> (24 - 8 * len));
        break;
    }
    case ALPHA:
        for (size_t n = rnd(7); len < n; len++)
            key[len] = (uint8_t)('a' + rnd(26));
        break;
    case BYTES:
        for (size_t n = rnd(4); len < n; len++)
            key[len] = (uint8_t)rnd(256);
        break;
    case SMALL_SET: /* prefixes of each other all the time */
        for (size_t n = rnd(12); len < n; len++)
            key[len] = (uint8_t)(rnd(2) * 255);
        break;
    default: /* long common parts, longer than a node's prefix */
        for (size_t n = 10 + rnd(40); len < n; len++)
            key[len] = 'x';
        if (rnd(4))
            key[rnd(len)] = 'y';
        key[len++] = (uint8_t)rnd(3);
        break;
    }
    return len;
}

static void model_step(tree *t, model *m, int shape)
{
    uint8_t key[64];
    size_t len = make_key(shape, key);
    bool hit;
    size_t at = model_find(m, key, len, &hit);
    if (rnd(100) < (m->n < 700 ? 65 : 35)) {
        assert_int_equal(tree_put(t, key, len), hit);
        if (!hit) {
            memmove(m->at + at + 1, m->at + at, (m->n - at) * sizeof *m->at);
            m->n++;
        }
        m->at[at] = sdb_at(t->arena.base, sdb_radix_get(&KEYED_LEAVES, t->arena.base, t->root, key, len));
    } else {
        assert_int_equal(tree_del(t, key, len), hit);
        if (hit) {
            m->n--;
            memmove(m->at + at, m->at + at + 1, (m->n - at) * sizeof *m->at);
        }
    }
    len = make_key(shape, key);
    assert_seeks(t, m, key, len);
    assert_seeks(t, m, key, len / 2);
}

/* Random changes; every now and then a version is kept, and all kept ones are read again after many
** more changes. */
static void test_against_model(void **state)
{
    int shape = (int)(intptr_t)*state;
    tree t;
    tree_open(&t);
    model m = {malloc(4096 * sizeof *m.at), 0};
    for (int round = 0; round < 6; round++) {
        sdb_link roots[8];
        model kept[8];
        for (int v = 0; v < 8; v++) {
            for (int i = 0; i < 150; i++) {
                model_step(&t, &m, shape);
                tree_check(&t, m.n);
                if (rnd(20) == 0)
                    tree_freeze(&t);
            }
            tree_freeze(&t);
            roots[v] = t.root;
            kept[v] = model_copy(&m);
            for (int o = 0; o <= v; o++)
                assert_version(&t, roots[o], &kept[o]);
        }
        for (int v = 0; v < 8; v++)
            free(kept[v].at);
        tree_settle(&t);
        assert_version(&t, t.root, &m);
    }
    while (m.n > 0) {
        const leaf *l = m.at[rnd(m.n)];
        uint8_t key[64];
        size_t len = l->len;
        memcpy(key, l->key, len);
        bool hit;
        size_t at = model_find(&m, key, len, &hit);
        assert_true(tree_del(&t, key, len));
        m.n--;
        memmove(m.at + at, m.at + at + 1, (m.n - at) * sizeof *m.at);
        tree_check(&t, m.n);
        tree_settle(&t);
    }
    assert_int_equal(t.root, 0);
    assert_int_equal(t.arena.live, 0);
    free(m.at);
    tree_close(&t);
}

/* Each kind of node, filled and emptied byte by byte; the kind is what the count asks for. */
static void test_kinds(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        tree t;
        tree_open(&t);
        for (unsigned i = 0; i < 256; i++) {
            uint8_t key = (uint8_t)(i * 77); /* 77 is odd: every byte once */
            tree_put(&t, &key, 1);
            if (frozen)
                tree_freeze(&t);
            tree_check(&t, i + 1);
            if (i == 0)
                continue;
            const sdb_node *n = sdb_at(t.arena.base, t.root);
            assert_int_equal(sdb_node_children(n), i + 1);
            assert_int_equal(sdb_node_kind(n), sdb_node_fit(i + 1, 0));
            for (unsigned k = 0; k < 256; k++) {
                uint8_t probe = (uint8_t)(k * 77);
                assert_int_equal(sdb_node_find(n, probe) != 0, k <= i);
            }
        }
        for (unsigned left = 255; left >= 2; left--) {
            uint8_t key = (uint8_t)(left * 77);
            tree_del(&t, &key, 1);
            if (frozen)
                tree_freeze(&t);
            tree_check(&t, left);
            const sdb_node *n = sdb_at(t.arena.base, t.root);
            sdb_kind kind = sdb_node_kind(n);
            assert_true(left <= sdb_node_room[kind]);
            assert_true(kind == SDB_N3 || left > sdb_node_room[kind - 1] * 3u / 4);
        }
        tree_close(&t);
    }
}

/* A key that comes and goes at the edge of a kind does not change the kind each time. */
static void test_hysteresis(void **state)
{
    (void)state;
    tree t;
    tree_open(&t);
    for (unsigned i = 0; i < 17; i++)
        tree_put(&t, (uint8_t[]){(uint8_t)i}, 1);
    for (int i = 0; i < 10; i++) {
        tree_del(&t, (uint8_t[]){16}, 1);
        assert_int_equal(sdb_node_kind(sdb_at(t.arena.base, t.root)), SDB_N64);
        tree_put(&t, (uint8_t[]){16}, 1);
    }
    tree_close(&t);
}

static void test_long_keys(void **state)
{
    (void)state;
    enum { LEN = 1 << 20 };
    tree t;
    tree_open(&t);
    uint8_t *key = malloc(LEN);
    memset(key, 'k', LEN);
    tree_put(&t, key, LEN);
    tree_freeze(&t);
    key[LEN - 1] = 'l';
    tree_put(&t, key, LEN); /* one node, whatever the length of what they share */
    assert_int_equal(sdb_radix_count(t.arena.base, t.root), 2);
    assert_int_equal(sdb_node_kind(sdb_at(t.arena.base, t.root)), SDB_N8);
    tree_check(&t, 2);
    tree_freeze(&t);
    tree_put(&t, key, LEN / 2); /* a prefix of both */
    tree_put(&t, key, 0);
    tree_check(&t, 4);
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t.arena.base, t.root);
    assert_int_equal(sdb_iter_last(&it), SDB_OK);
    assert_int_equal(((leaf *)sdb_at(t.arena.base, it.leaf))->key[LEN - 1], 'l');
    assert_int_equal(sdb_iter_prev(&it), SDB_OK);
    assert_int_equal(((leaf *)sdb_at(t.arena.base, it.leaf))->key[LEN - 1], 'k');
    sdb_iter_fini(&it);
    assert_true(tree_del(&t, key, LEN));
    tree_check(&t, 3);
    assert_true(tree_del(&t, key, LEN / 2));
    assert_true(tree_del(&t, key, 0));
    tree_check(&t, 1);
    free(key);
    tree_close(&t);
}

static void test_miss_copies_nothing(void **state)
{
    (void)state;
    tree t;
    tree_open(&t);
    tree_put(&t, (const uint8_t *)"abc", 3);
    tree_put(&t, (const uint8_t *)"abd", 3);
    tree_freeze(&t);
    sdb_link root = t.root;
    assert_false(tree_del(&t, (const uint8_t *)"abe", 3));
    assert_false(tree_del(&t, (const uint8_t *)"ab", 2));
    assert_false(tree_del(&t, (const uint8_t *)"", 0));
    assert_int_equal(t.root, root);
    assert_int_equal(t.edit.retired.n, 0);
    tree_close(&t);
}

/* Pages of one size serve another when they are empty, and memory goes back to the system. */
static void test_arena(void **state)
{
    (void)state;
    sdb_budget budget = {0};
    sdb_arena a;
    assert_int_equal(sdb_arena_init(&a, &budget), SDB_OK);
    enum { N = 20000 };
    sdb_link *link = malloc(N * sizeof *link);
    uint32_t *size = malloc(N * sizeof *size);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            size[i] = 16 + (uint32_t)rnd(rnd(50) ? 300 : rnd(20) ? 20000 : 300000);
            assert_int_equal(sdb_arena_alloc(&a, size[i], &link[i]), SDB_OK);
            memset(sdb_at(a.base, link[i]), i, size[i]);
            assert_int_equal((uintptr_t)sdb_at(a.base, link[i]) % 8, 0);
        }
        assert_null(sdb_arena_check(&a));
        for (int i = N - 1; i > 0; i--) { /* in random order */
            int j = (int)rnd((uint64_t)i + 1);
            sdb_link l = link[i];
            uint32_t s = size[i];
            link[i] = link[j], size[i] = size[j];
            link[j] = l, size[j] = s;
        }
        for (int i = 0; i < N; i++) {
            const uint8_t *p = sdb_at(a.base, link[i]);
            assert_int_equal(p[0], p[size[i] - 1]); /* nobody else wrote into it */
            sdb_arena_free(&a, link[i], size[i]);
            if (i % 997 == 0)
                assert_null(sdb_arena_check(&a));
        }
        assert_null(sdb_arena_check(&a));
        assert_int_equal(a.live, 0);
        sdb_arena_trim(&a);
        assert_true((a.pages + a.idle) * SDB_PAGE < 2 << 20);
    }
    /* A limit is kept, and deletes pass it. */
    budget.limit = budget.used + 100000;
    sdb_link l;
    assert_int_equal(sdb_arena_alloc(&a, 200000, &l), SDB_FULL);
    assert_int_equal(sdb_arena_reserve(&a, 200000, true), SDB_FULL);
    assert_int_equal(sdb_arena_reserve(&a, 200000, false), SDB_OK);
    free(link);
    free(size);
    sdb_arena_fini(&a);
    assert_int_equal(budget.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_miss_copies_nothing),
        {"model: spread integers", test_against_model, NULL, NULL, (void *)INTEGERS},
        {"model: dense integers", test_against_model, NULL, NULL, (void *)DENSE},
        {"model: words", test_against_model, NULL, NULL, (void *)ALPHA},
        {"model: bytes", test_against_model, NULL, NULL, (void *)BYTES},
        {"model: two letters", test_against_model, NULL, NULL, (void *)SMALL_SET},
        {"model: chains", test_against_model, NULL, NULL, (void *)CHAINS},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
