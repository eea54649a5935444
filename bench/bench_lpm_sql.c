/* bench_lpm_sql.c - longest match in SQL: statedb's index, beside what SQLite has for it.
**
** Connections to ":memory:" hold the IPv4 prefixes of a routing table (tests/prefixes.h):
**
**     statedb     route(id, net TEXT), with an index USING lpm on net
**     overlaps    route(start, last, id), the ranges as they are. Of those that begin before the address the
**                 last one that has not ended is the longest match: one after the other is looked at, as
**                 far back as that is; at most as far as the largest range is long, which the statement
**                 has to know. A default route would make that the whole table.
**     lengths     route(start, bits, id): a look-up for each length that there is, the longest first
**     rtree_i32   rtree_i32(id, first, last): all that contain the address; the shortest is the match
**     segments    segment(start INTEGER PRIMARY KEY, id): the last one that begins before. That is wrong
**                 for ranges that overlap, as routes do: so these have been cut into segments of one
**                 longest match each, and to add a route is to cut some of them again.
**
** Each is the best form of it that we have found (WITHOUT ROWID tables, in which the key has all; IN with a
** value for each length makes two times as many look-ups as a join that ends with the first one found).
**
** They are asked for the same addresses, in turns, and must answer the same. statedb is given an address as
** text, which it reads each time, the others as a number. A figure is the median of the rounds, in
** nanoseconds of CPU time a lookup; the ratio is statedb's divided by theirs.
**
**     bench_lpm_sql [PREFIXES]     so many, made, instead of the real ones */
#include "bench.h"
#include "sql.h"

#include "../ext/statedb_static.h"
#include "../tests/prefixes.h"

enum { STATEDB, OVERLAPS, LENGTHS, RTREE, SEGMENTS, SIDES };
enum { LONGEST, JOIN, ANYWHERE, COVERS, WORKS };
enum { LOOKUPS = 50000, FEW = 1000, ROUNDS = 5 };

/* FEW, the first of them, where each goes through a great many routes. */
static size_t lookups(int work, int side)
{
    return side == OVERLAPS && (work == ANYWHERE || work == COVERS) ? FEW : LOOKUPS;
}

/* ---------------------------------------------------------------- the routes */

static sdb_prefix *route; /* IPv4, in order; route i has the id i + 1 */
static size_t n;
static uint32_t (*segment)[2]; /* first address, id; 0: no route */
static size_t n_segments;

/* What is looked up: within routes; anywhere from 1.0.0.0 on to the multicast addresses. */
static struct address {
    uint32_t number;
    char text[SDB_PREFIX_TEXT];
} * within, *anywhere;

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

static void address_set(struct address *a, uint32_t number)
{
    sdb_prefix p = {.family = SDB_IPV4, .bits = 32};
    for (int k = 0; k < 4; k++)
        p.addr[k] = (uint8_t)(number >> (24 - 8 * k));
    sdb_prefix_print(&p, a->text);
    a->number = number;
}

