/* map.c - persistent maps: trees that share one arena, and when their memory is free (see map.h).
**
** Maps are made from maps, so they form a tree of descent (several trees: each empty map begins
** one). Every map has a stamp above its parent's. The nodes and leaves it was made with bear it;
** those that it has not taken over from its parent are in its list `retired`, as ZFS keeps for a
** clone. Both are what the tree functions give anyway (sdb_edit).
**
** Let BORN(m) be the objects of m's tree with a stamp above m's floor, the stamp of its parent (0
** for none). While every map of the descent is there, three things hold, since a change takes what
** it does not make from the parent alone:
**
**   (1) BORN(m) is seen by m and its descendants, by no other map;
**   (2) m's tree is BORN(m), and what its parent sees but for RETIRED(m);
**   (3) RETIRED(m) is seen neither by m nor by its descendants: what has left a tree does not come
**       back.
**
** A map that nobody holds any more is taken out of the descent, when it has
**
**   no child:   BORN(m) is seen by nobody, by (1): free it. Then m is gone, RETIRED(m) belongs to
**               the parent and is forgotten.
**   one child:  the child c takes m's place. Of RETIRED(c), what was in BORN(m) is seen by nobody,
**               by (1) and (3), and is freed. The rest m had from its parent; so with RETIRED(m) it
**               is now what c has not taken over from that one. c's floor sinks to m's, and BORN(c)
**               is then the former BORN(c) and what is left of BORN(m): (1) to (3) hold again.
**               Nothing is copied or renumbered: a stamp that lies between the new floor and c's
**               own is c's.
**   more:       it stays, unheld, for what its children have in common, until one child is left.
**
** So there are fewer unheld maps than held ones, and in a line of descent, where no map has two
** children, exactly what held maps see is in memory. A transaction is a map that is not finished:
** its parent may go meanwhile, and then what it had from there it may edit in place.
**
** The mutex guards the descent, the arena and all changes. Held and finished maps are read without
** it: nothing of what they see changes or goes. */
#include "map.h"

#include "mem.h"
#include "radix.h"

#include <assert.h>
#include <pthread.h>

struct sdb_map_space {
    pthread_mutex_t mutex;
    sdb_budget budget;
    sdb_arena arena;
    uint64_t clock;
    uint64_t n_maps;
    bool is_closed; /* the last map frees it */
    sdb_map *idle;  /* by `next`: to be used again, with the room of their lists */
    int n_idle;
};

struct sdb_map {
    sdb_map_space *space;
    _Atomic int n_ref;
    bool is_held; /* n_ref is above 0, as far as the mutex's owner need know */
    bool is_open; /* a transaction that has not ended */
    sdb_link root;
    sdb_edit edit;
    sdb_map *parent;
    sdb_map *child;       /* the first of those made from it */
    sdb_map *prev, *next; /* children of the same parent */
};

struct sdb_map_txn {
    sdb_map map;
};

struct sdb_map_iter {
    sdb_map *map;
    sdb_iter it;
};

/* ---------------------------------------------------------------- leaves */

typedef struct map_leaf {
    uint64_t stamp;
    uint64_t value;
    uint32_t len;
    uint8_t key[];
} map_leaf;

static size_t leaf_size(size_t len)
{
    return (offsetof(map_leaf, key) + len + 7) / 8 * 8;
}

static size_t leaf_diff(const void *ctx, const void *leaf, const uint8_t *key, size_t len,
                        int *byte)
{
    (void)ctx;
    const map_leaf *l = leaf;
    size_t i = 0, most = len < l->len ? len : l->len;
    while (i < most && key[i] == l->key[i])
        i++;
    *byte = i < l->len ? l->key[i] : -1;
    return i;
}

static int leaf_key(const void *ctx, const void *leaf, sdb_buf *out)
{
    (void)ctx;
    const map_leaf *l = leaf;
    int rc = sdb_buf_reserve(out, l->len + 1u);
    if (rc == SDB_OK) {
        memcpy(out->at + out->n, l->key, l->len);
        out->n += l->len;
    }
    return rc;
}

static const sdb_leaves LEAVES = {leaf_diff, leaf_key, NULL};

static map_leaf *leaf_find(const sdb_map *map, const void *key, size_t len, sdb_link *link)
{
    const uint8_t *base = map->space->arena.base;
    *link = sdb_radix_get(&LEAVES, base, map->root, key, len);
    return *link ? sdb_at(base, *link) : NULL;
}

