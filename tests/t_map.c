/* t_map.c - persistent maps against sorted arrays: any number of them, made from each other in any
** order and let go in any other, and memory that holds just what they see. */
#include "random.h"

#include "../core/map.h"
#include "../core/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t live(sdb_map_space *space)
{
    sdb_memory used;
    sdb_map_space_memory(space, &used);
    return used.live;
}

static void space_close(sdb_map_space *space)
{
    assert_int_equal(live(space), 0);
    sdb_map_space_free(space);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- the model */

enum { KEYS = 200, KEY = 40 };

typedef struct model {
    int64_t value[KEYS]; /* by key, in their order; -1: not there */
    uint64_t n;
} model;

static uint8_t key_at[KEYS][KEY];
static size_t key_len[KEYS];

static int key_compare(const void *a, const void *b)
{
    return memcmp(a, b, KEY);
}

/* The empty key, prefixes of each other, long common parts, no zeros: so memcmp of the padded keys
** is their order. */
static void keys_make(void)
{
    int n = 0;
    rng = 42;
    memset(key_at, 0, sizeof key_at);
    while (n < KEYS) {
        uint8_t k[KEY] = {0};
        size_t len = n == 0 ? 0 : n % 3 == 0 ? 1 + rnd(3) : n % 3 == 1 ? 20 + rnd(19) : 1 + rnd(10);
        for (size_t i = 0; i < len; i++)
            k[i] = n % 3 == 0              ? (uint8_t)(1 + rnd(255))
                   : n % 3 == 1 && rnd(25) ? 'x'
                                           : (uint8_t)('a' + rnd(2));
        bool is_new = true;
        for (int i = 0; i < n; i++)
            is_new &= memcmp(key_at[i], k, KEY) != 0;
        if (is_new)
            memcpy(key_at[n++], k, KEY);
    }
    qsort(key_at, KEYS, KEY, key_compare);
    for (int i = 0; i < KEYS; i++)
        key_len[i] = strlen((const char *)key_at[i]);
}

static void model_set(model *m, int k, int64_t value)
{
    m->n += (uint64_t)(value >= 0) - (uint64_t)(m->value[k] >= 0);
    m->value[k] = value;
}

static void model_clear(model *m)
{
    memset(m->value, 0xff, sizeof m->value);
    m->n = 0;
}

/* Whether an iteration from here on gives the model's keys [from, KEYS) that begin with
** `prefix`. */
static void assert_iter(sdb_map_iter *it, int rc, const model *m, int from, int prefix)
{
    for (int k = from; k < KEYS; k++) {
        size_t len;
        if (m->value[k] < 0)
            continue;
        if (prefix >= 0 &&
            (key_len[k] < key_len[prefix] || memcmp(key_at[k], key_at[prefix], key_len[prefix])))
            continue;
        assert_int_equal(rc, SDB_OK);
        const void *key = sdb_map_iter_key(it, &len);
        assert_int_equal(len, key_len[k]);
        assert_memory_equal(key, key_at[k], len);
        assert_int_equal(sdb_map_iter_value(it), m->value[k]);
        rc = sdb_map_iter_next(it);
    }
    assert_int_equal(rc, SDB_DONE);
}

static void assert_map(sdb_map *map, const model *m)
{
    sdb_map_iter *it;
    const char *wrong = sdb_map_check(map);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(sdb_map_count(map), m->n);
    assert_int_equal(sdb_map_iter_new(map, &it), SDB_OK);
    assert_iter(it, sdb_map_iter_first(it), m, 0, -1);
    int k = (int)rnd(KEYS);
    assert_iter(it, sdb_map_iter_seek(it, key_at[k], key_len[k]), m, k, -1);
    assert_iter(it, sdb_map_iter_prefix(it, key_at[k], key_len[k]), m, 0, k);
    sdb_map_iter_free(it);
    uint64_t value = 0;
    bool is_there = sdb_map_get(map, key_at[k], key_len[k], &value);
    assert_int_equal(is_there, m->value[k] >= 0);
    assert_int_equal(sdb_map_get(map, key_at[k], key_len[k], NULL), is_there);
    if (is_there)
        assert_int_equal(value, m->value[k]);
}

/* ---------------------------------------------------------------- many maps of one space */

enum { MAPS = 24 };

typedef struct world {
    sdb_map_space *space;
    sdb_map *map[MAPS];     /* or NULL */
    sdb_map_txn *txn[MAPS]; /* a map to be, in the place of one */
    model model[MAPS];
} world;

static void world_drop(world *w, int i)
{
    if (w->txn[i])
        sdb_map_txn_abort(w->txn[i]);
    sdb_map_unref(w->map[i]);
    w->map[i] = NULL;
    w->txn[i] = NULL;
}

static void step_txn(world *w, int i)
{
    sdb_map_txn *txn = w->txn[i];
    model *m = &w->model[i];
    for (int n = (int)rnd(6); n > 0; n--) {
        int k = (int)rnd(KEYS);
        if (rnd(3)) {
            int64_t value = (int64_t)rnd(4);
            assert_int_equal(sdb_map_txn_put(txn, key_at[k], key_len[k], (uint64_t)value), SDB_OK);
            model_set(m, k, value);
        } else {
            assert_int_equal(sdb_map_txn_delete(txn, key_at[k], key_len[k]),
                             m->value[k] >= 0 ? SDB_OK : SDB_DONE);
            model_set(m, k, -1);
        }
        uint64_t value = 0;
        k = (int)rnd(KEYS);
        assert_int_equal(sdb_map_txn_get(txn, key_at[k], key_len[k], &value), m->value[k] >= 0);
        assert_true(m->value[k] < 0 || value == (uint64_t)m->value[k]);
    }
    assert_int_equal(sdb_map_txn_count(txn), m->n);
    if (rnd(4) == 0) {
        w->map[i] = sdb_map_txn_commit(txn);
        w->txn[i] = NULL;
    }
}

static void step_derive(world *w, int i, int from)
{
    sdb_map *source = w->map[from], *made = NULL;
    model m = w->model[from];
    const model *other = &w->model[i];
    int k = (int)rnd(KEYS);
    switch (rnd(6)) {
    case 0:
        assert_int_equal(sdb_map_delete(source, key_at[k], key_len[k], &made), SDB_OK);
        assert_int_equal(made == source, m.value[k] < 0);
        model_set(&m, k, -1);
        break;
    case 1:
        assert_int_equal(sdb_map_begin(source, &w->txn[i]), SDB_OK);
        sdb_map_unref(w->map[i]);
        w->map[i] = NULL;
        w->model[i] = m;
        return;
    case 2:
        if (!w->map[i])
            return;
        assert_int_equal(sdb_map_union(source, w->map[i], &made), SDB_OK);
        for (k = 0; k < KEYS; k++)
            if (other->value[k] >= 0)
                model_set(&m, k, other->value[k]);
        break;
    case 3:
        if (!w->map[i])
            return;
        assert_int_equal(sdb_map_difference(source, w->map[i], &made), SDB_OK);
        for (k = 0; k < KEYS; k++)
            if (other->value[k] >= 0)
                model_set(&m, k, -1);
        break;
    default: {
        int64_t value = (int64_t)rnd(4);
        assert_int_equal(sdb_map_put(source, key_at[k], key_len[k], (uint64_t)value, &made),
                         SDB_OK);
        assert_int_equal(made == source, m.value[k] == value);
        model_set(&m, k, value);
        break;
    }
    }
    world_drop(w, i);
    w->map[i] = made;
    w->model[i] = m;
}

static void step_equal(world *w, int i, int other)
{
    bool is_equal,
        want = w->model[i].n == w->model[other].n &&
               memcmp(w->model[i].value, w->model[other].value, sizeof w->model[i].value) == 0;
    if (!w->map[i] || !w->map[other])
        return;
    assert_int_equal(sdb_map_equal(w->map[i], w->map[other], &is_equal), SDB_OK);
    assert_int_equal(is_equal, want);
}

static void world_step(world *w)
{
    int i = (int)rnd(MAPS), other = (int)rnd(MAPS);
    if (w->txn[i]) {
        if (rnd(10))
            step_txn(w, i);
        else
            world_drop(w, i);
    } else if (!w->map[i] && rnd(10) == 0) {
        assert_int_equal(sdb_map_new(w->space, &w->map[i]), SDB_OK);
        model_clear(&w->model[i]);
    } else if (rnd(3) == 0) {
        world_drop(w, i);
    } else if (rnd(8) == 0 && w->map[i]) {
        step_equal(w, i, other);
    } else if (w->map[other] && !w->txn[i]) {
        step_derive(w, i, other);
    }
}

static void test_model(void **state)
{
    (void)state;
    keys_make();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static world w;
        memset(&w, 0, sizeof w);
        rng = seed * 0x9e3779b97f4a7c15u;
        assert_int_equal(sdb_map_space_new(&w.space), SDB_OK);
        for (int step = 0; step < 3000; step++) {
            world_step(&w);
            for (int i = 0; i < MAPS; i++)
                if (w.map[i] && step % 7 == i % 7)
                    assert_map(w.map[i], &w.model[i]);
        }
        for (int i = MAPS - 1; i >= 0; i--) {
            world_drop(&w, (i * 7 + 3) % MAPS);
            for (int k = 0; k < MAPS; k++)
                if (w.map[k])
                    assert_map(w.map[k], &w.model[k]);
        }
        space_close(w.space);
    }
}

