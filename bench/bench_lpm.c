/* bench_lpm.c - StateDB's benchmarks of longest-prefix match by ours: of tables with such indexes, and of
** the tree alone; and both with the routing table of the Internet.
**
** Each row bears the name of one there and does the same work (peers/lpm.go). In a table a prefix is
** text, as it is in SQL, and read when it is written or looked up; theirs comes as a netip.Prefix. All
** rows of their second index, of ports, have the same key there and replace each other in it, though it
** is unique; our index is not, and keeps them all. Rows named _fresh put new prefixes into an empty
** tree, those named _commit commit what they delete.
**
**     bench_lpm prefixes     prints the routing table (tests/prefixes.h), for the other side */
#include "rows.h"

#include "../core/lpm.h"
#include "../tests/prefixes.h"

#include <arpa/inet.h>

enum { HOSTS = 10000, HOT = 10000, LOOKUPS = 1000000 };

/* ---------------------------------------------------------------- tables */

enum { ID, PREFIX, PORT, COLUMNS };
enum { BY_PREFIX = 1, BY_PORT };

static sdb_db *db;
static sdb_table *table;
static sdb_snapshot *snap;
static sdb_cursor *cur;
static char host_text[HOSTS][16];

static void table_open(void)
{
    const sdb_part prefix = {.column = PREFIX}, port = {.column = PORT};
    const sdb_index_def indexes[] = {
        {.name = "prefix", .unique = true, .n_parts = 1, .parts = &prefix, .kind = SDB_LPM},
        {.name = "port", .n_parts = 1, .parts = &port, .kind = SDB_LPM}};
    const sdb_table_def def = {.name = "routes",
                               .n_columns = COLUMNS,
                               .rowid_column = ID,
                               .n_indexes = 2,
                               .indexes = indexes};
    sdb_txn *txn;
    MUST(sdb_open(&db));
    MUST(sdb_snapshot_new(db, &snap));
    MUST(sdb_cursor_new(db, &cur));
    MUST(sdb_txn_begin(db, &txn));
    MUST(sdb_txn_create_table(txn, &def, &table));
    MUST(sdb_txn_commit(txn));
}

static void table_close(void)
{
    if (!db)
        return;
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    sdb_unref(db);
    db = NULL;
}

static sdb_value host_value(int i)
{
    return (sdb_value){
        .type = SDB_TEXT, .n = (uint32_t)strlen(host_text[i]), .u.p = host_text[i]};
}

/* The numbers from 0 on as addresses, most significant byte first, or last: spread over all. */
static void hosts_make(int n, bool is_spread)
{
    for (int i = 0; i < n; i++) {
        uint32_t a = is_spread ? (uint32_t)i : htonl((uint32_t)i);
        MUST(inet_ntop(AF_INET, &a, host_text[i], sizeof host_text[i]) ? 0 : 1);
    }
}

static void hosts_put(int first, int n)
{
    sdb_txn *txn;
    MUST(sdb_txn_begin(db, &txn));
    for (int i = first; i < first + n; i++) {
        sdb_value v[COLUMNS] = {[PREFIX] = host_value(i), [PORT] = {.type = SDB_BLOB, .u.p = ""}};
        MUST(sdb_put(txn, table, i, v));
    }
    MUST(sdb_txn_commit(txn));
}

static void write_100_make(const row *r)
{
    table_open();
    hosts_make((int)r->per, false);
}

static void write_100(const row *r, size_t n)
{
    while (n--)
        hosts_put(0, (int)r->per);
}

static void write_1_make(const row *r)
{
    hosts_make((int)r->per, true);
}

static void write_1(const row *r, size_t n)
{
    while (n--) {
        table_open();
        for (int i = 0; i < (int)r->per; i++)
            hosts_put(i, 1);
        table_close();
    }
}

static void index_get_make(const row *r)
{
    table_open();
    hosts_make((int)r->per, false);
    hosts_put(0, (int)r->per);
}

static void index_get(const row *r, size_t n)
{
    sdb_snapshot_take(snap);
    MUST(sdb_cursor_open(cur, snap, table, BY_PREFIX));
    while (n--) {
        for (int i = 0; i < (int)r->per; i++) {
            sdb_value host = host_value(i);
            MUST(sdb_cursor_seek_prefix(cur, SDB_LONGEST, &host, false));
        }
    }
    must(sdb_row_rowid(sdb_cursor_row(cur)) == (int64_t)r->per - 1);
    sdb_cursor_close(cur);
    sdb_snapshot_drop(snap);
}

/* ---------------------------------------------------------------- the tree */

static struct {
    sdb_budget budget;
    sdb_arena arena;
    sdb_edit edit;
    sdb_link root;
    bool is_open;
} tree;

static void tree_put(const sdb_prefix *p, sdb_link value)
{
    MUST(sdb_arena_reserve(&tree.arena, sdb_lpm_need(&tree.arena, p), true));
    MUST(sdb_links_reserve(&tree.edit.retired, sdb_lpm_need_links(p)));
    (void)sdb_lpm_put(&tree.edit, &tree.root, p, value);
}

