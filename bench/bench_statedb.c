/* bench_statedb.c - the benchmarks that StateDB in Go has of its tables, done by ours.
**
** Each row bears the name of one there and does the same work: the same keys in the same order, the
** same transactions, the same reads (peers/table.go). For its objects of an id, a key, a prefix and
** tags we have rows of four columns; the order by revision, which it always keeps and we only for
** who asks, is not asked for, but where changes are followed: by a feed. Where theirs write the same ids
** again and again, which makes replaces of the inserts, a row named _fresh writes ever new ones. */
#include "rows.h"

enum { ID, KEY, PREFIX, TAG, COLUMNS };
enum { PLAIN, KEYED, TAGGED, PARITY }; /* what: which column is set, and indexed */

static sdb_db *db;
static sdb_table *table, *first; /* the last one made, and the first */
static sdb_snapshot *snap;
static sdb_cursor *cur;
static sdb_watch *watch[1024];
static sdb_watch_set *watch_set;
static sdb_changes *changes;
static char key_text[MANY][24];
static sdb_value wanted[MANY];

static sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static void store_open(int tables, int what)
{
    const sdb_part part = {.column = what == KEYED ? KEY : TAG};
    const sdb_index_def index = {
        .name = "i", .unique = what == KEYED, .n_parts = 1, .parts = &part};
    sdb_txn *txn;
    MUST(sdb_open(&db));
    MUST(sdb_snapshot_new(db, &snap));
    MUST(sdb_cursor_new(db, &cur));
    MUST(sdb_txn_begin(db, &txn));
    for (int i = 0; i < tables; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        sdb_table_def def = {.name = name,
                             .n_columns = COLUMNS,
                             .rowid_column = ID,
                             .n_indexes = what != PLAIN,
                             .indexes = &index};
        MUST(sdb_txn_create_table(txn, &def, &table));
        first = i ? first : table;
    }
    MUST(sdb_txn_commit(txn));
}

static void store_close(void)
{
    if (!db)
        return;
    for (size_t i = 0; i < sizeof watch / sizeof *watch; i++) {
        sdb_watch_free(watch[i]);
        watch[i] = NULL;
    }
    sdb_watch_set_free(watch_set);
    watch_set = NULL;
    sdb_changes_free(changes);
    changes = NULL;
    sdb_cursor_free(cur);
    sdb_snapshot_free(snap);
    sdb_unref(db);
    db = NULL;
}

static void object_put(sdb_txn *txn, int64_t id, int what)
{
    sdb_value v[COLUMNS] = {[KEY] = text("")};
    if (what == KEYED)
        v[KEY] = text(key_text[id]);
    else if (what != PLAIN)
        v[TAG] = text(what == TAGGED ? "test" : id % 2 == 0 ? "even" : "odd");
    MUST(sdb_put(txn, table, id, v));
}

/* One transaction that puts n objects in order. */
static void objects_put(const int64_t *id, size_t n, int what)
{
    sdb_txn *txn;
    MUST(sdb_txn_begin(db, &txn));
    for (size_t i = 0; i < n; i++)
        object_put(txn, id[i], what);
    MUST(sdb_txn_commit(txn));
}

static void make_empty(const row *r)
{
    store_open(1, r->what);
    order_fill(r->per, r->is_random);
}

static void make_full(const row *r)
{
    store_open(1, r->what);
    for (size_t i = 0; i < r->per; i++)
        snprintf(key_text[i], sizeof key_text[i], "%zu", i);
    order_fill(r->per, false);
    objects_put(order, r->per, r->what);
    order_fill(r->per, r->is_random);
    for (size_t i = 0; i < r->per; i++)
        wanted[i] = r->what == KEYED ? text(key_text[order[i]])
                                     : (sdb_value){.type = SDB_INTEGER, .u.i = order[i]};
}

static void make_one(const row *r)
{
    store_open(1, r->what);
    order[0] = 123;
}

