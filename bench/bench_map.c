/* bench_map.c - the benchmarks of StateDB's maps and sets by ours (core/map.h).
**
** Each row bears the name of one there and does the same work (peers/part.go): where a key is set
** outside a transaction each map is a new one, and the former goes. */
#include "rows.h"

#include "../core/map.h"

static sdb_map_space *space;
static sdb_map *one; /* a set of one key */
static uint8_t key[FEW][24];
static size_t key_len[FEW];

static void space_close(void)
{
    sdb_map_unref(one);
    sdb_map_space_free(space);
    one = NULL;
    space = NULL;
}

static void numbers_make(const row *r)
{
    MUST(sdb_map_space_new(&space));
    for (size_t i = 0; i < FEW; i++) {
        uint64_t k = __builtin_bswap64(r->is_random ? rnd() : i);
        memcpy(key[i], &k, key_len[i] = sizeof k);
    }
}

static void texts_make(const row *r)
{
    (void)r;
    MUST(sdb_map_space_new(&space));
    for (int i = 0; i < FEW; i++)
        key_len[i] = (size_t)snprintf((char *)key[i], sizeof key[i], "key-%d", i);
}

/* arg: each key set is got, too. */
static void map_set(const row *r, size_t n)
{
    while (n--) {
        sdb_map *map;
        MUST(sdb_map_new(space, &map));
        for (size_t i = 0; i < r->per; i++) {
            sdb_map *next;
            uint64_t value;
            MUST(sdb_map_put(map, key[i], key_len[i], i, &next));
            sdb_map_unref(map);
            map = next;
            if (r->arg)
                must(sdb_map_get(map, key[i], key_len[i], &value) && value == i);
        }
        must(sdb_map_count(map) == r->per);
        sdb_map_unref(map);
    }
}

static void map_txn(const row *r, size_t n)
{
    while (n--) {
        sdb_map *map;
        sdb_map_txn *txn;
        MUST(sdb_map_new(space, &map));
        MUST(sdb_map_begin(map, &txn));
        sdb_map_unref(map);
        for (size_t i = 0; i < r->per; i++)
            MUST(sdb_map_txn_put(txn, key[i], key_len[i], i));
        map = sdb_map_txn_commit(txn);
        must(sdb_map_count(map) == r->per);
        sdb_map_unref(map);
    }
}

static void set_create(const row *r, size_t n)
{
    (void)r;
    while (n--) {
        sdb_map *empty, *set;
        MUST(sdb_map_new(space, &empty));
        MUST(sdb_map_put(empty, "value", 5, 0, &set));
        sdb_map_unref(empty);
        sdb_map_unref(set);
    }
}

static void set_make(const row *r)
{
    sdb_map *empty;
    texts_make(r);
    MUST(sdb_map_new(space, &empty));
    MUST(sdb_map_put(empty, "value", 5, 0, &one));
    sdb_map_unref(empty);
}

static void set_has(const row *r, size_t n)
{
    (void)r;
    while (n--)
        must(sdb_map_get(one, "value", 5, NULL));
}

static const row ROWS[] = {
    /* name, per, make, run, arg, what, is_random, fixed */
    {"map_Random", FEW, numbers_make, map_set, 1, 0, true, 0},
    {"map_Random_Insert", FEW, numbers_make, map_set, 0, 0, true, 0},
    {"map_Random_Txn_Insert", FEW, numbers_make, map_txn, 0, 0, true, 0},
    {"map_Sequential", FEW, numbers_make, map_set, 1, 0, false, 0},
    {"map_Sequential_Insert", FEW, numbers_make, map_set, 0, 0, false, 0},
    {"map_Sequential_Txn_Insert", FEW, numbers_make, map_txn, 0, 0, false, 0},
    {"map_String_Txn_Insert", FEW, texts_make, map_txn, 0, 0, false, 0},
    {"set_Singleton_Create", 1, texts_make, set_create, 0, 0, false, 0},
    {"set_Singleton_Has", 1, set_make, set_has, 0, 0, false, 0},
};

int main(int argc, char **argv)
{
    return rows_main(argc, argv, ROWS, sizeof ROWS / sizeof *ROWS, space_close);
}