static void routes_make(size_t wanted)
{
    size_t all;
    route = wanted ? prefixes_made(wanted, &all) : prefixes_get(PREFIXES_REAL, &all);
    for (size_t i = 0; i < all; i++)
        if (route[i].family == SDB_IPV4)
            route[n++] = route[i];
    for (size_t i = 0; i < n; i++)
        MUST(route[i].bits < 8); /* "overlaps" relies on that */
    segments_cut();
    within = malloc(LOOKUPS * sizeof *within);
    anywhere = malloc(LOOKUPS * sizeof *anywhere);
    for (size_t i = 0; i < LOOKUPS; i++) {
        const sdb_prefix *p = &route[rnd() % n];
        address_set(&within[i], first_of(p) + (uint32_t)(rnd() % ((uint64_t)1 << (32 - p->bits))));
        address_set(&anywhere[i], (uint32_t)((1 << 24) + rnd() % (223u << 24)));
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

static void bind_address(sqlite3_stmt *stmt, int side, const struct address *a)
{
    if (side == STATEDB)
        MUST(sqlite3_bind_text(stmt, 1, a->text, -1, SQLITE_STATIC));
    else
        MUST(sqlite3_bind_int64(stmt, 1, number_of(side, a->number)));
}

static void bind_row(sqlite3_stmt *stmt, int side, size_t i)
{
    char text[SDB_PREFIX_TEXT];
    if (side == SEGMENTS) {
        MUST(sqlite3_bind_int64(stmt, 1, segment[i][1]));
        MUST(sqlite3_bind_int64(stmt, 2, segment[i][0]));
        return;
    }
    MUST(sqlite3_bind_int64(stmt, 1, (int64_t)i + 1));
    if (side == STATEDB) {
        size_t length = sdb_prefix_print(&route[i], text);
        MUST(sqlite3_bind_text(stmt, 2, text, (int)length, SQLITE_TRANSIENT));
        return;
    }
    MUST(sqlite3_bind_int64(stmt, 2, number_of(side, first_of(&route[i]))));
    if (side == LENGTHS)
        MUST(sqlite3_bind_int64(stmt, 3, route[i].bits));
    else
        MUST(sqlite3_bind_int64(stmt, 3, number_of(side, end_of(&route[i]) - 1)));
}

static const struct side {
    const char *name, *create, *insert;
    const char *made;    /* when the rows are there */
    const char *longest; /* one address, ?1 */
    const char *join;    /* all of packet */
    const char *all;     /* all that contain ?1; or NULL */
} SIDE[SIDES] = {
    {"statedb", "CREATE VIRTUAL TABLE route USING statedb(id INTEGER PRIMARY KEY, net TEXT)",
     "INSERT INTO route VALUES (?1, ?2)",
     "INSERT INTO route(route) VALUES ('CREATE UNIQUE INDEX by_net ON route(net) USING lpm')",
     "SELECT id FROM route WHERE statedb_lpm(net, ?1)",
     "SELECT sum(id) FROM packet JOIN route ON statedb_lpm(net, dst)",
     "SELECT id FROM route WHERE statedb_covers(net, ?1)"},
    {"overlaps",
     "CREATE TABLE route(start INTEGER, last INTEGER, id INTEGER, PRIMARY KEY (start DESC, last))"
     " WITHOUT ROWID",
     "INSERT INTO route VALUES (?2, ?3, ?1)", "",
     "SELECT id FROM route WHERE start <= ?1 AND start > ?1 - 16777216 AND last >= ?1"
     " ORDER BY start DESC, last LIMIT 1",
     "SELECT sum((SELECT id FROM route WHERE start <= dst AND start > dst - 16777216 AND last >= "
     "dst"
     " ORDER BY start DESC, last LIMIT 1)) FROM packet",
     "SELECT id FROM route WHERE start <= ?1 AND start > ?1 - 16777216 AND last >= ?1"},
    {"lengths",
     "CREATE TABLE route(start INTEGER, bits INTEGER, id INTEGER, PRIMARY KEY (start, bits))"
     " WITHOUT ROWID",
     "INSERT INTO route VALUES (?2, ?3, ?1)",
     "CREATE TABLE length(bits INTEGER PRIMARY KEY, mask INTEGER);"
     "INSERT INTO length SELECT DISTINCT bits, -1 << (32 - bits) FROM route",
     "SELECT id FROM length CROSS JOIN route ON start = ?1 & mask AND route.bits = length.bits"
     " ORDER BY length.bits DESC LIMIT 1",
     "SELECT sum((SELECT id FROM length CROSS JOIN route ON start = dst & mask"
     " AND route.bits = length.bits ORDER BY length.bits DESC LIMIT 1)) FROM packet",
     "SELECT id FROM length CROSS JOIN route ON start = ?1 & mask AND route.bits = length.bits"},
    {"rtree_i32", "CREATE VIRTUAL TABLE route USING rtree_i32(id, first, last)",
     "INSERT INTO route VALUES (?1, ?2, ?3)", "",
     "SELECT id FROM route WHERE first <= ?1 AND last >= ?1 ORDER BY last - first LIMIT 1",
     "SELECT sum((SELECT id FROM route WHERE first <= dst AND last >= dst"
     " ORDER BY last - first LIMIT 1)) FROM packet",
     "SELECT id FROM route WHERE first <= ?1 AND last >= ?1"},
    {"segments, cut", "CREATE TABLE segment(start INTEGER PRIMARY KEY, id INTEGER)",
     "INSERT INTO segment VALUES (?2, ?1)", "",
     "SELECT id FROM segment WHERE start <= ?1 ORDER BY start DESC LIMIT 1",
     "SELECT sum((SELECT id FROM segment WHERE start <= dst ORDER BY start DESC LIMIT 1))"
     " FROM packet",
     NULL},
};

/* Of what finds a prefix: of statedb the index, which has the text of a route besides. */
static double bytes[SIDES], bytes_with_row;

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
    double before = memory(db, side);
    execute(db, SIDE[side].create);
    execute(db, "BEGIN");
    sqlite3_stmt *stmt = prepare(db, SIDE[side].insert);
    for (size_t i = 0; i < (side == SEGMENTS ? n_segments : n); i++) {
        bind_row(stmt, side, i);
        answer(stmt);
    }
    MUST(sqlite3_finalize(stmt));
    execute(db, "COMMIT");
    double rows = memory(db, side);
    execute(db, SIDE[side].made);
    double all = memory(db, side);
    bytes[side] = all - (side == STATEDB ? rows : before);
    if (side == STATEDB)
        bytes_with_row = all - before;
    execute(db, side == STATEDB ? "CREATE VIRTUAL TABLE packet USING statedb(dst)"
                                : "CREATE TABLE packet(dst)");
    execute(db, "BEGIN");
    stmt = prepare(db, "INSERT INTO packet VALUES (?1)");
    for (size_t i = 0; i < LOOKUPS; i++) {
        bind_address(stmt, side, &within[i]);
        answer(stmt);
    }
    MUST(sqlite3_finalize(stmt));
    execute(db, "COMMIT");
    return db;
}

/* ---------------------------------------------------------------- the work */

static const char *const WORK[WORKS] = {"within routes", "in a join", "anywhere", "all that cover"};

static const char *work_sql(int work, int side)
{
    const struct side *s = &SIDE[side];
    return work == COVERS ? s->all : work == JOIN ? s->join : s->longest;
}

static double ns[WORKS][SIDES][ROUNDS];

/* The first so many look-ups. */
static int64_t work_do(sqlite3 *db, int work, int side, size_t most)
{
    sqlite3_stmt *stmt = prepare(db, work_sql(work, side));
    const struct address *a = work == ANYWHERE ? anywhere : within;
    int64_t sum = 0;
    for (size_t i = 0; i < (work == JOIN ? 1 : most); i++) {
        if (work != JOIN)
            bind_address(stmt, side, &a[i]);
        sum += answer(stmt);
    }
    MUST(sqlite3_finalize(stmt));
    return sum;
}

static void one_round(sqlite3 **db, int round)
{
    for (int w = 0; w < WORKS; w++) {
        int64_t all = work_do(db[STATEDB], w, STATEDB, LOOKUPS);
        int64_t few = w == JOIN ? 0 : work_do(db[STATEDB], w, STATEDB, FEW);
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + round) % SIDES;
            if (!work_sql(w, side))
                continue;
            size_t most = lookups(w, side);
            double start = now();
            int64_t sum = work_do(db[side], w, side, most);
            ns[w][side][round] = (now() - start) / (double)most;
            if (sum != (most == FEW ? few : all)) {
                fprintf(stderr, "%s: %s differs\n", WORK[w], SIDE[side].name);
                exit(1);
            }
        }
    }
}

