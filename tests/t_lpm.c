/* t_lpm.c - trees of prefixes against a list that is searched from end to end, with older versions
** kept and read again; and a routing table of the Internet. */
#define _POSIX_C_SOURCE 200809L
#include "tree.h"
#include "prefixes.h"

#include "../core/lpm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the tree under test */

/* Free what was retired; no older version may be read after it. */
static void tree_settle(tree *t)
{
    for (size_t i = 0; i < t->edit.retired.n; i++) {
        const sdb_node *n = sdb_at(t->arena.base, t->edit.retired.at[i]);
        size_t size =
            sdb_node_kind(n) < SDB_NODE_KINDS ? sdb_node_size[sdb_node_kind(n)] : sdb_lpm_size(n);
        sdb_arena_free(&t->arena, t->edit.retired.at[i], size);
    }
    t->edit.retired.n = 0;
}

static void tree_close(tree *t)
{
    tree_settle(t);
    sdb_lpm_free(&t->arena, t->root, 0, NULL, NULL);
    tree_fini(t);
}

static void tree_reserve(tree *t, const sdb_prefix *p)
{
    assert_int_equal(sdb_arena_reserve(&t->arena, sdb_lpm_need(&t->arena, p), true), SDB_OK);
    assert_int_equal(sdb_links_reserve(&t->edit.retired, sdb_lpm_need_links(p)), SDB_OK);
}

static sdb_link tree_put(tree *t, const sdb_prefix *p, sdb_link link)
{
    tree_reserve(t, p);
    uint64_t most = t->arena.pages * SDB_PAGE + sdb_lpm_need(&t->arena, p);
    size_t retired = t->edit.retired.n;
    sdb_link old = sdb_lpm_put(&t->edit, &t->root, p, link);
    assert_true(t->arena.pages * SDB_PAGE <= most);
    assert_true(t->edit.retired.n - retired <= sdb_lpm_need_links(p));
    return old;
}

static sdb_link tree_del(tree *t, const sdb_prefix *p)
{
    tree_reserve(t, p);
    size_t retired = t->edit.retired.n;
    sdb_link old = sdb_lpm_del(&t->edit, &t->root, p);
    assert_true(t->edit.retired.n - retired <= sdb_lpm_need_links(p));
    return old;
}

static void tree_check(tree *t, uint64_t count)
{
    uint64_t n;
    const char *wrong = sdb_lpm_check(t->arena.base, t->root, t->edit.stamp, &n);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(n, count);
    assert_int_equal(sdb_lpm_count(t->arena.base, t->root), count);
    wrong = sdb_arena_check(&t->arena);
    if (wrong)
        fail_msg("%s", wrong);
}

/* ---------------------------------------------------------------- the model: a sorted list */

typedef struct entry {
    sdb_prefix prefix;
    sdb_link link;
} entry;

typedef struct model {
    entry *at;
    size_t n;
} model;

/* The first entry that is not below p. */
static size_t model_find(const model *m, const sdb_prefix *p, bool *hit)
{
    size_t i = 0;
    while (i < m->n && sdb_prefix_compare(&m->at[i].prefix, p) < 0)
        i++;
    *hit = i < m->n && sdb_prefix_compare(&m->at[i].prefix, p) == 0;
    return i;
}

static sdb_link model_put(model *m, const sdb_prefix *p, sdb_link link)
{
    bool hit;
    size_t i = model_find(m, p, &hit);
    sdb_link old = hit ? m->at[i].link : 0;
    if (!hit)
        memmove(m->at + i + 1, m->at + i, (m->n++ - i) * sizeof *m->at);
    m->at[i] = (entry){*p, link};
    return old;
}

static sdb_link model_del(model *m, const sdb_prefix *p)
{
    bool hit;
    size_t i = model_find(m, p, &hit);
    if (!hit)
        return 0;
    sdb_link old = m->at[i].link;
    memmove(m->at + i, m->at + i + 1, (--m->n - i) * sizeof *m->at);
    return old;
}