static uint64_t object_stamp(const sdb_arena *a, sdb_link link)
{
    const void *p = sdb_at(a->base, link);
    return link & SDB_LEAF ? ((const map_leaf *)p)->stamp : sdb_node_stamp(p);
}

static void object_free(sdb_arena *a, sdb_link link)
{
    const void *p = sdb_at(a->base, link);
    sdb_arena_free(a, link,
                   link & SDB_LEAF ? leaf_size(((const map_leaf *)p)->len)
                                   : sdb_node_size[sdb_node_kind(p)]);
}

/* ---------------------------------------------------------------- descent */

/* Below here, up to the interface: under the mutex. */

static void map_link(sdb_map *map, sdb_map *parent)
{
    map->parent = parent;
    map->prev = NULL;
    map->next = parent ? parent->child : NULL;
    if (map->next)
        map->next->prev = map;
    if (parent)
        parent->child = map;
}

static void map_unlink(sdb_map *map)
{
    if (map->prev)
        map->prev->next = map->next;
    else if (map->parent)
        map->parent->child = map->next;
    if (map->next)
        map->next->prev = map->prev;
}

static void map_free(sdb_map *map)
{
    enum { KEPT = 4, ROOM = 1024 };
    sdb_map_space *space = map->space;
    map_unlink(map);
    space->n_maps--;
    if (space->n_idle == KEPT || map->edit.retired.room > ROOM) {
        sdb_links_fini(&map->edit.retired);
        sdb_free(map);
        return;
    }
    space->n_idle++;
    map->next = space->idle;
    space->idle = map;
}

static void born_free(void *ctx, sdb_link leaf)
{
    const sdb_map *map = ctx;
    if (object_stamp(&map->space->arena, leaf) > map->edit.floor)
        object_free(&map->space->arena, leaf);
}

/* The only child takes its parent's place. False: there is no memory to join their lists, and all
** is as it was. */
static bool map_yield(sdb_map *map)
{
    sdb_map *child = map->child;
    sdb_arena *a = &map->space->arena;
    sdb_links *mine = &map->edit.retired, *its = &child->edit.retired;
    sdb_links *to = mine->n > its->n ? mine : its, *from = to == mine ? its : mine;
    if (sdb_links_reserve(to, from->n) != SDB_OK)
        return false;
    size_t n = its->n;
    its->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (object_stamp(a, its->at[i]) > map->edit.floor)
            object_free(a, its->at[i]);
        else
            sdb_links_push(its, its->at[i]);
    }
    for (size_t i = 0; i < from->n; i++)
        sdb_links_push(to, from->at[i]);
    from->n = 0;
    sdb_links all = *to, rest = *from;
    *its = all;
    *mine = rest;
    child->edit.floor = map->edit.floor;
    map_unlink(child);
    map_link(child, map->parent);
    map_free(map);
    return true;
}

/* A map has lost a holder or a child: take it out of the descent if it can go, and then look at its
** parent. One for which there was no memory is looked at again when a child of it goes. */
static void map_settle(sdb_map *map)
{
    while (map && !map->is_held) {
        sdb_map *parent = map->parent;
        if (!map->child) {
            sdb_radix_free(&map->space->arena, map->root, map->edit.floor, born_free, map);
            map_free(map);
        } else if (map->child->next || !map_yield(map)) {
            return;
        }
        map = parent;
    }
}

/* ---------------------------------------------------------------- changes */

static int map_reserve(sdb_map *map, size_t len)
{
    int rc = sdb_arena_reserve(map->edit.arena, sdb_radix_need(map->edit.arena, len), true);
    if (rc == SDB_OK)
        rc = sdb_links_reserve(&map->edit.retired,
                               sdb_radix_need_links(map->edit.arena, len) + 1); /* a leaf */
    return rc;
}

static int map_put(sdb_map *map, const void *key, size_t len, uint64_t value)
{
    sdb_arena *a = map->edit.arena;
    sdb_link link, old;
    map_leaf *leaf = leaf_find(map, key, len, &old);
    if (leaf && leaf->value == value)
        return SDB_OK; /* not written either: it may be read by others */
    if (leaf && leaf->stamp > map->edit.floor) {
        leaf->value = value;
        return SDB_OK;
    }
    int rc = sdb_arena_alloc(a, leaf_size(len), &link);
    if (rc != SDB_OK)
        return rc;
    rc = map_reserve(map, len);
    if (rc != SDB_OK) {
        sdb_arena_free(a, link, leaf_size(len));
        return rc;
    }
    leaf = sdb_at(a->base, link);
    leaf->stamp = map->edit.stamp;
    leaf->value = value;
    leaf->len = (uint32_t)len;
    if (len > 0)
        memcpy(leaf->key, key, len);
    old = sdb_radix_put(&LEAVES, &map->edit, &map->root, leaf->key, len, link);
    if (old)
        sdb_links_push(&map->edit.retired, old);
    return SDB_OK;
}