/* ---------------------------------------------------------------- forms */

static sdb_map *put(sdb_map *map, const char *key, uint64_t value)
{
    sdb_map *made;
    assert_int_equal(sdb_map_put(map, key, strlen(key), value, &made), SDB_OK);
    return made;
}

/* Empty, one key, two, and back; a transaction begun again and again leaves its map as it was. */
static void test_small(void **state)
{
    (void)state;
    sdb_map_space *space;
    sdb_map *m[6];
    uint64_t value;
    assert_int_equal(sdb_map_space_new(&space), SDB_OK);
    assert_int_equal(sdb_map_new(space, &m[0]), SDB_OK);
    assert_int_equal(live(space), 0);
    m[1] = put(m[0], "a", 1);
    assert_int_equal(live(space), 24); /* a leaf, no tree */
    m[2] = put(m[1], "a", 2);          /* over the only key */
    assert_int_equal(live(space), 48);
    m[3] = put(m[2], "b", 3);
    assert_int_equal(sdb_map_delete(m[3], "a", 1, &m[4]), SDB_OK);
    assert_int_equal(sdb_map_delete(m[4], "b", 1, &m[5]), SDB_OK);
    static const uint64_t counts[] = {0, 1, 1, 2, 1, 0};
    for (int i = 0; i < 6; i++)
        assert_int_equal(sdb_map_count(m[i]), counts[i]);
    for (int i = 1; i < 4; i++) { /* of one key, of two: never changed by a transaction */
        for (int k = 0; k < 3; k++) {
            sdb_map_txn *txn;
            assert_int_equal(sdb_map_begin(m[i], &txn), SDB_OK);
            assert_int_equal(sdb_map_txn_put(txn, "a", 1, 10 + (uint64_t)k), SDB_OK);
            assert_int_equal(sdb_map_txn_put(txn, "a", 1, 20), SDB_OK);
            assert_int_equal(sdb_map_txn_delete(txn, "b", 1), i == 3 ? SDB_OK : SDB_DONE);
            if (k == 2)
                sdb_map_unref(sdb_map_txn_commit(txn));
            else
                sdb_map_txn_abort(txn);
        }
        assert_true(sdb_map_get(m[i], "a", 1, &value));
        assert_int_equal(value, i == 1 ? 1 : 2);
    }
    bool is_equal;
    assert_int_equal(sdb_map_equal(m[0], m[5], &is_equal), SDB_OK);
    assert_true(is_equal);
    assert_int_equal(sdb_map_put(m[0], "a", (size_t)SDB_MAX_ROW + 1, 1, &m[0]), SDB_TOOBIG);
    for (int i = 0; i < 6; i++)
        sdb_map_unref(m[(i * 5 + 2) % 6]);
    space_close(space);
}