static model model_copy(const model *m)
{
    model c = {malloc((m->n + 1) * sizeof *c.at), m->n};
    memcpy(c.at, m->at, m->n * sizeof *c.at);
    return c;
}

/* ---------------------------------------------------------------- tree and model say the same */

static void assert_at(const sdb_lpm_iter *it, sdb_link link, const entry *want)
{
    sdb_prefix p;
    assert_int_equal(it->link, link);
    assert_int_equal(link, want ? want->link : 0);
    if (!want)
        return;
    sdb_lpm_iter_prefix(it, &p);
    assert_memory_equal(&p, &want->prefix, sizeof p);
}

/* An iterator is over entries [from, to) of the model, in both directions. */
static void assert_iterates(sdb_lpm_iter *it, const model *m, size_t from, size_t to)
{
    assert_int_equal(sdb_lpm_iter_count(it), to - from);
    size_t i = from;
    for (sdb_link l = sdb_lpm_iter_first(it); l; l = sdb_lpm_iter_next(it), i++)
        assert_at(it, l, i < to ? &m->at[i] : NULL);
    assert_int_equal(i, to);
    for (sdb_link l = sdb_lpm_iter_last(it); l; l = sdb_lpm_iter_prev(it), i--)
        assert_at(it, l, i > from ? &m->at[i - 1] : NULL);
    assert_int_equal(i, from);
}

static void assert_version(const tree *t, sdb_link root, const model *m)
{
    sdb_lpm_iter it;
    sdb_lpm_iter_open(&it, t->arena.base, root);
    assert_iterates(&it, m, 0, m->n);
}

/* Many at once give what one by one does. */
static void assert_matches(const tree *t, sdb_link root, const sdb_prefix *p, size_t n)
{
    sdb_link out[SDB_GROUP + 1];
    out[n] = 77; /* not to be written */
    sdb_lpm_match_all(t->arena.base, root, p, n, out);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i], sdb_lpm_match(t->arena.base, root, &p[i]));
    assert_int_equal(out[n], 77);
}

static void assert_covers(const tree *t, sdb_link root, const model *m, const sdb_prefix *p)
{
    sdb_link want[200];
    int n = 0, lo = 0, hi;
    for (size_t i = 0; i < m->n; i++) /* in order, so the shortest first */
        if (sdb_prefix_covers(&m->at[i].prefix, p))
            want[n++] = m->at[i].link;
    assert_int_equal(sdb_lpm_match(t->arena.base, root, p), n ? want[n - 1] : 0);
    assert_matches(t, root, p, 1);
    sdb_lpm_covers c;
    sdb_lpm_covers_open(&c, t->arena.base, root, p);
    for (hi = n; hi > 0; hi--)
        assert_int_equal(sdb_lpm_covers_longest(&c), want[hi - 1]);
    assert_int_equal(sdb_lpm_covers_longest(&c), 0);
    sdb_lpm_covers_open(&c, t->arena.base, root, p);
    for (hi = n; lo < hi;) { /* from both ends */
        if (rnd(4))
            assert_int_equal(sdb_lpm_covers_shortest(&c), want[lo++]);
        else
            assert_int_equal(sdb_lpm_covers_longest(&c), want[--hi]);
    }
    assert_int_equal(sdb_lpm_covers_shortest(&c), 0);
}

static void assert_seeks(const tree *t, sdb_link root, const model *m, const sdb_prefix *p)
{
    bool hit;
    size_t at = model_find(m, p, &hit), to = at;
    assert_int_equal(sdb_lpm_get(t->arena.base, root, p), hit ? m->at[at].link : 0);
    assert_covers(t, root, m, p);
    while (to < m->n && sdb_prefix_covers(p, &m->at[to].prefix))
        to++;
    sdb_lpm_iter it;
    sdb_lpm_iter_within(&it, t->arena.base, root, p);
    assert_iterates(&it, m, at, to);
    sdb_lpm_iter_open(&it, t->arena.base, root);
    const entry *here = at < m->n ? &m->at[at] : NULL;
    assert_at(&it, sdb_lpm_iter_seek(&it, p), here);
    if (here) {
        assert_at(&it, sdb_lpm_iter_next(&it), at + 1 < m->n ? here + 1 : NULL);
        if (at + 1 < m->n)
            assert_at(&it, sdb_lpm_iter_prev(&it), here);
    }
    const entry *below = at > 0 ? &m->at[at - 1] : NULL;
    assert_at(&it, sdb_lpm_iter_seek_below(&it, p), below);
    if (below && here)
        assert_at(&it, sdb_lpm_iter_next(&it), here);
}