static void tree_del(const sdb_prefix *p)
{
    MUST(sdb_arena_reserve(&tree.arena, sdb_lpm_need(&tree.arena, p), false));
    MUST(sdb_links_reserve(&tree.edit.retired, sdb_lpm_need_links(p)));
    must(sdb_lpm_del(&tree.edit, &tree.root, p) != 0);
}

static void tree_commit(void)
{
    sdb_links *retired = &tree.edit.retired;
    tree.edit.floor = tree.edit.stamp++;
    for (size_t i = 0; i < retired->n; i++)
        sdb_arena_free(&tree.arena, retired->at[i],
                       sdb_lpm_size(sdb_at(tree.arena.base, retired->at[i])));
    retired->n = 0;
}

/* Of a transaction that has deleted only. */
static void tree_abort(sdb_link root)
{
    sdb_lpm_free(&tree.arena, tree.root, tree.edit.floor, NULL, NULL);
    tree.root = root;
    tree.edit.retired.n = 0;
}

/* An empty tree in place of the committed one. */
static void tree_clear(void)
{
    sdb_lpm_free(&tree.arena, tree.root, 0, NULL, NULL);
    tree.root = 0;
}

static void tree_open(const row *r)
{
    (void)r;
    MUST(sdb_arena_init(&tree.arena, &tree.budget));
    tree.edit = (sdb_edit){.arena = &tree.arena, .stamp = 1};
    tree.root = 0;
    tree.is_open = true;
}

static void tree_close(void)
{
    if (!tree.is_open)
        return;
    sdb_links_fini(&tree.edit.retired);
    sdb_arena_fini(&tree.arena);
    tree.is_open = false;
}

static sdb_prefix host(uint32_t n, bool is_spread)
{
    sdb_prefix p = {.family = SDB_IPV4, .bits = 32};
    n = is_spread ? n : htonl(n);
    memcpy(p.addr, &n, sizeof n);
    return p;
}

static void tree_fill(bool is_spread)
{
    for (uint32_t i = 0; i < FEW; i++) {
        sdb_prefix p = host(i, is_spread);
        tree_put(&p, i + 1);
    }
    tree_commit();
}

static void tree_full_spread(const row *r)
{
    tree_open(r);
    tree_fill(true);
}

static void tree_full(const row *r)
{
    tree_open(r);
    tree_fill(false);
}

/* what: into an empty tree */
static void txn_insert(const row *r, size_t n)
{
    while (n--) {
        for (uint32_t i = 0; i < r->per; i++) {
            sdb_prefix p = host(i, true);
            tree_put(&p, i + 1);
            if ((i + 1) % (uint32_t)r->arg == 0)
                tree_commit();
        }
        if (r->what)
            tree_clear();
    }
}

/* what: for good. Otherwise each transaction finds the tree full. */
static void txn_delete(const row *r, size_t n)
{
    while (n--) {
        sdb_link full = tree.root;
        for (uint32_t i = 0; i < r->per; i++) {
            sdb_prefix p = host(i, true);
            tree_del(&p);
            if ((i + 1) % (uint32_t)r->arg > 0)
                continue;
            if (r->what)
                tree_commit();
            else
                tree_abort(full);
        }
        clock_stop();
        if (r->what)
            tree_fill(true);
        clock_start();
    }
}

static sdb_prefix wanted[LOOKUPS];

static void lookup_make(const row *r)
{
    tree_full(r);
    for (uint32_t i = 0; i < r->per; i++)
        wanted[i] = host(i, false);
}

static void lookup(const row *r, size_t n)
{
    while (n--)
        for (uint32_t i = 0; i < r->per; i++)
            must(sdb_lpm_match(tree.arena.base, tree.root, &wanted[i]) == i + 1);
}

static void iterate(const row *r, size_t n)
{
    const sdb_prefix net = {.family = SDB_IPV4, .bits = 16}, from = host(FEW / 2, false);
    sdb_lpm_iter it;
    while (n--) {
        size_t seen = 0;
        if (r->what)
            sdb_lpm_iter_within(&it, tree.arena.base, tree.root, &net);
        else
            sdb_lpm_iter_open(&it, tree.arena.base, tree.root);
        for (sdb_link link = r->arg ? sdb_lpm_iter_seek(&it, &from) : sdb_lpm_iter_first(&it); link;
             link = sdb_lpm_iter_next(&it))
            seen++;
        must(seen == r->per);
    }
}

/* ---------------------------------------------------------------- the Internet */

static sdb_prefix *net; /* in random order */
static size_t n_net;

static void net_load(const row *r)
{
    (void)r;
    if (net)
        return;
    net = prefixes_get(PREFIXES_REAL, &n_net);
    for (size_t i = n_net - 1; i > 0; i--) {
        size_t j = rnd() % (i + 1);
        sdb_prefix p = net[i];
        net[i] = net[j];
        net[j] = p;
    }
}