/* Sets, and two spaces. */
static void test_sets(void **state)
{
    (void)state;
    sdb_map_space *space[2];
    sdb_map *empty[2], *abc[2], *bcd[2], *out;
    bool is_equal;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sdb_map_space_new(&space[i]), SDB_OK);
        assert_int_equal(sdb_map_new(space[i], &empty[i]), SDB_OK);
        sdb_map_txn *txn;
        for (int k = 0; k < 2; k++) {
            assert_int_equal(sdb_map_begin(empty[i], &txn), SDB_OK);
            for (char c = (char)('a' + k); c < 'd' + k; c++)
                assert_int_equal(sdb_map_txn_put(txn, &c, 1, 0), SDB_OK);
            *(k ? &bcd[i] : &abc[i]) = sdb_map_txn_commit(txn);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sdb_map_union(abc[0], bcd[i], &out), SDB_OK);
        assert_int_equal(sdb_map_count(out), 4);
        sdb_map_unref(out);
        assert_int_equal(sdb_map_difference(abc[0], bcd[i], &out), SDB_OK);
        assert_int_equal(sdb_map_count(out), 1);
        assert_true(sdb_map_get(out, "a", 1, NULL));
        sdb_map_unref(out);
        assert_int_equal(sdb_map_union(empty[0], bcd[i], &out), SDB_OK);
        assert_int_equal(out == bcd[0], i == 0); /* shared where it can be */
        assert_int_equal(sdb_map_equal(out, bcd[1], &is_equal), SDB_OK);
        assert_true(is_equal);
        sdb_map_unref(out);
        assert_int_equal(sdb_map_equal(abc[0], bcd[i], &is_equal), SDB_OK);
        assert_false(is_equal);
        assert_int_equal(sdb_map_difference(abc[i], abc[0], &out), SDB_OK);
        assert_int_equal(sdb_map_equal(out, empty[0], &is_equal), SDB_OK);
        assert_true(is_equal);
        sdb_map_unref(out);
    }
    for (int i = 0; i < 2; i++) {
        sdb_map_unref(abc[i]);
        sdb_map_unref(bcd[i]);
        sdb_map_unref(empty[i]);
        assert_int_equal(live(space[i]), 0);
        sdb_map_space_free(space[i]);
    }
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* ---------------------------------------------------------------- memory */