static void make_tables(const row *r)
{
    store_open(r->arg, TAGGED);
}

static void make_plain_tables(const row *r)
{
    store_open(r->arg, PLAIN);
}

static void make_order(const row *r)
{
    order_fill(MANY, r->is_random);
}

static void writes(const row *r, size_t n)
{
    while (n--)
        objects_put(order, r->per, r->what);
    sdb_snapshot_take(snap);
    must(sdb_snapshot_count(snap, table) == r->per);
    sdb_snapshot_drop(snap);
}

static void fresh(const row *r, size_t n)
{
    while (n--) {
        store_open(1, r->what);
        for (int at = 0; at < MANY; at += r->arg)
            objects_put(order + at, (size_t)r->arg, r->what);
        store_close();
    }
}

static void commit_only(const row *r, size_t n)
{
    (void)r;
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        MUST(sdb_txn_lock(txn, table));
        MUST(sdb_txn_commit(txn));
    }
}

static void new_write_txn(const row *r, size_t n)
{
    (void)r;
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        MUST(sdb_txn_lock(txn, table));
        sdb_txn_abort(txn);
    }
}

static void new_read_txn(const row *r, size_t n)
{
    (void)r;
    while (n--) {
        sdb_snapshot_take(snap);
        sdb_snapshot_drop(snap);
    }
}

/* ---- each row once more, in one transaction */

static void object_modify(sdb_txn *txn, int64_t id)
{
    sdb_value v[COLUMNS] = {[KEY] = text("")};
    MUST(sdb_stage(txn, table, id, v));
    const sdb_row *old = sdb_stage_clash(txn, SDB_BY_ROWID, NULL);
    must(old != NULL);
    MUST(sdb_stage_put(txn, old));
}

static void row_copy(sdb_txn *txn, const sdb_row *old)
{
    sdb_value v[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        v[i] = sdb_row_value(table, old, i);
    MUST(sdb_put(txn, table, sdb_row_rowid(old), v));
}

static void modify(const row *r, size_t n)
{
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        for (size_t i = 0; i < r->per; i++)
            object_modify(txn, order[i]);
        MUST(sdb_txn_commit(txn));
    }
}

static void get_insert(const row *r, size_t n)
{
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        for (size_t i = 0; i < r->per; i++)
            row_copy(txn, sdb_txn_get(txn, table, order[i]));
        MUST(sdb_txn_commit(txn));
    }
}

static void list_insert(const row *r, size_t n)
{
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        for (size_t i = 0; i < r->per; i++) {
            sdb_range one = {.eq = &wanted[i], .n_eq = 1};
            MUST(sdb_cursor_open_txn(cur, txn, table, SDB_BY_ROWID));
            for (int rc = sdb_cursor_seek(cur, &one); rc == SDB_OK; rc = sdb_cursor_next(cur))
                row_copy(txn, sdb_cursor_row(cur));
            sdb_cursor_close(cur);
        }
        MUST(sdb_txn_commit(txn));
    }
}

static void insert_prefix(const row *r, size_t n)
{
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        for (size_t i = 0; i < r->per; i++) {
            sdb_value id = {.type = SDB_INTEGER, .u.i = (int64_t)i};
            sdb_range one = {.eq = &id, .n_eq = 1};
            object_put(txn, id.u.i, PLAIN);
            for (int k = 0; k < 5; k++) {
                MUST(sdb_cursor_open_txn(cur, txn, table, SDB_BY_ROWID));
                MUST(sdb_cursor_seek(cur, &one));
                sdb_cursor_close(cur);
            }
        }
        must(sdb_txn_count(txn, table) == r->per);
        sdb_txn_abort(txn);
    }
}

static void objects_delete(void)
{
    sdb_txn *txn;
    MUST(sdb_txn_begin(db, &txn));
    MUST(sdb_delete_all(txn, table));
    MUST(sdb_txn_commit(txn));
}

static void changes_baseline(const row *r, size_t n)
{
    while (n--) {
        objects_put(order, r->per, PLAIN);
        objects_delete();
    }
}