static void net_build(void)
{
    for (size_t i = 0; i < n_net; i++)
        tree_put(&net[i], (sdb_link)i + 1);
    tree_commit();
}

/* An address that a prefix covers. */
static sdb_prefix address_in(const sdb_prefix *p)
{
    sdb_prefix a = *p;
    a.bits = (uint8_t)sdb_family_bits((sdb_family)p->family);
    for (unsigned bit = p->bits; bit < a.bits; bit++)
        a.addr[bit / 8] |= (uint8_t)((rnd() >> 40 & 1) << (7 - bit % 8));
    return a;
}

/* So many addresses, each out of some prefix. */
static void net_full(const row *r)
{
    net_load(r);
    tree_open(r);
    net_build();
    for (size_t i = 0; i < r->per; i++)
        wanted[i] = address_in(&net[rnd() % n_net]);
}

/* Of this the bytes are those that the built tree keeps. */
static void internet_build(const row *r, size_t n)
{
    while (n--) {
        clock_stop();
        tree_close();
        tree_open(r);
        clock_start();
        net_build();
        handled += n_net;
        bytes_kept = (double)atomic_load(&tree.arena.live) / (double)n_net;
        must(sdb_lpm_count(tree.arena.base, tree.root) == n_net);
    }
}

static void internet_lookup(const row *r, size_t n)
{
    while (n--)
        for (size_t i = 0; i < r->per; i++)
            must(sdb_lpm_match(tree.arena.base, tree.root, &wanted[i]) != 0);
}

/* A route is withdrawn and announced again, each a commit. */
static void internet_flap(const row *r, size_t n)
{
    (void)r;
    for (size_t i = 0; i < n; i++) {
        tree_del(&net[i % n_net]);
        tree_commit();
        tree_put(&net[i % n_net], (sdb_link)(i % n_net) + 1);
        tree_commit();
    }
    must(sdb_lpm_count(tree.arena.base, tree.root) == n_net);
}

/* ---------------------------------------------------------------- the rows */

static const row ROWS[] = {
    /* name, per, make, run, arg, what, is_random, fixed */
    {"WriteTxn_100_LPMIndex", 100, write_100_make, write_100, 0, 0, false, 0},
    {"WriteTxn_1_LPMIndex", HOSTS, write_1_make, write_1, 0, 0, false, 0},
    {"LPMIndex_Get", HOSTS, index_get_make, index_get, 0, 0, false, 0},

    {"lpm_txn_insert_1", FEW, tree_open, txn_insert, 1, 0, false, 0},
    {"lpm_txn_insert_10", FEW, tree_open, txn_insert, 10, 0, false, 0},
    {"lpm_txn_insert_100", FEW, tree_open, txn_insert, 100, 0, false, 0},
    {"lpm_txn_insert_1_fresh", FEW, tree_open, txn_insert, 1, 1, false, 0},
    {"lpm_txn_insert_10_fresh", FEW, tree_open, txn_insert, 10, 1, false, 0},
    {"lpm_txn_insert_100_fresh", FEW, tree_open, txn_insert, 100, 1, false, 0},
    {"lpm_txn_delete_1", FEW, tree_full_spread, txn_delete, 1, 0, false, 0},
    {"lpm_txn_delete_10", FEW, tree_full_spread, txn_delete, 10, 0, false, 0},
    {"lpm_txn_delete_100", FEW, tree_full_spread, txn_delete, 100, 0, false, 0},
    {"lpm_txn_delete_1_commit", FEW, tree_full_spread, txn_delete, 1, 1, false, 0},
    {"lpm_txn_delete_10_commit", FEW, tree_full_spread, txn_delete, 10, 1, false, 0},
    {"lpm_txn_delete_100_commit", FEW, tree_full_spread, txn_delete, 100, 1, false, 0},
    {"lpm_Lookup", FEW, lookup_make, lookup, 0, 0, false, 0},
    {"lpm_All", FEW, tree_full, iterate, 0, 0, false, 0},
    {"lpm_Prefix", FEW, tree_full, iterate, 0, 1, false, 0},
    {"lpm_LowerBound", FEW / 2, tree_full, iterate, 1, 0, false, 0},

    {"internet_Build", 1, net_load, internet_build, 0, 0, false, 1},
    {"internet_Lookup", LOOKUPS, net_full, internet_lookup, 0, 0, false, 1},
    {"internet_Lookup_hot", HOT, net_full, internet_lookup, 0, 0, false, 0},
    {"internet_Flap", 2, net_full, internet_flap, 0, 0, false, 0},
};

static void end(void)
{
    table_close();
    tree_close();
}

static void prefixes_print(void)
{
    char text[SDB_PREFIX_TEXT];
    net_load(NULL);
    for (size_t i = 0; i < n_net; i++) {
        sdb_prefix_print(&net[i], text);
        printf(strchr(text, '/') ? "%s\n" : "%s/%d\n", text, net[i].bits);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "prefixes") == 0) {
        prefixes_print();
        return 0;
    }
    return rows_main(argc, argv, ROWS, sizeof ROWS / sizeof *ROWS, end);
}