static void print_figure(double theirs, double ours, const char *format)
{
    if (theirs > 0)
        printf(format, theirs);
    else
        printf(" %10s", "-");
    if (theirs > 0 && theirs != ours)
        printf(ours / theirs < 0.01 ? " %6.4f" : " %6.2f", ours / theirs);
    else
        printf(" %6s", "");
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
           "CPU time per lookup, ns, and the ratio statedb / theirs; bytes a prefix of what finds "
           "it.\n\n",
           sqlite3_libversion(), n, n_segments, ROUNDS);
    printf("%-14s", "longest match");
    for (int w = 0; w < WORKS; w++)
        printf(" %17s", WORK[w]);
    printf(" %17s\n", "bytes");
    for (int side = 0; side < SIDES; side++) {
        printf("%-14s", SIDE[side].name);
        for (int w = 0; w < WORKS; w++)
            print_figure(median(ns[w][side], ROUNDS), median(ns[w][STATEDB], ROUNDS), " %10.0f");
        print_figure(bytes[side], bytes[STATEDB], " %10.1f");
        printf("\n");
    }
    printf("\nA row of statedb, with its id, text and index: %.1f bytes.\n", bytes_with_row);
    for (int side = 0; side < SIDES; side++)
        MUST(sqlite3_close(db[side]));
    free(route);
    free(segment);
    free(within);
    free(anywhere);
    return 0;
}
