/* fuzz_radix.c - bytes as a script of changes to a radix tree, against a sorted array; older
** versions are kept and read again. */
#include "fuzz.h"
#include "leaf.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), abort()))

enum { KEY_MAX = 72, LEAVES = 400, STEPS = 200, KEPT = 4 };

/* ---------------------------------------------------------------- the tree and its model */

/* One version: the root, and the leaves that are in it, in order. */
typedef struct version {
    sdb_link root;
    size_t n, n_retired;
    uint64_t floor;
    sdb_link at[LEAVES];
} version;

typedef struct tree {
    sdb_budget budget;
    sdb_arena arena;
    sdb_edit edit;
    version now, kept[KEPT];
    int n_kept;
} tree;

static leaf *leaf_at(const tree *t, sdb_link link)
{
    return sdb_at(t->arena.base, link);
}

static void leaf_free(tree *t, sdb_link link)
{
    sdb_arena_free(&t->arena, link, leaf_size(leaf_at(t, link)->len));
}

static void leaf_free_young(void *ctx, sdb_link link)
{
    tree *t = ctx;
    if (leaf_at(t, link)->stamp > t->edit.floor)
        leaf_free(t, link);
}

/* A leaf that has left the newest version. */
static void leaf_gone(tree *t, sdb_link link)
{
    if (leaf_at(t, link)->stamp > t->edit.floor)
        leaf_free(t, link);
    else
        sdb_links_push(&t->edit.retired, link);
}

static int compare(const leaf *l, const uint8_t *key, size_t len)
{
    int c = memcmp(l->key, key, l->len < len ? l->len : len);
    return c ? c : l->len < len ? -1 : l->len > len;
}

/* The place of the first leaf that is not below a key. */
static size_t model_find(const tree *t, const uint8_t *key, size_t len, bool *hit)
{
    size_t i = 0;
    while (i < t->now.n && compare(leaf_at(t, t->now.at[i]), key, len) < 0)
        i++;
    *hit = i < t->now.n && compare(leaf_at(t, t->now.at[i]), key, len) == 0;
    return i;
}

static void check_version(const tree *t, const version *v)
{
    uint64_t leaves;
    const char *wrong = sdb_radix_check(&KEYED_LEAVES, t->arena.base, v->root, t->edit.stamp, &leaves);
    sdb_iter it;
    size_t i = 0;
    if (wrong)
        fprintf(stderr, "%s\n", wrong);
    CHECK(!wrong);
    CHECK(leaves == v->n && sdb_radix_count(t->arena.base, v->root) == v->n);
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t->arena.base, v->root);
    for (int rc = sdb_iter_first(&it); rc == SDB_OK; rc = sdb_iter_next(&it), i++)
        CHECK(i < v->n && it.leaf == v->at[i]);
    CHECK(i == v->n);
    CHECK(sdb_radix_last(t->arena.base, v->root) == (i ? v->at[i - 1] : 0));
    for (int rc = sdb_iter_last(&it); rc == SDB_OK; rc = sdb_iter_prev(&it))
        CHECK(i > 0 && it.leaf == v->at[--i]);
    CHECK(i == 0);
    sdb_iter_fini(&it);
}

/* ---------------------------------------------------------------- steps */

/* A run of equal bytes, then some bytes of few values or of all: keys that have long parts in
** common, keys that begin others, and full nodes. */
static size_t input_key(input *in, uint8_t *key)
{
    uint8_t shape = input_byte(in);
    size_t len = (size_t)(shape & 7) * (shape & 64 ? 9 : 1);
    memset(key, 'x', len);
    for (int n = shape >> 3 & 7; n > 0; n--) {
        uint8_t b = input_byte(in);
        key[len++] = shape & 128 ? b : "xy\0\377"[b & 3];
    }
    return len;
}

static void reserve(tree *t, size_t len)
{
    CHECK(sdb_arena_reserve(&t->arena, sdb_radix_need(&t->arena, len), false) == SDB_OK);
    CHECK(sdb_links_reserve(&t->edit.retired, sdb_radix_need_links(&t->arena, len) + 1) == SDB_OK);
}