static int map_delete(sdb_map *map, const void *key, size_t len)
{
    sdb_link link;
    const map_leaf *leaf = leaf_find(map, key, len, &link);
    if (!leaf)
        return SDB_DONE;
    int rc = map_reserve(map, len);
    if (rc != SDB_OK)
        return rc;
    sdb_radix_take(&map->edit, &map->root, key, len, link);
    if (leaf->stamp > map->edit.floor)
        object_free(map->edit.arena, link);
    else
        sdb_links_push(&map->edit.retired, link);
    return SDB_OK;
}

/* ---------------------------------------------------------------- spaces and maps */

int sdb_map_space_new(sdb_map_space **out)
{
    sdb_map_space *space = sdb_zalloc(sizeof *space);
    if (!space)
        return SDB_NOMEM;
    int rc = sdb_arena_init(&space->arena, &space->budget);
    if (rc == SDB_OK && pthread_mutex_init(&space->mutex, NULL) != 0) {
        sdb_arena_fini(&space->arena);
        rc = SDB_NOMEM;
    }
    if (rc != SDB_OK) {
        sdb_free(space);
        return rc;
    }
    *out = space;
    return SDB_OK;
}

static void space_free(sdb_map_space *space)
{
    while (space->idle) {
        sdb_map *map = space->idle;
        space->idle = map->next;
        sdb_links_fini(&map->edit.retired);
        sdb_free(map);
    }
    sdb_arena_fini(&space->arena);
    pthread_mutex_destroy(&space->mutex);
    sdb_free(space);
}

void sdb_map_space_free(sdb_map_space *space)
{
    if (!space)
        return;
    pthread_mutex_lock(&space->mutex);
    space->is_closed = true;
    bool is_last = space->n_maps == 0;
    pthread_mutex_unlock(&space->mutex);
    if (is_last)
        space_free(space);
}

void sdb_map_space_memory(sdb_map_space *space, sdb_memory *out)
{
    const sdb_arena *a = &space->arena;
    uint64_t pages = atomic_load_explicit(&a->pages, memory_order_relaxed) +
                     atomic_load_explicit(&a->idle, memory_order_relaxed);
    *out = (sdb_memory){.live = atomic_load_explicit(&a->live, memory_order_relaxed),
                        .mapped = pages * SDB_PAGE,
                        .reserved = a->reserved};
}

/* Under the mutex: a map to be, with the content of its parent. */
static int map_make(sdb_map_space *space, sdb_map *parent, sdb_map **out)
{
    sdb_map *map = space->idle;
    sdb_links retired = {0};
    if (map) {
        space->idle = map->next;
        space->n_idle--;
        retired = map->edit.retired;
    } else if (!(map = sdb_malloc(sizeof *map))) {
        return SDB_NOMEM;
    }
    retired.n = 0;
    *map = (sdb_map){.space = space, .n_ref = 1, .is_held = true};
    map->edit = (sdb_edit){.arena = &space->arena, .stamp = ++space->clock, .retired = retired};
    assert(space->clock < SDB_STAMP_MAX);
    if (parent) {
        map->root = parent->root;
        map->edit.floor = parent->edit.stamp;
    }
    map_link(map, parent);
    space->n_maps++;
    *out = map;
    return SDB_OK;
}

static int map_begin(sdb_map_space *space, sdb_map *parent, sdb_map **out)
{
    pthread_mutex_lock(&space->mutex);
    int rc = map_make(space, parent, out);
    pthread_mutex_unlock(&space->mutex);
    return rc;
}

int sdb_map_new(sdb_map_space *space, sdb_map **out)
{
    return map_begin(space, NULL, out);
}

sdb_map *sdb_map_ref(sdb_map *map)
{
    atomic_fetch_add_explicit(&map->n_ref, 1, memory_order_relaxed);
    return map;
}

