/* bench_radix.c - the benchmarks of StateDB's tree by ours.
**
** Each row bears the name of one there and does the same work (peers/part.go) with leaves that carry key
** and value. A commit freezes the root and frees what it replaced; theirs leaves that to the garbage
** collector. Their deletes never commit; rows named _commit do. */
#include "rows.h"

#include "../core/radix.h"

enum { SMALL = 24 * 1024 };

typedef struct leaf {
    uint64_t stamp;
    uint64_t value;
    uint32_t len;
    uint8_t key[];
} leaf;

static struct {
    sdb_budget budget;
    sdb_arena arena;
    sdb_edit edit;
    sdb_link root;
    sdb_iter it;
    bool is_open;
} tree;

static size_t leaf_diff(const void *ctx, const void *p, const uint8_t *key, size_t len, int *byte)
{
    (void)ctx;
    const leaf *l = p;
    size_t i = 0;
    while (i + 8 <= len && i + 8 <= l->len && memcmp(key + i, l->key + i, 8) == 0)
        i += 8;
    while (i < len && i < l->len && key[i] == l->key[i])
        i++;
    *byte = i < l->len ? l->key[i] : -1;
    return i;
}

static const sdb_leaves LEAVES = {leaf_diff, NULL, NULL};

static const leaf *leaf_at(sdb_link link)
{
    return sdb_at(tree.arena.base, link);
}

static size_t leaf_size(size_t len)
{
    return (offsetof(leaf, key) + len + 7) / 8 * 8;
}

static void leaf_free(void *ctx, sdb_link link)
{
    (void)ctx;
    sdb_arena_free(&tree.arena, link, leaf_size(leaf_at(link)->len));
}

static void tree_reserve(size_t len)
{
    MUST(sdb_arena_reserve(&tree.arena, sdb_radix_need(&tree.arena, len), true));
    MUST(sdb_links_reserve(&tree.edit.retired, sdb_radix_need_links(&tree.arena, len) + 1));
}

static void leaf_drop(sdb_link old)
{
    if (!old)
        return;
    if (leaf_at(old)->stamp > tree.edit.floor)
        leaf_free(NULL, old);
    else
        sdb_links_push(&tree.edit.retired, old);
}

static void tree_put(const uint8_t *key, size_t len, uint64_t value)
{
    sdb_link link;
    tree_reserve(len);
    MUST(sdb_arena_alloc(&tree.arena, leaf_size(len), &link));
    leaf *l = sdb_at(tree.arena.base, link);
    l->stamp = tree.edit.stamp;
    l->value = value;
    l->len = (uint32_t)len;
    memcpy(l->key, key, len);
    leaf_drop(sdb_radix_put(&LEAVES, &tree.edit, &tree.root, key, len, link));
}

static const leaf *tree_get(const uint8_t *key, size_t len)
{
    sdb_link link = sdb_radix_get(&LEAVES, tree.arena.base, tree.root, key, len);
    return link ? leaf_at(link) : NULL;
}

static void tree_del(const uint8_t *key, size_t len)
{
    tree_reserve(len);
    leaf_drop(sdb_radix_del(&LEAVES, &tree.edit, &tree.root, key, len));
}

static void tree_commit(void)
{
    sdb_links *retired = &tree.edit.retired;
    tree.edit.floor = tree.edit.stamp++;
    for (size_t i = 0; i < retired->n; i++) {
        sdb_link link = retired->at[i];
        if (link & SDB_LEAF)
            leaf_free(NULL, link);
        else
            sdb_arena_free(&tree.arena, link,
                           sdb_node_size[sdb_node_kind(sdb_at(tree.arena.base, link))]);
    }
    retired->n = 0;
}

/* Of a transaction that has deleted only. */
static void tree_abort(sdb_link root)
{
    sdb_radix_free(&tree.arena, tree.root, tree.edit.floor, NULL, NULL);
    tree.root = root;
    tree.edit.retired.n = 0;
}

/* An empty tree in place of the committed one. */
static void tree_clear(void)
{
    sdb_radix_free(&tree.arena, tree.root, 0, leaf_free, NULL);
    tree.root = 0;
}

static void tree_open(const row *r)
{
    (void)r;
    MUST(sdb_arena_init(&tree.arena, &tree.budget));
    tree.edit = (sdb_edit){.arena = &tree.arena, .stamp = 1};
    tree.root = 0;
    sdb_iter_init(&tree.it);
    tree.is_open = true;
}

static void tree_close(void)
{
    if (!tree.is_open)
        return;
    tree_commit();
    tree_clear();
    sdb_iter_fini(&tree.it);
    sdb_links_fini(&tree.edit.retired);
    sdb_arena_fini(&tree.arena);
    tree.is_open = false;
}

static const uint8_t *key8(uint8_t *room, uint64_t k)
{
    for (int i = 0; i < 8; i++)
        room[i] = (uint8_t)(k >> 8 * (7 - i));
    return room;
}