/* ---------------------------------------------------------------- prefixes */

static sdb_prefix make(sdb_family family, unsigned bits, uint64_t hi, uint64_t lo)
{
    sdb_prefix p = {.family = (uint8_t)family, .bits = (uint8_t)sdb_family_bits(family)};
    for (int i = 0; i < 8; i++) {
        p.addr[i] = (uint8_t)(hi >> (56 - 8 * i));
        p.addr[i + 8] = (uint8_t)(lo >> (56 - 8 * i));
    }
    memset(p.addr + p.bits / 8, 0, 16u - p.bits / 8);
    sdb_prefix_cut(&p, bits);
    return p;
}

static sdb_prefix parse(const char *text)
{
    sdb_prefix p;
    const char *wrong = sdb_prefix_parse(text, strlen(text), &p);
    if (wrong)
        fail_msg("%s %s", text, wrong);
    return p;
}

enum { SIX_BITS, DENSE_V4, HOSTS, DEEP_V6, SPARSE, MIXED, SHAPES };

static sdb_prefix make_prefix(int shape)
{
    static const uint64_t BASE[] = {0x20010db800000000u, 0x20010db8ffff0000u, 0, UINT64_MAX,
                                    0x5555555555555555u};
    switch (shape) {
    case SIX_BITS:
        return make(SDB_BITS, (unsigned)rnd(7), rnd(64) << 58, 0);
    case DENSE_V4: /* as routes are */
        return make(SDB_IPV4, 18 + (unsigned)rnd(8),
                    (uint64_t)0x0a000000 << 32 | rnd(1 << 14) << 38, 0);
    case HOSTS:
        return make(SDB_IPV4, rnd(8) ? 32 : (unsigned)rnd(33),
                    (uint64_t)0xc0a80000 << 32 | rnd(600) << 32, 0);
    case DEEP_V6: /* every length, one below the other */
        return make(SDB_IPV6, (unsigned)rnd(129), BASE[rnd(5)],
                    BASE[rnd(5)] ^ (uint64_t)1 << rnd(64));
    case SPARSE:
        return make(SDB_IPV6, 16 + (unsigned)rnd(113), rnd(300) * 0x9e3779b97f4a7c15u, 0);
    default: {
        sdb_family family = (sdb_family)rnd(SDB_FAMILIES);
        return make(family, (unsigned)rnd(sdb_family_bits(family) + 1), BASE[rnd(5)] ^ rnd(4) << 60,
                    BASE[rnd(5)]);
    }
    }
}

/* ---------------------------------------------------------------- random changes */

static void model_step(tree *t, model *m, int shape)
{
    static uint32_t links;
    sdb_prefix p = make_prefix(shape);
    if (rnd(100) < (m->n < 400 ? 65 : 35)) {
        sdb_link link = ++links;
        assert_int_equal(tree_put(t, &p, link), model_put(m, &p, link));
    } else {
        if (rnd(2) && m->n)
            p = m->at[rnd(m->n)].prefix;
        sdb_link root = t->root, old = model_del(m, &p);
        size_t retired = t->edit.retired.n;
        assert_int_equal(tree_del(t, &p), old);
        if (!old) { /* a miss copies nothing */
            assert_int_equal(t->root, root);
            assert_int_equal(t->edit.retired.n, retired);
        }
    }
    p = make_prefix(shape);
    assert_seeks(t, t->root, m, &p);
    if (m->n) {
        p = m->at[rnd(m->n)].prefix;
        assert_seeks(t, t->root, m, &p);
    }
}