static void step_put(tree *t, const uint8_t *key, size_t len, bool is_known)
{
    bool hit;
    size_t at = model_find(t, key, len, &hit);
    sdb_link link;
    if (!hit && t->now.n == LEAVES)
        return;
    reserve(t, len);
    CHECK(sdb_arena_alloc(&t->arena, leaf_size(len), &link) == SDB_OK);
    leaf *l = leaf_at(t, link);
    l->stamp = t->edit.stamp;
    l->len = (uint32_t)len;
    memcpy(l->key, key, len);
    uint64_t live = t->arena.live, need = sdb_radix_need(&t->arena, len);
    sdb_link old = hit ? t->now.at[at] : 0;
    if (is_known && hit)
        sdb_radix_replace(&t->edit, &t->now.root, key, len, old, link);
    else
        CHECK(sdb_radix_put(&KEYED_LEAVES, &t->edit, &t->now.root, key, len, link) == old);
    CHECK(t->arena.live <= live + need);
    if (hit) {
        leaf_gone(t, old);
    } else {
        memmove(t->now.at + at + 1, t->now.at + at, (t->now.n - at) * sizeof *t->now.at);
        t->now.n++;
    }
    t->now.at[at] = link;
}

static void step_del(tree *t, const uint8_t *key, size_t len, bool is_known)
{
    bool hit;
    size_t at = model_find(t, key, len, &hit);
    sdb_link want = hit ? t->now.at[at] : 0, root = t->now.root;
    reserve(t, len);
    if (is_known && hit) {
        sdb_radix_take(&t->edit, &t->now.root, key, len, want);
    } else {
        CHECK(sdb_radix_del(&KEYED_LEAVES, &t->edit, &t->now.root, key, len) == want);
        CHECK(hit || t->now.root == root);
    }
    if (!hit)
        return;
    leaf_gone(t, want);
    t->now.n--;
    memmove(t->now.at + at, t->now.at + at + 1, (t->now.n - at) * sizeof *t->now.at);
}

static void step_seek(const tree *t, const uint8_t *key, size_t len)
{
    bool hit;
    size_t at = model_find(t, key, len, &hit), end = at, n = t->now.n;
    const sdb_link *leaves = t->now.at;
    sdb_iter it;
    CHECK(sdb_radix_get(&KEYED_LEAVES, t->arena.base, t->now.root, key, len) == (hit ? leaves[at] : 0));
    CHECK(sdb_radix_rank(&KEYED_LEAVES, t->arena.base, t->now.root, key, len) == at);
    sdb_iter_init(&it);
    sdb_iter_open(&it, &KEYED_LEAVES, t->arena.base, t->now.root);
    CHECK(sdb_iter_seek(&it, key, len) == (at < n ? SDB_OK : SDB_DONE));
    CHECK(at == n || it.leaf == leaves[at]);
    CHECK(at == n || sdb_iter_prev(&it) == (at > 0 ? SDB_OK : SDB_DONE));
    CHECK(at == n || at == 0 || it.leaf == leaves[at - 1]);
    CHECK(sdb_iter_seek_below(&it, key, len) == (at > 0 ? SDB_OK : SDB_DONE));
    CHECK(at == 0 || it.leaf == leaves[at - 1]);
    CHECK(at == 0 || sdb_iter_next(&it) == (at < n ? SDB_OK : SDB_DONE));
    CHECK(at == 0 || at == n || it.leaf == leaves[at]);
    while (end < n && leaf_at(t, leaves[end])->len >= len &&
           memcmp(leaf_at(t, leaves[end])->key, key, len) == 0)
        end++;
    for (int back = 0; back < 2; back++) {
        size_t i = 0;
        for (int rc = sdb_iter_prefix(&it, key, len, back); rc == SDB_OK; i++) {
            CHECK(at + i < end && it.leaf == leaves[back ? end - 1 - i : at + i]);
            rc = back ? sdb_iter_prev(&it) : sdb_iter_next(&it);
        }
        CHECK(i == end - at);
    }
    sdb_iter_fini(&it);
}

