/* bench_lpm_sql.c - longest match in SQL: statedb's index, beside what SQLite has for it.
**
** Three connections to ":memory:" hold the IPv4 prefixes of a routing table (tests/prefixes.h):
**
**     statedb   route(id, net TEXT), with an index USING lpm on net
**     trick     segment(start INTEGER PRIMARY KEY, id): WHERE start <= ? ORDER BY start DESC LIMIT 1.
**               That is right for ranges that do not overlap. Routes do, so they have been cut into
**               segments of one longest match each; to add a route is to cut some of them again.
**     rtree     rtree_i32(id, first, last), the ranges as they are: all that contain the address; the
**               shortest is the longest match
**
** They are asked for the same addresses, near those of the table, in turns, and must answer the same.
** statedb is given an address as text, which it reads each time, the others as a number. A figure is the
** median of the rounds, in nanoseconds of CPU time a lookup, then divided by that of statedb.
**
**     bench_lpm_sql [PREFIXES]     so many, made, instead of the real ones */
#include "bench.h"
#include "sql.h"

#include "../ext/statedb_static.h"
#include "../tests/prefixes.h"

enum { STATEDB, TRICK, RTREE, SIDES };
enum { LOOKUPS = 50000, ROUNDS = 5 };

/* ---------------------------------------------------------------- the routes */

static sdb_prefix *route; /* IPv4, in order; route i has the id i + 1 */
static size_t n;
static uint32_t (*segment)[2]; /* first address, id; 0: no route */
static size_t n_segments;
static uint32_t *address;
static char (*address_text)[SDB_PREFIX_TEXT];

static uint32_t first_of(const sdb_prefix *p)
{
    return (uint32_t)p->addr[0] << 24 | (uint32_t)p->addr[1] << 16 | (uint32_t)p->addr[2] << 8 |
           p->addr[3];
}

static uint64_t end_of(const sdb_prefix *p)
{
    return first_of(p) + ((uint64_t)1 << (32 - p->bits));
}

static void segment_add(uint64_t first, size_t id)
{
    if (first >> 32)
        return;
    if (n_segments && segment[n_segments - 1][0] == first)
        n_segments--; /* the last one is empty */
    if (n_segments && segment[n_segments - 1][1] == id)
        return;
    segment[n_segments][0] = (uint32_t)first;
    segment[n_segments++][1] = (uint32_t)id;
}

/* Routes in order, a shorter one before those within it: where one ends, the one around it goes on. */
static void segments_cut(void)
{
    size_t around[33], depth = 0;
    segment = malloc((2 * n + 1) * sizeof *segment);
    segment_add(0, 0);
    for (size_t i = 0; i <= n; i++) {
        while (depth && (i == n || end_of(&route[around[depth - 1]]) <= first_of(&route[i]))) {
            uint64_t end = end_of(&route[around[--depth]]);
            segment_add(end, depth ? around[depth - 1] + 1 : 0);
        }
        if (i == n)
            break;
        segment_add(first_of(&route[i]), i + 1);
        around[depth++] = i;
    }
}

static void routes_make(size_t wanted)
{
    size_t all;
    route = wanted ? prefixes_made(wanted, &all) : prefixes_get(PREFIXES_REAL, &all);
    for (size_t i = 0; i < all; i++)
        if (route[i].family == SDB_IPV4)
            route[n++] = route[i];
    segments_cut();
    address = malloc(LOOKUPS * sizeof *address);
    address_text = malloc(LOOKUPS * sizeof *address_text);
    for (size_t i = 0; i < LOOKUPS; i++) {
        sdb_prefix p = route[rnd() % n];
        address[i] = first_of(&p) + (uint32_t)(rnd() % ((uint64_t)1 << (32 - p.bits)));
        for (int k = 0; k < 4; k++)
            p.addr[k] = (uint8_t)(address[i] >> (24 - 8 * k));
        p.bits = 32;
        sdb_prefix_print(&p, address_text[i]);
    }
}

/* ---------------------------------------------------------------- the tables */