/* ---- changes: read by a feed of the first table */

static const sdb_range ALL = {0};

static void feed_make(void)
{
    sdb_txn *txn;
    MUST(sdb_changes_new(db, &changes));
    MUST(sdb_txn_begin(db, &txn));
    MUST(sdb_txn_create_feed(txn, first, "feed"));
    MUST(sdb_txn_commit(txn));
    for (int i = 0; i < 2; i++)
        MUST(sdb_watch_new(db, &watch[i]));
    sdb_snapshot_take(snap);
    MUST(sdb_watch_arm(watch[0], snap, first, SDB_BY_ROWID, &ALL));
    sdb_snapshot_drop(snap);
}

static void feed_acknowledge(sdb_txn *txn)
{
    MUST(sdb_txn_acknowledge(txn, first, "feed", sdb_snapshot_revision(snap, first)));
}

static void make_feed(const row *r)
{
    make_empty(r);
    feed_make();
}

/* Wait for a commit, and see what it has changed. */
static void changes_take(const row *r, bool are_deletions)
{
    sdb_txn *txn;
    size_t seen = 0;
    MUST(sdb_watch_wait(watch[0], -1));
    sdb_snapshot_take(snap);
    MUST(sdb_watch_arm(watch[0], snap, first, SDB_BY_ROWID, &ALL));
    MUST(sdb_changes_open(changes, snap, first, "feed"));
    for (; sdb_changes_next(changes) == SDB_OK; seen++)
        must(sdb_row_is_deleted(sdb_changes_row(changes)) == are_deletions);
    must(seen == r->per);
    MUST(sdb_txn_begin(db, &txn));
    feed_acknowledge(txn);
    MUST(sdb_txn_commit(txn));
    sdb_snapshot_drop(snap);
}

static void changes_follow(const row *r, size_t n)
{
    while (n--) {
        objects_put(order, r->per, PLAIN);
        changes_take(r, false);
        objects_delete();
        changes_take(r, true);
    }
}

/* Batches of rows go from the first table on to the last, as its watch fires. */
static void make_propagation(const row *r)
{
    store_open(2, PLAIN);
    order_fill(r->per, false);
    feed_make();
}

static void propagate(const row *r, size_t n)
{
    while (n--) {
        sdb_txn *txn;
        MUST(sdb_txn_begin(db, &txn));
        for (size_t i = 0; i < r->per; i++) {
            sdb_value v[COLUMNS] = {[KEY] = text("")};
            MUST(sdb_put(txn, first, order[i], v));
        }
        MUST(sdb_txn_commit(txn));
        MUST(sdb_watch_wait(watch[0], -1));
        sdb_snapshot_take(snap);
        MUST(sdb_watch_arm(watch[1], snap, table, SDB_BY_ROWID, &ALL));
        MUST(sdb_watch_arm(watch[0], snap, first, SDB_BY_ROWID, &ALL));
        MUST(sdb_changes_open(changes, snap, first, "feed"));
        MUST(sdb_txn_begin(db, &txn));
        while (sdb_changes_next(changes) == SDB_OK)
            row_copy(txn, sdb_changes_row(changes));
        feed_acknowledge(txn);
        MUST(sdb_txn_commit(txn));
        sdb_snapshot_drop(snap);
        MUST(sdb_watch_wait(watch[1], -1));
    }
    sdb_snapshot_take(snap);
    must(sdb_snapshot_count(snap, table) == r->per);
    sdb_snapshot_drop(snap);
}

/* ---- reads; arg: how often a snapshot is taken */

enum { ONCE, EACH_LOOP, EACH_GET };

static void reading_start(const row *r)
{
    sdb_snapshot_take(snap);
    MUST(sdb_cursor_open(cur, snap, table, r->what != PLAIN));
}

static void reading_end(void)
{
    sdb_cursor_close(cur);
    sdb_snapshot_drop(snap);
}