static sdb_map *number(sdb_map *map, uint64_t key, uint64_t value)
{
    uint8_t bytes[8];
    sdb_map *made;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(key >> (56 - 8 * i));
    assert_int_equal(sdb_map_put(map, bytes, 8, value, &made), SDB_OK);
    return made;
}

/* In a line of descent just what held maps see is in memory: an old one and a new one cost two maps
** at most, however many came between; the old one gone, it is as if it had never been. */
static void test_line(void **state)
{
    (void)state;
    enum { N = 2000 };
    sdb_map_space *space;
    sdb_map *old, *now, *next;
    assert_int_equal(sdb_map_space_new(&space), SDB_OK);
    assert_int_equal(sdb_map_new(space, &now), SDB_OK);
    for (uint64_t i = 0; i < N; i++) {
        next = number(now, i, 0);
        sdb_map_unref(now);
        now = next;
    }
    uint64_t one = live(space);
    old = sdb_map_ref(now);
    rng = 5;
    for (int i = 0; i < 30 * N; i++) {
        next = number(now, rnd(N), (uint64_t)i + 1);
        sdb_map_unref(now);
        now = next;
    }
    assert_true(live(space) <= 2 * one);
    uint64_t sum = 0;
    sdb_map_iter *it;
    assert_int_equal(sdb_map_iter_new(old, &it), SDB_OK);
    for (int rc = sdb_map_iter_first(it); rc == SDB_OK; rc = sdb_map_iter_next(it))
        sum += sdb_map_iter_value(it);
    assert_int_equal(sum, 0);
    sdb_map_unref(old);
    assert_true(live(space) > one); /* the iterator keeps it */
    sdb_map_iter_free(it);
    assert_int_equal(live(space), one);
    sdb_map_unref(now);
    space_close(space);
}