/* As a savepoint: all that is there becomes immutable. */
static void step_keep(tree *t)
{
    if (t->n_kept == KEPT)
        return;
    t->now.floor = t->edit.floor;
    t->now.n_retired = t->edit.retired.n;
    t->kept[t->n_kept++] = t->now;
    t->edit.floor = t->edit.stamp++;
}

/* Back to the version kept last, which may be gone back to again. */
static void step_back(tree *t)
{
    if (t->n_kept == 0)
        return;
    sdb_radix_free(&t->arena, t->now.root, t->edit.floor, leaf_free_young, t);
    t->now = t->kept[t->n_kept - 1];
    t->edit.retired.n = t->now.n_retired;
}

/* As a commit that no reader sees behind: what was retired is freed. */
static void step_settle(tree *t)
{
    for (size_t i = 0; i < t->edit.retired.n; i++) {
        sdb_link link = t->edit.retired.at[i];
        if (link & SDB_LEAF)
            leaf_free(t, link);
        else
            sdb_arena_free(&t->arena, link, sdb_node_size[sdb_node_kind(sdb_at(t->arena.base, link))]);
    }
    t->edit.retired.n = 0;
    t->n_kept = 0;
    t->edit.floor = t->edit.stamp++;
}

static void step_drop(tree *t)
{
    CHECK(sdb_radix_retire(&t->edit, t->now.root) == SDB_OK);
    CHECK(sdb_links_reserve(&t->edit.retired, t->now.n) == SDB_OK);
    for (size_t i = 0; i < t->now.n; i++)
        leaf_gone(t, t->now.at[i]);
    t->now.root = 0;
    t->now.n = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tree t;
    input in = {data, size};
    uint8_t key[KEY_MAX];
    memset(&t, 0, sizeof t);
    CHECK(sdb_arena_init(&t.arena, &t.budget) == SDB_OK);
    t.edit.arena = &t.arena;
    t.edit.stamp = 1;
    for (int step = 0; in.n && step < STEPS; step++) {
        uint8_t what = input_byte(&in) % 16;
        size_t len = what < 13 ? input_key(&in, key) : 0;
        if (what < 6)
            step_put(&t, key, len, what & 1);
        else if (what < 10)
            step_del(&t, key, len, what & 1);
        else if (what == 10) { /* all keys with one more byte: a node grows through all kinds */
            uint8_t from = input_byte(&in);
            for (int n = input_byte(&in); n > 0; n--) {
                key[len] = from++;
                step_put(&t, key, len + 1, n & 1);
            }
        } else if (what == 11) {
            uint8_t from = input_byte(&in);
            for (int n = input_byte(&in); n > 0; n--) {
                key[len] = from++;
                step_del(&t, key, len + 1, n & 1);
            }
        } else if (what == 12)
            step_seek(&t, key, len);
        else if (what == 13)
            step_keep(&t);
        else if (what == 14)
            step_back(&t);
        else if (input_byte(&in) % 4)
            step_settle(&t);
        else
            step_drop(&t);
        check_version(&t, &t.now);
        for (int i = 0; i < t.n_kept && (step % 8 == 0 || !in.n); i++)
            check_version(&t, &t.kept[i]);
        CHECK(!sdb_arena_check(&t.arena));
    }
    step_settle(&t);
    t.edit.floor = 0;
    sdb_radix_free(&t.arena, t.now.root, 0, leaf_free_young, &t);
    CHECK(t.arena.live == 0 && !sdb_arena_check(&t.arena));
    sdb_links_fini(&t.edit.retired);
    sdb_arena_fini(&t.arena);
    CHECK(t.budget.used == 0 && sdb_mem_blocks() == 0);
    return 0;
}