static void gets(const row *r, size_t n)
{
    if (r->arg == ONCE)
        reading_start(r);
    while (n--) {
        if (r->arg == EACH_LOOP)
            reading_start(r);
        for (size_t i = 0; i < r->per; i++) {
            sdb_range one = {.eq = &wanted[i], .n_eq = 1};
            if (r->arg == EACH_GET)
                reading_start(r);
            MUST(sdb_cursor_seek(cur, &one));
            if (r->arg == EACH_GET)
                reading_end();
        }
        if (r->arg == EACH_LOOP)
            reading_end();
    }
    if (r->arg == ONCE)
        reading_end();
}

/* arg: a lower bound alone, "t", in place of the prefix "test" */
static void iterate_tag(const row *r, size_t n)
{
    const sdb_value test = text("test"), behind = text("tesu"), t = text("t");
    const sdb_range prefix = {.lower = &test, .upper = &behind, .upper_open = true};
    const sdb_range bound = {.lower = &t};
    reading_start(r);
    while (n--) {
        size_t count = 0;
        for (int rc = sdb_cursor_seek(cur, r->arg ? &bound : &prefix); rc == SDB_OK;
             rc = sdb_cursor_next(cur))
            count++;
        must(count == r->per);
    }
    reading_end();
}

static void iterate_all(const row *r, size_t n)
{
    while (n--) {
        int64_t id = 0;
        reading_start(r);
        for (int rc = sdb_cursor_seek(cur, &ALL); rc == SDB_OK; rc = sdb_cursor_next(cur))
            must(sdb_row_rowid(sdb_cursor_row(cur)) == id++);
        must((size_t)id == r->per);
        reading_end();
    }
}

/* Each row is got, and watched from then on. */
static void make_watched(const row *r)
{
    make_full(r);
    MUST(sdb_watch_new(db, &watch[0]));
}

static void get_watch(const row *r, size_t n)
{
    reading_start(r);
    while (n--) {
        for (size_t i = 0; i < r->per; i++) {
            sdb_range one = {.eq = &wanted[i], .n_eq = 1};
            MUST(sdb_cursor_seek(cur, &one));
            MUST(sdb_watch_arm(watch[0], snap, table, SDB_BY_ROWID, &one));
        }
    }
    reading_end();
}

/* ---- waiting for the one watch of a set that has fired, added last; arg: how many there are */

static void make_watches(const row *r)
{
    store_open(1, PLAIN);
    MUST(sdb_watch_set_new(db, &watch_set));
    sdb_snapshot_take(snap);
    for (int i = 0; i < r->arg; i++) {
        sdb_value id = {.type = SDB_INTEGER, .u.i = i};
        sdb_range one = {.eq = &id, .n_eq = 1};
        MUST(sdb_watch_new(db, &watch[i]));
        MUST(sdb_watch_arm(watch[i], snap, table, SDB_BY_ROWID, &one));
        if (i > 0)
            sdb_watch_set_add(watch_set, watch[i]);
    }
    sdb_snapshot_drop(snap);
    order_fill(1, false);
    objects_put(order, 1, PLAIN);
}

static void watch_set_wait(const row *r, size_t n)
{
    (void)r;
    while (n--) {
        sdb_watch *fired;
        int count;
        sdb_watch_set_add(watch_set, watch[0]);
        MUST(sdb_watch_set_wait(watch_set, -1, 0, &fired, 1, &count));
        must(fired == watch[0]);
    }
}

/* ---------------------------------------------------------------- the rows */