/* Every now and then a version is kept, and all kept ones are read again after many more changes. */
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
                else if (rnd(20) == 0)
                    t.edit.stamp++; /* a state whose savepoint has gone */
            }
            tree_freeze(&t);
            roots[v] = t.root;
            kept[v] = model_copy(&m);
            for (int o = 0; o <= v; o++) {
                assert_version(&t, roots[o], &kept[o]);
                for (int i = 0; i < 50; i++) {
                    sdb_prefix p = make_prefix(shape);
                    assert_seeks(&t, roots[o], &kept[o], &p);
                }
            }
        }
        for (int v = 0; v < 8; v++)
            free(kept[v].at);
        tree_settle(&t);
        assert_version(&t, t.root, &m);
    }
    while (m.n > 0) {
        entry e = m.at[rnd(m.n)];
        model_del(&m, &e.prefix);
        assert_int_equal(tree_del(&t, &e.prefix), e.link);
        tree_check(&t, m.n);
        if (rnd(3) == 0)
            tree_freeze(&t);
        tree_settle(&t);
    }
    assert_int_equal(t.root, 0);
    assert_int_equal(t.arena.live, 0);
    free(m.at);
    tree_close(&t);
}

/* All 2^15 sets of the 15 prefixes of three bits or less below a stem, each made of the one before by
** one change (a Gray code), asked about all of them; the stem ends before, at and behind the end of
** a node. */
static void test_all_sets(void **state)
{
    (void)state;
    for (unsigned stem = 0; stem < 7; stem++) {
        tree t;
        entry store[16];
        model m = {store, 0};
        sdb_prefix all[15];
        tree_open(&t);
        for (unsigned i = 0, bits = 0; bits <= 3; bits++)
            for (unsigned v = 0; v < 1u << bits; v++)
                all[i++] = make(SDB_BITS, 20 + stem + bits,
                                0xabcdefabcdefabcdu >> (44 - stem) << (44 - stem) |
                                    (uint64_t)v << (44 - stem - bits),
                                0);
        for (uint32_t set = 1; set < 1u << 15; set++) {
            unsigned i = (unsigned)__builtin_ctz(set);
            if (model_del(&m, &all[i])) {
                assert_int_equal(tree_del(&t, &all[i]), i + 1);
            } else {
                model_put(&m, &all[i], i + 1);
                assert_int_equal(tree_put(&t, &all[i], i + 1), 0);
            }
            if (rnd(2))
                tree_freeze(&t);
            tree_settle(&t);
            if (set % 8 == stem) {
                tree_check(&t, m.n);
                for (unsigned k = 0; k < 15; k++)
                    assert_seeks(&t, t.root, &m, &all[k]);
            }
        }
        tree_close(&t);
    }
}

/* ---------------------------------------------------------------- what others got wrong */