/* Branches from one map, whose holder has gone: what is left when all but one branch have gone is
** that branch alone. */
static void test_branches(void **state)
{
    (void)state;
    enum { N = 500, BRANCHES = 20 };
    sdb_map_space *space;
    sdb_map *trunk, *next, *branch[BRANCHES];
    for (int last = 0; last < BRANCHES; last++) {
        assert_int_equal(sdb_map_space_new(&space), SDB_OK);
        assert_int_equal(sdb_map_new(space, &trunk), SDB_OK);
        for (uint64_t i = 0; i < N; i++) {
            next = number(trunk, i, 0);
            sdb_map_unref(trunk);
            trunk = next;
        }
        uint64_t one = live(space);
        for (int b = 0; b < BRANCHES; b++) { /* every second from the one before */
            branch[b] = sdb_map_ref(b % 2 ? branch[b - 1] : trunk);
            for (uint64_t i = 0; i < N; i += 2) {
                next = number(branch[b], i, (uint64_t)b + 1);
                sdb_map_unref(branch[b]);
                branch[b] = next;
            }
        }
        sdb_map_unref(trunk);
        for (int b = 0; b < BRANCHES; b++)
            if (b != last)
                sdb_map_unref(branch[b]);
        assert_int_equal(live(space), one);
        sdb_map_unref(branch[last]);
        space_close(space);
    }
}

/* A transaction whose map is let go while it is open. */
static void test_orphan(void **state)
{
    (void)state;
    sdb_map_space *space;
    sdb_map *empty, *m;
    sdb_map_txn *txn;
    assert_int_equal(sdb_map_space_new(&space), SDB_OK);
    assert_int_equal(sdb_map_new(space, &empty), SDB_OK);
    m = put(empty, "a", 1);
    sdb_map_unref(empty);
    assert_int_equal(sdb_map_begin(m, &txn), SDB_OK);
    assert_int_equal(sdb_map_txn_put(txn, "b", 1, 2), SDB_OK);
    assert_int_equal(sdb_map_txn_put(txn, "a", 1, 3), SDB_OK);
    sdb_map_unref(m);
    assert_int_equal(sdb_map_txn_put(txn, "a", 1, 4), SDB_OK);
    assert_int_equal(sdb_map_txn_delete(txn, "b", 1), SDB_OK);
    m = sdb_map_txn_commit(txn);
    uint64_t value;
    assert_true(sdb_map_get(m, "a", 1, &value));
    assert_int_equal(value, 4);
    assert_int_equal(live(space), 24);
    assert_int_equal(sdb_map_begin(m, &txn), SDB_OK);
    assert_int_equal(sdb_map_txn_put(txn, "a", 1, 4), SDB_OK); /* nothing new: nothing made */
    assert_int_equal(live(space), 24);
    sdb_map_txn_abort(txn);
    sdb_map_unref(m);
    space_close(space);
}

/* ---------------------------------------------------------------- no memory */