static void put8(uint64_t k, uint64_t value)
{
    uint8_t key[8];
    tree_put(key8(key, k), 8, value);
}

static void put4(uint32_t k, uint64_t value)
{
    uint8_t key[8];
    tree_put(key8(key, k) + 4, 4, value);
}

static const leaf *get8(uint64_t k)
{
    uint8_t key[8];
    return tree_get(key8(key, k), 8);
}

static void del8(uint64_t k)
{
    uint8_t key[8];
    tree_del(key8(key, k), 8);
}

static uint64_t random_key[MANY];

static void tree_fill(size_t n)
{
    for (size_t i = 0; i < n; i++)
        put8(i, i);
    tree_commit();
}

/* A tree of the keys 0..per-1. */
static void tree_full(const row *r)
{
    tree_open(r);
    tree_fill(r->per);
    order_fill(r->per, r->is_random);
}

/* A tree of so many random keys. */
static void tree_random(const row *r)
{
    tree_open(r);
    for (int i = 0; i < r->what; i++) {
        random_key[i] = rnd();
        put8(random_key[i], random_key[i]);
    }
    tree_commit();
}

static void part_insert(const row *r, size_t n)
{
    while (n--) {
        for (size_t i = 0; i < r->per; i++)
            put4((uint32_t)(FEW + i), FEW + i);
        tree_commit();
        tree_clear();
    }
}

static void part_full4(const row *r)
{
    tree_open(r);
    for (uint32_t i = 0; i < FEW; i++)
        put4(FEW + i, FEW + i);
}

static void part_get_insert(const row *r, size_t n)
{
    tree_commit();
    while (n--) {
        for (size_t i = 0; i < r->per; i++) {
            uint8_t key[8];
            key8(key, FEW + i);
            tree_put(key + 4, 4, tree_get(key + 4, 4)->value);
        }
        tree_commit();
    }
}

static void part_replace(const row *r, size_t n)
{
    (void)r;
    while (n--)
        put4(0, 0);
}

static void part_txn(const row *r, size_t n)
{
    while (n--) {
        for (size_t i = 0; i < r->per; i++)
            put8(i, i);
        tree_commit();
    }
    must(sdb_radix_count(tree.arena.base, tree.root) == r->per);
}

static void part_txn_fresh(const row *r, size_t n)
{
    while (n--) {
        for (size_t i = 0; i < MANY; i++) {
            put8(i, i);
            if ((i + 1) % (size_t)r->arg == 0)
                tree_commit();
        }
        tree_clear();
    }
}

static void part_delete(const row *r, size_t n)
{
    while (n--) {
        sdb_link root = tree.root;
        for (size_t i = 0; i < r->per; i++)
            del8((uint64_t)order[i]);
        tree_abort(root);
    }
}

static void part_delete_commit(const row *r, size_t n)
{
    while (n--) {
        clock_stop();
        tree_fill(MANY);
        clock_start();
        for (size_t i = 0; i < MANY; i++) {
            del8((uint64_t)order[i]);
            if ((i + 1) % (size_t)r->arg == 0)
                tree_commit();
        }
        must(tree.root == 0);
    }
}

static void parent_cache_make(const row *r)
{
    uint8_t key[100];
    memset(key, 'a', sizeof key);
    tree_open(r);
    for (int len = 1; len <= r->arg; len++)
        tree_put(key, (size_t)len, (uint64_t)len);
    tree_commit();
}

static void parent_cache(const row *r, size_t n)
{
    uint8_t key[100];
    memset(key, 'a', sizeof key);
    while (n--) {
        tree_del(key, (size_t)r->arg);
        tree_put(key, (size_t)r->arg, (uint64_t)r->arg);
    }
}

static void part_get(const row *r, size_t n)
{
    while (n--)
        for (size_t i = 0; i < r->per; i++)
            must(get8(i)->value == i);
}

static void part_all(const row *r, size_t n)
{
    sdb_iter *it = &tree.it;
    while (n--) {
        sdb_iter_open(it, &LEAVES, tree.arena.base, tree.root);
        for (int rc = sdb_iter_first(it); rc == SDB_OK; rc = sdb_iter_next(it))
            must(leaf_at(it->leaf)->value < r->per);
    }
}

/* what: how many random keys there are; 0: those in order */
static void part_lower_bound(const row *r, size_t n)
{
    sdb_iter *it = &tree.it;
    while (n--) {
        for (size_t i = 0; i < r->per; i++) {
            uint8_t room[8];
            uint64_t key = r->what ? random_key[i] : i;
            sdb_iter_open(it, &LEAVES, tree.arena.base, tree.root);
            MUST(sdb_iter_seek(it, key8(room, key), 8));
            must(leaf_at(it->leaf)->value == key);
        }
    }
}