static void test_longest_match(void **state)
{
    (void)state;
    static const char *const STORED[] = {"10.0.0.0/8",    "10.1.2.3",    "10.1.0.0/24", "::/0",
                                         "2001:db8::/32", "2001:db8::1", "aa:bb:cc/24", "0x0a/8"};
    static const struct {
        const char *query, *match;
    } CASES[] = {
        {"10.1.2.3", "10.1.2.3"},
        {"10.1.2.4", "10.0.0.0/8"},
        {"10.1.0.0/16", "10.0.0.0/8"}, /* not what it covers itself */
        {"10.1.2.0/24", "10.0.0.0/8"},
        {"10.0.0.0/8", "10.0.0.0/8"},
        {"10.0.0.0/7", NULL},
        {"0.0.0.0/0", NULL},
        {"192.168.0.1", NULL},
        {"10.1.0.9", "10.1.0.0/24"},
        {"::ffff:10.1.0.9", "10.1.0.0/24"},
        {"2001:db8::1", "2001:db8::1"},
        {"2001:db8::2", "2001:db8::/32"},
        {"2001:db8::/64", "2001:db8::/32"},
        {"2001:db8::/31", "::/0"},
        {"::ffff:192.168.0.1", NULL}, /* IPv4, and there is no default route */
        {"aa:bb:cc:dd:ee:ff", "aa:bb:cc/24"},
        {"aa:bb:cd:dd:ee:ff", NULL},
        {"0x0a000001", "0x0a/8"},
        {"0x0b", NULL},
    };
    tree t;
    tree_open(&t);
    for (unsigned i = 0; i < sizeof STORED / sizeof *STORED; i++) {
        sdb_prefix p = parse(STORED[i]);
        tree_put(&t, &p, i + 1);
    }
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        sdb_prefix p = parse(CASES[i].query);
        sdb_link got = sdb_lpm_match(t.arena.base, t.root, &p);
        if (CASES[i].match ? got == 0 || strcmp(STORED[got - 1], CASES[i].match) != 0 : got != 0)
            fail_msg("%s gives %s", CASES[i].query, got ? STORED[got - 1] : "nothing");
    }
    sdb_lpm_iter it; /* a disjoint prefix covers nothing, though it ends inside a path */
    static const char *const DISJOINT[] = {"192.168.0.0/16",  "11.0.0.0/8",  "2001:db9::/32",
                                           "2001:db8:1::/48", "aa:bb:cd/24", "0x0b/8",
                                           "0x0a00/16"};
    for (unsigned i = 0; i < sizeof DISJOINT / sizeof *DISJOINT; i++) {
        sdb_prefix p = parse(DISJOINT[i]);
        sdb_lpm_iter_within(&it, t.arena.base, t.root, &p);
        assert_int_equal(sdb_lpm_iter_first(&it), 0);
        assert_int_equal(sdb_lpm_iter_last(&it), 0);
        assert_int_equal(sdb_lpm_iter_count(&it), 0);
    }
    tree_close(&t);
}

static void test_empty(void **state)
{
    (void)state;
    tree t;
    tree_open(&t);
    sdb_prefix p = parse("10.0.0.0/8"), all = parse("0.0.0.0/0");
    model none = {NULL, 0};
    assert_seeks(&t, 0, &none, &p);
    assert_int_equal(tree_del(&t, &p), 0);
    assert_int_equal(sdb_lpm_count(t.arena.base, 0), 0);
    tree_check(&t, 0);
    entry one[] = {{all, 7}};
    model m = {one, 1};
    assert_int_equal(tree_put(&t, &all, 7), 0);
    assert_int_equal(tree_del(&t, &p), 0);
    assert_seeks(&t, t.root, &m, &p);
    assert_seeks(&t, t.root, &m, &all);
    assert_int_equal(t.arena.live, 16); /* one leaf, and nothing above it */
    t.edit.stamp++;
    assert_int_equal(tree_put(&t, &all, 8), 7);
    assert_int_equal(t.edit.retired.n, 0); /* own, and changed by the present state */
    assert_int_equal(sdb_node_stamp(sdb_at(t.arena.base, t.root)), t.edit.stamp);
    assert_int_equal(tree_del(&t, &all), 8);
    assert_int_equal(t.root, 0);
    tree_close(&t);
}