/* The sum of all ids; 0: none. */
static int64_t answer(sqlite3_stmt *stmt)
{
    int64_t sum = 0;
    while (sqlite3_step(stmt) == SQLITE_ROW)
        sum += sqlite3_column_int64(stmt, 0);
    MUST(sqlite3_reset(stmt)); /* the code of a failed step */
    return sum;
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = prepare(db, sql);
    int64_t sum = answer(stmt);
    MUST(sqlite3_finalize(stmt));
    return sum;
}

/* rtree_i32 has numbers with a sign. */
static int64_t number_of(int side, uint64_t a)
{
    return (int64_t)a - (side == RTREE ? 0x80000000 : 0);
}

static void bind_address(sqlite3_stmt *stmt, int side, size_t i)
{
    if (side == STATEDB)
        MUST(sqlite3_bind_text(stmt, 1, address_text[i], -1, SQLITE_STATIC));
    else
        MUST(sqlite3_bind_int64(stmt, 1, number_of(side, address[i])));
}

static void bind_row(sqlite3_stmt *stmt, int side, size_t i)
{
    char text[SDB_PREFIX_TEXT];
    if (side == TRICK) {
        MUST(sqlite3_bind_int64(stmt, 1, segment[i][0]));
        MUST(sqlite3_bind_int64(stmt, 2, segment[i][1]));
        return;
    }
    MUST(sqlite3_bind_int64(stmt, 1, (int64_t)i + 1));
    if (side == RTREE) {
        MUST(sqlite3_bind_int64(stmt, 2, number_of(side, first_of(&route[i]))));
        MUST(sqlite3_bind_int64(stmt, 3, number_of(side, end_of(&route[i]) - 1)));
        return;
    }
    size_t length = sdb_prefix_print(&route[i], text);
    MUST(sqlite3_bind_text(stmt, 2, text, (int)length, SQLITE_TRANSIENT));
}

static const struct side {
    const char *name, *create, *insert;
    const char *longest; /* one address, ?1 */
    const char *join;    /* all of packet */
    const char *all;     /* all that contain ?1; or NULL */
} SIDE[SIDES] = {
    {"statedb", "CREATE VIRTUAL TABLE route USING statedb(id INTEGER PRIMARY KEY, net TEXT)",
     "INSERT INTO route VALUES (?1, ?2)", "SELECT id FROM route WHERE statedb_lpm(net, ?1)",
     "SELECT sum(id) FROM packet JOIN route ON statedb_lpm(net, dst)",
     "SELECT id FROM route WHERE statedb_covers(net, ?1)"},
    {"range trick", "CREATE TABLE segment(start INTEGER PRIMARY KEY, id INTEGER)",
     "INSERT INTO segment VALUES (?1, ?2)",
     "SELECT id FROM segment WHERE start <= ?1 ORDER BY start DESC LIMIT 1",
     "SELECT sum((SELECT id FROM segment WHERE start <= dst ORDER BY start DESC LIMIT 1))"
     " FROM packet",
     NULL},
    {"rtree_i32", "CREATE VIRTUAL TABLE route USING rtree_i32(id, first, last)",
     "INSERT INTO route VALUES (?1, ?2, ?3)",
     "SELECT id FROM route WHERE first <= ?1 AND last >= ?1 ORDER BY last - first LIMIT 1",
     "SELECT sum((SELECT id FROM route WHERE first <= dst AND last >= dst"
     " ORDER BY last - first LIMIT 1)) FROM packet",
     "SELECT id FROM route WHERE first <= ?1 AND last >= ?1"},
};

static double bytes[SIDES]; /* of the table, a prefix */
static double
    index_bytes; /* of these, the index of statedb, which has the text of a route besides */

static double memory(sqlite3 *db, int side)
{
    int64_t used =
        side == STATEDB ? ask(db, "SELECT statedb_memory('live')") : (int64_t)sqlite3_memory_used();
    return (double)used / (double)n;
}