/* Maps made and let go until something fails, now and then in the letting go itself, which then
** only takes longer. */
static int script(void)
{
    sdb_map_space *space = NULL;
    sdb_map *m[8] = {NULL}, *made;
    sdb_map_txn *txn = NULL;
    sdb_map_iter *it = NULL;
    bool is_equal;
    int rc = sdb_map_space_new(&space);
    if (rc == SDB_OK)
        rc = sdb_map_new(space, &m[0]);
    for (int i = 0; i < 60 && rc == SDB_OK; i++) {
        int from = i % 3 ? (i - 1) % 8 : i / 4 % 8, to = i % 8;
        if (!m[from])
            continue;
        rc = sdb_map_put(m[from], key_at[i], key_len[i], (uint64_t)i, &made);
        if (rc != SDB_OK)
            break;
        sdb_map_unref(m[to]);
        m[to] = made;
        if (i % 10 == 9)
            rc = sdb_map_union(m[to], m[(to + 3) % 8], &made);
        else if (i % 10 == 4)
            rc = sdb_map_delete(m[to], key_at[i / 2], key_len[i / 2], &made);
        else
            continue;
        if (rc == SDB_OK) {
            sdb_map_unref(m[to]);
            m[to] = made;
        }
    }
    if (rc == SDB_OK)
        rc = sdb_map_equal(m[0], m[1], &is_equal);
    if (rc == SDB_OK)
        rc = sdb_map_begin(m[2], &txn);
    for (int i = 0; i < 20 && rc >= 0; i++) {
        uint64_t n = sdb_map_txn_count(txn);
        bool is_there = sdb_map_txn_get(txn, key_at[i], key_len[i], NULL);
        rc = i % 3 ? sdb_map_txn_put(txn, key_at[i], key_len[i], 7)
                   : sdb_map_txn_delete(txn, key_at[i], key_len[i]);
        if (rc == SDB_OK)
            n += i % 3 ? !is_there : -(uint64_t)is_there;
        assert_int_equal(sdb_map_txn_count(txn), n);
    }
    if (rc >= 0)
        rc = sdb_map_iter_new(m[3], &it);
    sdb_map_txn_abort(txn);
    for (int i = 0; i < 4; i++) /* the first of them under the injection still */
        sdb_map_unref(m[i]);
    sdb_mem_inject(0, false);
    sdb_map_iter_free(it);
    for (int i = 4; i < 8; i++) {
        const char *wrong = m[i] ? sdb_map_check(m[i]) : NULL;
        if (wrong)
            fail_msg("%s", wrong);
        sdb_map_unref(m[i]);
    }
    if (space)
        space_close(space);
    assert_int_equal(sdb_mem_blocks(), 0);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    keys_make();
    for (int persistent = 0; persistent < 2; persistent++) {
        int64_t n = 1, n_failed = 0, n_more = 0;
        for (; n_more < 20;
             n++) { /* where only a release fails, the script goes on: look further */
            assert_true(n < 5000);
            sdb_mem_inject(n, persistent);
            int rc = script();
            assert_true(rc >= 0 || rc == SDB_NOMEM);
            n_failed += rc == SDB_NOMEM;
            n_more = rc == SDB_NOMEM ? 0 : n_more + 1;
        }
        assert_true(n_failed > 100);
    }
}

/* ---------------------------------------------------------------- threads */

enum { THREADS = 4, TIMES = 1500 };

typedef struct shared {
    pthread_mutex_t mutex;
    sdb_map *map;
} shared;

/* Take the common map, read it, make another of it, put that in its place. */
static void *share(void *arg)
{
    shared *s = arg;
    uint64_t seed = (uint64_t)(uintptr_t)&seed, wrong = 0;
    for (int i = 0; i < TIMES; i++) {
        sdb_map *mine, *made = NULL;
        sdb_map_iter *it;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t k = seed >> 33;
        pthread_mutex_lock(&s->mutex);
        mine = sdb_map_ref(s->map);
        pthread_mutex_unlock(&s->mutex);
        char key[20];
        int len = snprintf(key, sizeof key, "%d", (int)(k % 300));
        wrong += sdb_map_put(mine, key, (size_t)len, k % 300, &made) != SDB_OK;
        if (sdb_map_iter_new(mine, &it) == SDB_OK) {
            uint64_t n = 0;
            for (int rc = sdb_map_iter_first(it); rc == SDB_OK; rc = sdb_map_iter_next(it), n++) {
                size_t key_n;
                char text[20] = "";
                const void *p = sdb_map_iter_key(it, &key_n);
                memcpy(text, p, key_n);
                wrong += strtoull(text, NULL, 10) != sdb_map_iter_value(it);
            }
            wrong += n != sdb_map_count(mine);
            sdb_map_iter_free(it);
        }
        pthread_mutex_lock(&s->mutex);
        sdb_map *old = s->map;
        s->map = made;
        pthread_mutex_unlock(&s->mutex);
        sdb_map_unref(old);
        sdb_map_unref(mine);
    }
    return (void *)(uintptr_t)wrong;
}

static void test_threads(void **state)
{
    (void)state;
    sdb_map_space *space;
    pthread_t thread[THREADS];
    shared s;
    pthread_mutex_init(&s.mutex, NULL);
    assert_int_equal(sdb_map_space_new(&space), SDB_OK);
    assert_int_equal(sdb_map_new(space, &s.map), SDB_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, share, &s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
    sdb_map_unref(s.map);
    pthread_mutex_destroy(&s.mutex);
    space_close(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),     cmocka_unit_test(test_small),
        cmocka_unit_test(test_sets),      cmocka_unit_test(test_line),
        cmocka_unit_test(test_branches),  cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