/* The validator sees what it is there to see. */
static void test_check_can_fail(void **state)
{
    (void)state;
    static const char *const STORED[] = {"10.1.2.0/24", "10.1.2.0/25", "10.1.2.3", "10.1.2.128/25"};
    tree t;
    tree_open(&t);
    for (unsigned i = 0; i < 4; i++) {
        sdb_prefix p = parse(STORED[i]);
        tree_put(&t, &p, i + 1);
    }
    sdb_lpm_iter it;
    sdb_lpm_iter_open(&it, t.arena.base, t.root);
    while (sdb_lpm_iter_next(&it) || !it.link) /* to the leaf of 10.1.2.3, two nodes down */
        if (!it.link)
            sdb_lpm_iter_first(&it);
        else if (it.leaf)
            break;
    assert_int_equal(it.depth, 2);
    sdb_lpm_node *root = sdb_at(t.arena.base, t.root), *node = (void *)(uintptr_t)it.step[1].node;
    sdb_lpm_leaf *leaf = (void *)(uintptr_t)it.leaf;
    assert_ptr_equal(root, it.step[0].node);
    const struct {
        uint64_t *at64; /* or */
        uint32_t *at32;
        uint64_t flip;
        const char *wrong;
    } CASES[] = {
        {&root->head, NULL, (uint64_t)2 << 16, "a node is younger than its parent"},
        {&root->head, NULL, 1 << 7, "a node is of no kind"},
        {&root->head, NULL, 2, "a node is of no kind"},
        {&root->head, NULL, 1 << 8, "a node is at no position of nodes"},
        {NULL, &root->word[0], 1 << 16, "a path is not where it says"},
        {NULL, &root->word[1], 1, "a path has bits behind its end"},
        {NULL, &root->count, 2, "a node's count of prefixes is wrong"},
        {&node->head, NULL, (uint64_t)3 << 16, "a node is younger than its parent"},
        {&node->head, NULL, 1 << 8, "a node is at no position of nodes"},
        {&node->prefixes, NULL, (uint64_t)1 << 62, "a node has a prefix too many"},
        {NULL, &node->count, 1, "a node's count of prefixes is wrong"},
        {NULL, &leaf->link, leaf->link, "a leaf has no link"},
        {NULL, &leaf->path[0], 1 << 8, "a path is not where it says"},
        {&leaf->head, NULL, 64 << 8, "a leaf should be in the node above it"},
    };
    uint64_t n;
    assert_null(sdb_lpm_check(t.arena.base, t.root, 1, &n));
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *wrong = NULL;
        for (int turn = 0; turn < 2; turn++) { /* there and back */
            if (CASES[i].at64)
                *CASES[i].at64 ^= CASES[i].flip;
            else
                *CASES[i].at32 ^= (uint32_t)CASES[i].flip;
            if (turn == 0)
                wrong = sdb_lpm_check(t.arena.base, t.root, 1, &n);
        }
        if (!wrong || strcmp(wrong, CASES[i].wrong) != 0)
            fail_msg("case %u: %s", i, wrong ? wrong : "nothing wrong");
    }
    assert_null(sdb_lpm_check(t.arena.base, t.root, 1, &n));
    tree_close(&t);
}

/* ---------------------------------------------------------------- several rows under a prefix
**
** The tree's links are roots of radix trees by rowid. */

static size_t row_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len, int *byte)
{
    (void)ctx;
    const uint8_t *row = leaf;
    size_t i = 0;
    while (i < len && i < 4 && key[i] == row[8 + i])
        i++;
    *byte = i < 4 ? row[8 + i] : -1;
    return i;
}

static const sdb_leaves ROWS = {row_diff, NULL, NULL};

static void rows_free(void *ctx, sdb_link root)
{
    tree *t = ctx;
    sdb_radix_free(&t->arena, root, 0, NULL, NULL);
}

/* One row put under a prefix, or taken away. */
static void rows_change(tree *t, const sdb_prefix *p, sdb_link row, bool is_put)
{
    const uint8_t *key = (const uint8_t *)sdb_at(t->arena.base, row) + 8;
    size_t bytes = sdb_lpm_need(&t->arena, p) + sdb_radix_need(&t->arena, 4);
    size_t links = sdb_lpm_need_links(p) + sdb_radix_need_links(&t->arena, 4);
    assert_int_equal(sdb_arena_reserve(&t->arena, bytes, true), SDB_OK);
    assert_int_equal(sdb_links_reserve(&t->edit.retired, links), SDB_OK);
    sdb_link rows = sdb_lpm_get(t->arena.base, t->root, p);
    if (is_put)
        sdb_radix_put(&ROWS, &t->edit, &rows, key, 4, row);
    else
        assert_int_equal(sdb_radix_del(&ROWS, &t->edit, &rows, key, 4), row);
    if (rows)
        sdb_lpm_put(&t->edit, &t->root, p, rows);
    else
        sdb_lpm_del(&t->edit, &t->root, p);
}