static const row ROWS[] = {
    /* name, per, make, run, arg, what, is_random, fixed */
    {"WriteTxn_1", 1, make_one, writes, 0, PLAIN, false, 0},
    {"WriteTxn_10", 10, make_empty, writes, 0, PLAIN, false, 0},
    {"WriteTxn_100", 100, make_empty, writes, 0, PLAIN, false, 0},
    {"WriteTxn_1000", 1000, make_empty, writes, 0, PLAIN, false, 0},
    {"WriteTxn_1_fresh", MANY, make_order, fresh, 1, PLAIN, false, 0},
    {"WriteTxn_10_fresh", MANY, make_order, fresh, 10, PLAIN, false, 0},
    {"WriteTxn_100_fresh", MANY, make_order, fresh, 100, PLAIN, false, 0},
    {"WriteTxn_1000_fresh", MANY, make_order, fresh, 1000, PLAIN, false, 0},
    {"WriteTxn_100_SecondaryIndex", 100, make_empty, writes, 0, TAGGED, false, 0},
    {"WriteTxn_100_SecondaryIndex_fresh", MANY, make_order, fresh, 100, TAGGED, false, 0},
    {"WriteTxn_CommitOnly_100Tables", 1, make_tables, commit_only, 100, 0, false, 0},
    {"WriteTxn_CommitOnly_1Table", 1, make_tables, commit_only, 1, 0, false, 0},
    {"NewWriteTxn", 1, make_tables, new_write_txn, 1, 0, false, 0},
    {"WriteTxnCommit100", 1, make_plain_tables, commit_only, 100, 0, false, 0},
    {"NewReadTxn", 1, make_tables, new_read_txn, 1, 0, false, 0},
    {"Modify", FEW, make_full, modify, 0, PLAIN, true, 0},
    {"GetInsert", FEW, make_full, get_insert, 0, PLAIN, true, 0},
    {"ListInsert", FEW, make_full, list_insert, 0, PLAIN, true, 0},
    {"RandomInsert", FEW, make_empty, writes, 0, PLAIN, true, 0},
    {"RandomInsert_fresh", MANY, make_order, fresh, FEW, PLAIN, true, 0},
    {"RandomReplace", FEW, make_full, writes, 0, PARITY, true, 0},
    {"SequentialInsert", FEW, make_empty, writes, 0, PLAIN, false, 0},
    {"SequentialInsert_Prefix", FEW, make_empty, insert_prefix, 0, PLAIN, false, 0},
    {"Changes_Baseline", FEW, make_empty, changes_baseline, 0, PLAIN, false, 0},
    {"Changes", FEW, make_feed, changes_follow, 0, PLAIN, false, 0},
    {"PropagationDelay", 10, make_propagation, propagate, 0, PLAIN, false, 0},
    {"RandomLookup", FEW, make_full, gets, EACH_LOOP, PLAIN, true, 0},
    {"SequentialLookup", FEW, make_full, gets, ONCE, PLAIN, false, 0},
    {"Prefix_SecondaryIndex", FEW, make_full, iterate_tag, 0, TAGGED, false, 0},
    {"LowerBound_SecondaryIndex", FEW, make_full, iterate_tag, 1, TAGGED, false, 0},
    {"FullIteration_All", MANY, make_full, iterate_all, 0, PLAIN, false, 0},
    {"FullIteration_Prefix", MANY, make_full, iterate_all, 0, PLAIN, false, 0},
    {"FullIteration_Get", MANY, make_full, gets, ONCE, PLAIN, false, 0},
    {"FullIteration_Get_Secondary", MANY, make_full, gets, ONCE, KEYED, false, 0},
    {"FullIteration_ReadTxnGet", MANY, make_full, gets, EACH_GET, PLAIN, false, 0},
    {"part_GetWatch", FEW, make_watched, get_watch, 0, PLAIN, false, 0},

    {"WatchSet_4", 1, make_watches, watch_set_wait, 4, 0, false, 0},
    {"WatchSet_16", 1, make_watches, watch_set_wait, 16, 0, false, 0},
    {"WatchSet_128", 1, make_watches, watch_set_wait, 128, 0, false, 0},
    {"WatchSet_1024", 1, make_watches, watch_set_wait, 1024, 0, false, 0},
};

int main(int argc, char **argv)
{
    return rows_main(argc, argv, ROWS, sizeof ROWS / sizeof *ROWS, store_close);
}