static void small_write_txn(const row *r, size_t n)
{
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < r->per; j++)
            put8(random_key[(next + j * 7919) % SMALL], i);
        tree_commit();
        next = (next + r->per) % SMALL;
    }
    must(sdb_radix_count(tree.arena.base, tree.root) == SMALL);
}

static void fresh_write_txn(const row *r, size_t n)
{
    (void)r;
    for (size_t i = 0; i < n; i++) {
        tree_put((const uint8_t *)"key", 3, i);
        tree_commit();
        tree_clear();
    }
}

/* ---------------------------------------------------------------- the rows */

static const row ROWS[] = {
    /* name, per, make, run, arg, what, is_random, fixed */
    {"part_Insert_RootOnlyWatch", FEW, tree_open, part_insert, 0, 0, false, 0},
    {"part_Insert", FEW, tree_open, part_insert, 0, 0, false, 0},
    {"part_WatchReplace", FEW, tree_open, part_txn, 0, 0, false, 0},
    {"part_Modify", FEW, part_full4, part_get_insert, 0, 0, false, 0},
    {"part_GetInsert", FEW, part_full4, part_get_insert, 0, 0, false, 0},
    {"part_Replace", 1, part_full4, part_replace, 0, 0, false, 0},
    {"part_Replace_RootOnlyWatch", 1, part_full4, part_replace, 0, 0, false, 0},
    {"part_txn_1", 1, tree_open, part_txn, 0, 0, false, 0},
    {"part_txn_10", 10, tree_open, part_txn, 0, 0, false, 0},
    {"part_txn_100", 100, tree_open, part_txn, 0, 0, false, 0},
    {"part_txn_1000", 1000, tree_open, part_txn, 0, 0, false, 0},
    {"part_txn_1_fresh", MANY, tree_open, part_txn_fresh, 1, 0, false, 0},
    {"part_txn_10_fresh", MANY, tree_open, part_txn_fresh, 10, 0, false, 0},
    {"part_txn_100_fresh", MANY, tree_open, part_txn_fresh, 100, 0, false, 0},
    {"part_txn_1000_fresh", MANY, tree_open, part_txn_fresh, 1000, 0, false, 0},
    {"part_txn_delete_1", 1, tree_full, part_delete, 0, 0, false, 0},
    {"part_txn_delete_10", 10, tree_full, part_delete, 0, 0, false, 0},
    {"part_txn_delete_100", 100, tree_full, part_delete, 0, 0, false, 0},
    {"part_txn_delete_1000", 1000, tree_full, part_delete, 0, 0, false, 0},
    {"part_txn_delete_1_commit", MANY, tree_full, part_delete_commit, 1, 0, false, 0},
    {"part_txn_delete_10_commit", MANY, tree_full, part_delete_commit, 10, 0, false, 0},
    {"part_txn_delete_100_commit", MANY, tree_full, part_delete_commit, 100, 0, false, 0},
    {"part_txn_delete_1000_commit", MANY, tree_full, part_delete_commit, 1000, 0, false, 0},
    {"part_Get", FEW, tree_full, part_get, 0, 0, false, 0},
    {"part_All", FEW, tree_full, part_all, 0, 0, false, 0},
    {"part_Iterator_All", FEW, tree_full, part_all, 0, 0, false, 0},
    {"part_Iterator_Next", FEW, tree_full, part_all, 0, 0, false, 0},
    {"part_LowerBound", FEW, tree_full, part_lower_bound, 0, 0, false, 0},
    {"part_LowerBound_Random", FEW, tree_random, part_lower_bound, 0, MANY, false, 0},
    {"part_Delete_Random", MANY, tree_full, part_delete, 0, 0, true, 0},
    {"part_Delete_Random_commit", MANY, tree_full, part_delete_commit, MANY, 0, true, 0},
    {"part_DeleteParentCache_8", 1, parent_cache_make, parent_cache, 8, 0, false, 0},
    {"part_DeleteParentCache_100", 1, parent_cache_make, parent_cache, 100, 0, false, 0},
    {"part_SmallWriteTxn_1", 1, tree_random, small_write_txn, 0, SMALL, false, 0},
    {"part_SmallWriteTxn_2", 2, tree_random, small_write_txn, 0, SMALL, false, 0},
    {"part_SmallWriteTxn_4", 4, tree_random, small_write_txn, 0, SMALL, false, 0},
    {"part_SmallWriteTxn_8", 8, tree_random, small_write_txn, 0, SMALL, false, 0},
    {"part_SmallWriteTxn_16", 16, tree_random, small_write_txn, 0, SMALL, false, 0},
    {"part_FreshWriteTxn", 1, tree_open, fresh_write_txn, 0, 0, false, 0},
};

int main(int argc, char **argv)
{
    return rows_main(argc, argv, ROWS, sizeof ROWS / sizeof *ROWS, tree_close);
}