static void test_many_rows(void **state)
{
    (void)state;
    enum { PREFIXES = 20, ROWS_EACH = 40, VERSIONS = 400 };
    tree t;
    tree_open(&t);
    sdb_prefix p[PREFIXES];
    sdb_link row[ROWS_EACH], root[VERSIONS];
    uint64_t held[VERSIONS][PREFIXES]; /* a bit for each row */
    uint64_t now[PREFIXES] = {0};
    for (unsigned i = 0; i < PREFIXES; i++)
        p[i] = make(SDB_IPV4, 8 + i, (uint64_t)0x0a0f0f0f << 32, 0);
    for (unsigned i = 0; i < ROWS_EACH; i++) {
        assert_int_equal(sdb_arena_alloc(&t.arena, 16, &row[i]), SDB_OK);
        uint8_t *r = sdb_at(t.arena.base, row[i]);
        memset(r, 0, 16);
        r[11] = (uint8_t)i;
    }
    for (unsigned v = 0; v < VERSIONS; v++) {
        for (int k = 0; k < 5; k++) {
            unsigned i = (unsigned)rnd(PREFIXES), r = (unsigned)rnd(rnd(4) ? 3 : ROWS_EACH);
            rows_change(&t, &p[i], row[r], !(now[i] >> r & 1));
            now[i] ^= (uint64_t)1 << r;
        }
        tree_freeze(&t);
        root[v] = t.root;
        memcpy(held[v], now, sizeof now);
    }
    for (unsigned v = 0; v < VERSIONS; v++) { /* each version still has the rows it had */
        for (unsigned i = 0; i < PREFIXES; i++) {
            sdb_link rows = sdb_lpm_get(t.arena.base, root[v], &p[i]);
            sdb_iter it;
            sdb_iter_init(&it);
            sdb_iter_open(&it, &ROWS, t.arena.base, rows);
            uint64_t got = 0;
            for (int rc = sdb_iter_first(&it); rc == SDB_OK; rc = sdb_iter_next(&it))
                got |= (uint64_t)1 << ((const uint8_t *)sdb_at(t.arena.base, it.leaf))[11];
            assert_int_equal(got, held[v][i]);
            sdb_iter_fini(&it);
        }
    }
    tree_settle(&t);
    sdb_lpm_free(&t.arena, t.root, 0, rows_free, &t);
    t.root = 0;
    for (unsigned i = 0; i < ROWS_EACH; i++)
        sdb_arena_free(&t.arena, row[i], 16);
    tree_close(&t);
}

/* What was made after the floor is freed, and nothing else. */
static void test_free_above_floor(void **state)
{
    (void)state;
    tree t;
    tree_open(&t);
    model m = {malloc(1000 * sizeof *m.at), 0};
    for (sdb_link i = 1; i <= 500; i++) {
        sdb_prefix p = make_prefix(MIXED);
        assert_int_equal(tree_put(&t, &p, i), model_put(&m, &p, i));
    }
    tree_freeze(&t);
    sdb_link before = t.root;
    uint64_t live = t.arena.live;
    for (sdb_link i = 1; i <= 200; i++) {
        sdb_prefix p = make_prefix(MIXED);
        if (rnd(2))
            tree_put(&t, &p, i);
        else
            tree_del(&t, &p);
    }
    t.edit.retired.n = 0; /* rolled back: all of it is alive again */
    sdb_lpm_free(&t.arena, t.root, t.edit.floor, NULL, NULL);
    assert_int_equal(t.arena.live, live);
    t.root = before;
    tree_check(&t, m.n);
    assert_version(&t, t.root, &m);
    free(m.at);
    tree_close(&t);
}

/* ---------------------------------------------------------------- a routing table */