void sdb_map_unref(sdb_map *map)
{
    /* acq_rel: all reading of the map is over before its memory is used again */
    if (!map || atomic_fetch_sub_explicit(&map->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    sdb_map_space *space = map->space;
    pthread_mutex_lock(&space->mutex);
    map->is_held = false; /* only now: until then no other thread's settling takes it away */
    map_settle(map);
    sdb_arena_trim(&space->arena);
    bool is_last = space->is_closed && space->n_maps == 0;
    pthread_mutex_unlock(&space->mutex);
    if (is_last)
        space_free(space);
}

bool sdb_map_get(const sdb_map *map, const void *key, size_t len, uint64_t *value)
{
    sdb_link link;
    const map_leaf *leaf = leaf_find(map, key, len, &link);
    if (leaf && value)
        *value = leaf->value;
    return leaf != NULL;
}

uint64_t sdb_map_count(const sdb_map *map)
{
    return sdb_radix_count(map->space->arena.base, map->root);
}

/* ---------------------------------------------------------------- transactions */

int sdb_map_begin(sdb_map *map, sdb_map_txn **out)
{
    sdb_map *made;
    int rc = map_begin(map->space, map, &made);
    if (rc != SDB_OK)
        return rc;
    made->is_open = true;
    *out = (sdb_map_txn *)made;
    return SDB_OK;
}

int sdb_map_txn_put(sdb_map_txn *txn, const void *key, size_t len, uint64_t value)
{
    sdb_map *map = &txn->map;
    if (!map->is_open)
        return SDB_MISUSE;
    if (len > SDB_MAX_ROW)
        return SDB_TOOBIG;
    pthread_mutex_lock(&map->space->mutex);
    int rc = map_put(map, key, len, value);
    pthread_mutex_unlock(&map->space->mutex);
    return rc;
}

int sdb_map_txn_delete(sdb_map_txn *txn, const void *key, size_t len)
{
    sdb_map *map = &txn->map;
    if (!map->is_open)
        return SDB_MISUSE;
    pthread_mutex_lock(&map->space->mutex);
    int rc = map_delete(map, key, len);
    pthread_mutex_unlock(&map->space->mutex);
    return rc;
}

bool sdb_map_txn_get(const sdb_map_txn *txn, const void *key, size_t len, uint64_t *value)
{
    return sdb_map_get(&txn->map, key, len, value);
}

uint64_t sdb_map_txn_count(const sdb_map_txn *txn)
{
    return sdb_map_count(&txn->map);
}

sdb_map *sdb_map_txn_commit(sdb_map_txn *txn)
{
    if (!txn->map.is_open)
        return NULL;
    txn->map.is_open = false;
    return &txn->map;
}

void sdb_map_txn_abort(sdb_map_txn *txn)
{
    if (txn && txn->map.is_open)
        sdb_map_unref(&txn->map);
}

/* Commit if all went well; otherwise abort. */
static int txn_end(sdb_map_txn *txn, int rc, sdb_map **out)
{
    if (rc == SDB_OK)
        *out = sdb_map_txn_commit(txn);
    else
        sdb_map_txn_abort(txn);
    return rc;
}

int sdb_map_put(sdb_map *map, const void *key, size_t len, uint64_t value, sdb_map **out)
{
    uint64_t present;
    sdb_map_txn *txn;
    if (sdb_map_get(map, key, len, &present) && present == value) {
        *out = sdb_map_ref(map);
        return SDB_OK;
    }
    int rc = sdb_map_begin(map, &txn);
    return rc == SDB_OK ? txn_end(txn, sdb_map_txn_put(txn, key, len, value), out) : rc;
}

int sdb_map_delete(sdb_map *map, const void *key, size_t len, sdb_map **out)
{
    sdb_map_txn *txn;
    if (!sdb_map_get(map, key, len, NULL)) {
        *out = sdb_map_ref(map);
        return SDB_OK;
    }
    int rc = sdb_map_begin(map, &txn);
    return rc == SDB_OK ? txn_end(txn, sdb_map_txn_delete(txn, key, len), out) : rc;
}

/* ---------------------------------------------------------------- two maps */

static void iter_open(sdb_iter *it, const sdb_map *map)
{
    sdb_iter_init(it);
    sdb_iter_open(it, &LEAVES, map->space->arena.base, map->root);
}

static const map_leaf *iter_leaf(const sdb_iter *it)
{
    return sdb_at(it->base, it->leaf);
}

static bool is_same_tree(const sdb_map *a, const sdb_map *b)
{
    return a->root == b->root && (a->space == b->space || !a->root);
}

int sdb_map_equal(const sdb_map *a, const sdb_map *b, bool *out)
{
    sdb_iter x, y;
    *out = is_same_tree(a, b);
    if (*out || sdb_map_count(a) != sdb_map_count(b))
        return SDB_OK;
    iter_open(&x, a);
    iter_open(&y, b);
    int rc = sdb_iter_first(&x);
    if (rc == SDB_OK)
        rc = sdb_iter_first(&y);
    while (rc == SDB_OK) {
        const map_leaf *l = iter_leaf(&x), *m = iter_leaf(&y);
        if (l != m && (l->value != m->value || l->len != m->len || memcmp(l->key, m->key, l->len)))
            break;
        rc = sdb_iter_next(&x);
        if (rc == SDB_OK)
            rc = sdb_iter_next(&y);
    }
    sdb_iter_fini(&x);
    sdb_iter_fini(&y);
    *out = rc == SDB_DONE;
    return rc < 0 ? rc : SDB_OK;
}

int sdb_map_union(sdb_map *a, sdb_map *b, sdb_map **out)
{
    sdb_iter it;
    sdb_map_txn *txn;
    /* Begin with the larger; a's space has to be the result's. */
    bool is_from_b = a->space == b->space && sdb_map_count(b) > sdb_map_count(a);
    sdb_map *large = is_from_b ? b : a, *small = is_from_b ? a : b;
    if (is_same_tree(a, b) || sdb_map_count(small) == 0) {
        *out = sdb_map_ref(large);
        return SDB_OK;
    }
    int rc = sdb_map_begin(large, &txn);
    if (rc != SDB_OK)
        return rc;
    iter_open(&it, small);
    rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        const map_leaf *l = iter_leaf(&it);
        if (!is_from_b || !sdb_map_txn_get(txn, l->key, l->len, NULL))
            rc = sdb_map_txn_put(txn, l->key, l->len, l->value);
        if (rc == SDB_OK)
            rc = sdb_iter_next(&it);
    }
    sdb_iter_fini(&it);
    return txn_end(txn, rc == SDB_DONE ? SDB_OK : rc, out);
}

int sdb_map_difference(sdb_map *a, const sdb_map *b, sdb_map **out)
{
    sdb_iter it;
    sdb_map_txn *txn;
    if (sdb_map_count(a) == 0 || sdb_map_count(b) == 0) {
        *out = sdb_map_ref(a);
        return SDB_OK;
    }
    int rc = sdb_map_begin(a, &txn);
    if (rc != SDB_OK)
        return rc;
    iter_open(&it, b);
    rc = sdb_iter_first(&it);
    while (rc == SDB_OK) {
        const map_leaf *l = iter_leaf(&it);
        rc = sdb_map_txn_delete(txn, l->key, l->len);
        if (rc >= 0)
            rc = sdb_iter_next(&it);
    }
    sdb_iter_fini(&it);
    return txn_end(txn, rc == SDB_DONE ? SDB_OK : rc, out);
}

/* ---------------------------------------------------------------- iteration */

int sdb_map_iter_new(sdb_map *map, sdb_map_iter **out)
{
    sdb_map_iter *it = sdb_malloc(sizeof *it);
    if (!it)
        return SDB_NOMEM;
    it->map = sdb_map_ref(map);
    iter_open(&it->it, map);
    *out = it;
    return SDB_OK;
}

void sdb_map_iter_free(sdb_map_iter *it)
{
    if (!it)
        return;
    sdb_iter_fini(&it->it);
    sdb_map_unref(it->map);
    sdb_free(it);
}

int sdb_map_iter_first(sdb_map_iter *it)
{
    return sdb_iter_first(&it->it);
}

int sdb_map_iter_seek(sdb_map_iter *it, const void *key, size_t len)
{
    return sdb_iter_seek(&it->it, key, len);
}

int sdb_map_iter_prefix(sdb_map_iter *it, const void *key, size_t len)
{
    return sdb_iter_prefix(&it->it, key, len, false);
}

int sdb_map_iter_next(sdb_map_iter *it)
{
    return sdb_iter_next(&it->it);
}

const void *sdb_map_iter_key(const sdb_map_iter *it, size_t *len)
{
    const map_leaf *leaf = it->it.leaf ? iter_leaf(&it->it) : NULL;
    *len = leaf ? leaf->len : 0;
    return leaf ? leaf->key : NULL;
}

uint64_t sdb_map_iter_value(const sdb_map_iter *it)
{
    return it->it.leaf ? iter_leaf(&it->it)->value : 0;
}

const char *sdb_map_check(const sdb_map *map)
{
    uint64_t n;
    return sdb_radix_check(&LEAVES, map->space->arena.base, map->root, map->edit.stamp, &n);
}