static sqlite3 *side_open(int side)
{
    sqlite3 *db;
    MUST(sqlite3_open(":memory:", &db));
    if (side == STATEDB)
        MUST(sqlite3_statedb_static_init(db, NULL, NULL));
    double used = memory(db, side);
    execute(db, SIDE[side].create);
    execute(db, "BEGIN");
    sqlite3_stmt *stmt = prepare(db, SIDE[side].insert);
    for (size_t i = 0; i < (side == TRICK ? n_segments : n); i++) {
        bind_row(stmt, side, i);
        answer(stmt);
    }
    MUST(sqlite3_finalize(stmt));
    execute(db, "COMMIT");
    if (side == STATEDB) {
        index_bytes = -memory(db, side);
        execute(db, "INSERT INTO route(route)"
                    " VALUES ('CREATE UNIQUE INDEX by_net ON route(net) USING lpm')");
        index_bytes += memory(db, side);
    }
    bytes[side] = memory(db, side) - used;
    execute(db, "CREATE TABLE packet(dst); BEGIN");
    stmt = prepare(db, "INSERT INTO packet VALUES (?1)");
    for (size_t i = 0; i < LOOKUPS; i++) {
        bind_address(stmt, side, i);
        answer(stmt);
    }
    MUST(sqlite3_finalize(stmt));
    execute(db, "COMMIT");
    return db;
}

/* ---------------------------------------------------------------- the work */

enum { LONGEST, JOIN, COVERS, WORKS };
static const char *const WORK[WORKS] = {"longest match, a statement each",
                                        "longest match, in a join",
                                        "all that cover, a statement each"};

static const char *work_sql(int work, int side)
{
    const struct side *s = &SIDE[side];
    return work == LONGEST ? s->longest : work == JOIN ? s->join : s->all;
}

static double ns[WORKS][SIDES][ROUNDS];

static double work_do(sqlite3 *db, int work, int side, int64_t *sum)
{
    sqlite3_stmt *stmt = prepare(db, work_sql(work, side));
    *sum = 0;
    double start = now();
    for (size_t i = 0; i < (work == JOIN ? 1 : LOOKUPS); i++) {
        if (work != JOIN)
            bind_address(stmt, side, i);
        *sum += answer(stmt);
    }
    double taken = (now() - start) / LOOKUPS;
    MUST(sqlite3_finalize(stmt));
    return taken;
}

static void one_round(sqlite3 **db, int round)
{
    for (int w = 0; w < WORKS; w++) {
        int64_t expected = 0;
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + round) % SIDES;
            int64_t sum;
            if (!work_sql(w, side))
                continue;
            ns[w][side][round] = work_do(db[side], w, side, &sum);
            if (expected && sum != expected) {
                fprintf(stderr, "%s: %s differs\n", WORK[w], SIDE[side].name);
                exit(1);
            }
            expected = sum;
        }
    }
}

int main(int argc, char **argv)
{
    sqlite3 *db[SIDES];
    routes_make(argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 0);
    for (int side = 0; side < SIDES; side++)
        db[side] = side_open(side);
    for (int round = 0; round < ROUNDS; round++)
        one_round(db, round);
    printf("SQLite %s, :memory:, %zu IPv4 prefixes, %zu segments. Medians of %d rounds;\n"
           "ratio: statedb / theirs.\n",
           sqlite3_libversion(), n, n_segments, ROUNDS);
    printf("%-34s %10s %12s %6s %12s %6s\n", "CPU time per lookup, ns", SIDE[STATEDB].name,
           SIDE[TRICK].name, "ratio", SIDE[RTREE].name, "ratio");
    for (int w = 0; w < WORKS; w++) {
        double ours = median(ns[w][STATEDB], ROUNDS);
        printf("%-34s %10.0f", WORK[w], ours);
        for (int side = TRICK; side < SIDES; side++) {
            double theirs = median(ns[w][side], ROUNDS);
            if (theirs > 0)
                printf(" %12.0f %6.2f", theirs, ours / theirs);
            else
                printf(" %12s %6s", "-", "");
        }
        printf("\n");
    }
    printf("%-34s %10.1f", "bytes a prefix: what finds it", index_bytes);
    for (int side = TRICK; side < SIDES; side++)
        printf(" %12.1f %6.2f", bytes[side], index_bytes / bytes[side]);
    printf("\n%-34s %10.1f\n", "with its row, id and text", bytes[STATEDB]);
    for (int side = 0; side < SIDES; side++)
        MUST(sqlite3_close(db[side]));
    free(route);
    free(segment);
    free(address);
    free(address_text);
    return 0;
}