static model table_read(void)
{
    model m;
    sdb_prefix *prefixes = prefixes_get(200000, &m.n);
    m.at = malloc(m.n * sizeof *m.at);
    for (size_t i = 0; i < m.n; i++)
        m.at[i] = (entry){.prefix = prefixes[i], .link = (sdb_link)i + 1};
    free(prefixes);
    return m;
}

static void shuffle(uint32_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)rnd(i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
}

/* The longest match, by the entry that is nearest below and the ones that cover that. */
static sdb_link table_match(const model *m, const uint32_t *parent, const sdb_prefix *p)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (sdb_prefix_compare(&m->at[mid].prefix, p) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo > 0 && !sdb_prefix_covers(&m->at[lo - 1].prefix, p))
        lo = parent[lo - 1];
    return (sdb_link)lo;
}

static void test_table(void **state)
{
    (void)state;
    tree t;
    model m = table_read();
    uint32_t *order = malloc(m.n * sizeof *order);
    uint32_t *parent = malloc(m.n * sizeof *parent); /* the link of the next shorter cover, or 0 */
    for (size_t i = 0; i < m.n; i++) {
        uint32_t above = (uint32_t)i;
        while (above > 0 && !sdb_prefix_covers(&m.at[above - 1].prefix, &m.at[i].prefix))
            above = parent[above - 1];
        parent[i] = above;
    }
    tree_open(&t);
    shuffle(order, m.n);
    for (size_t i = 0; i < m.n; i++)
        assert_int_equal(tree_put(&t, &m.at[order[i]].prefix, order[i] + 1), 0);
    tree_check(&t, m.n);
    assert_version(&t, t.root, &m);
    print_message("%zu prefixes, %.2f bytes each\n", m.n, (double)t.arena.live / (double)m.n);
    assert_true(t.arena.live < m.n * 16);
    sdb_prefix some[SDB_GROUP];
    for (int i = 0; i < 300000; i++) { /* addresses and networks near those of the table, and any */
        sdb_prefix p = m.at[rnd(m.n)].prefix;
        unsigned full = sdb_family_bits(p.family),
                 fixed = rnd(4) ? p.bits : (unsigned)rnd(full + 1);
        p.bits = (uint8_t)full;
        for (unsigned bit = fixed; bit < full; bit++)
            p.addr[bit / 8] ^= (uint8_t)(rnd(2) << (7 - bit % 8));
        sdb_prefix_cut(&p, rnd(4) ? full : (unsigned)rnd(full + 1));
        assert_int_equal(sdb_lpm_match(t.arena.base, t.root, &p), table_match(&m, parent, &p));
        some[i % SDB_GROUP] = p;
        if (i % 999 == 0 && i > SDB_GROUP)
            assert_matches(&t, t.root, some, rnd(SDB_GROUP + 1));
    }
    tree_freeze(&t);
    shuffle(order, m.n);
    for (size_t i = 0; i < m.n; i++) {
        assert_int_equal(tree_del(&t, &m.at[order[i]].prefix), order[i] + 1);
        if (i % 1000 == 0) {
            tree_freeze(&t);
            tree_settle(&t);
        }
        if (i % 100000 == 0)
            tree_check(&t, m.n - 1 - i);
    }
    tree_settle(&t);
    assert_int_equal(t.root, 0);
    assert_int_equal(t.arena.live, 0);
    free(order);
    free(parent);
    free(m.at);
    tree_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_longest_match),
        cmocka_unit_test(test_check_can_fail),
        cmocka_unit_test(test_all_sets),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_free_above_floor),
        {"model: six bits", test_against_model, NULL, NULL, (void *)SIX_BITS},
        {"model: dense IPv4", test_against_model, NULL, NULL, (void *)DENSE_V4},
        {"model: hosts", test_against_model, NULL, NULL, (void *)HOSTS},
        {"model: deep IPv6", test_against_model, NULL, NULL, (void *)DEEP_V6},
        {"model: sparse IPv6", test_against_model, NULL, NULL, (void *)SPARSE},
        {"model: all families", test_against_model, NULL, NULL, (void *)MIXED},
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
