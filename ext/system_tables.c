/* system_tables.c - what there is in the stores of a connection, and what was done there: statedb_tables,
** statedb_indexes, statedb_feeds, statedb_locks, statedb_stats. */
#include "listing.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* Call `add` for each table of each store, as a cursor that starts now would see it. */
static int each_table(conn *c, listing *l,
                      int (*add)(listing *l, store *s, view v, const sdb_table *t))
{
    int rc = SQLITE_OK;

    for (store *s = c->stores; s && !rc; s = s->next) {
        view v;
        rc = error_code(view_begin(s, &v));
        if (rc)
            return rc;
        c->n_open++; /* as a cursor, to keep what is read */
        for (const sdb_table *t = view_next_table(v, NULL); t && !rc; t = view_next_table(v, t))
            rc = add(l, s, v, t);
        c->n_open--;
        view_end(s, v);
    }
    return rc;
}

/* ---------------------------------------------------------------- statedb_tables */

static int table_add(listing *l, store *s, view v, const sdb_table *t)
{
    sdb_table_info info;
    int rc = v.txn ? sdb_txn_table_info(v.txn, t, &info) : sdb_snapshot_table_info(v.snapshot, t, &info);

    if (rc)
        return error_code(rc);
    listing_text(l, s->name);
    listing_text(l, info.name);
    listing_integer(l, (int64_t)info.rows);
    listing_integer(l, (int64_t)info.revision);
    listing_integer(l, (int64_t)info.memory.live);
    listing_integer(l, (int64_t)info.memory.retired);
    listing_integer(l, info.indexes);
    listing_integer(l, info.feeds);
    listing_integer(l, (int64_t)info.deletions);
    listing_integer(l, info.watches);
    listing_text(l, sdb_table_sql(t));
    return SQLITE_OK;
}

static int tables_fill(conn *c, listing *l, char **err)
{
    (void)err;
    return each_table(c, l, table_add);
}

static const listing_module tables_module = {
    .name = "statedb_tables",
    .columns = "store TEXT, name TEXT, rows INTEGER, revision INTEGER, bytes INTEGER, retired INTEGER, "
               "indexes INTEGER, feeds INTEGER, deletions INTEGER, watches INTEGER, sql TEXT",
    .n_columns = 11,
    .is_harmless = true,
    .fill = tables_fill,
};

/* ---------------------------------------------------------------- statedb_indexes */

/* "name COLLATE NOCASE, cpu DESC"; NULL: no memory. */
static char *parts_print(const table_sql *def, const sdb_index_def *index)
{
    static const char *const collation[] = {
        [SDB_BINARY] = "", [SDB_NOCASE] = " COLLATE NOCASE", [SDB_RTRIM] = " COLLATE RTRIM"};
    sqlite3_str *text = sqlite3_str_new(NULL);

    for (int i = 0; i < index->n_parts; i++) {
        const sdb_part *part = &index->parts[i];
        sqlite3_str_appendf(text, "%s%s%s%s", i ? ", " : "", part_name(def, part),
                            collation[part->collation], part->desc ? " DESC" : "");
    }
    return sqlite3_str_finish(text);
}

static int indexes_add(listing *l, store *s, view v, const sdb_table *t)
{
    static const char *const kind[] = {
        [SDB_RADIX] = "radix", [SDB_LPM] = "lpm", [SDB_MULTI] = "multi"};
    const char *name = view_name(v, t);
    const char *const argv[] = {"statedb", "temp", name, sdb_table_sql(t)};
    char *err = NULL;
    table_sql *def;
    int rc = table_sql_parse(4, argv, &def, &err);

    sqlite3_free(err); /* it has been parsed before: there is no memory, at most */
    if (rc)
        return SQLITE_NOMEM;
    for (int i = 1; i <= view_indexes(v, t); i++) {
        const sdb_index_def *index = view_index(v, t, i);
        listing_text(l, s->name);
        listing_text(l, name);
        listing_text(l, index->name);
        listing_text(l, kind[index->kind]);
        listing_integer(l, index->unique);
        listing_text_take(l, parts_print(def, index));
    }
    table_sql_free(def);
    return SQLITE_OK;
}

static int indexes_fill(conn *c, listing *l, char **err)
{
    (void)err;
    return each_table(c, l, indexes_add);
}

static const listing_module indexes_module = {
    .name = "statedb_indexes",
    .columns = "store TEXT, tbl_name TEXT, name TEXT, kind TEXT, is_unique INTEGER, columns TEXT",
    .n_columns = 6,
    .is_harmless = true,
    .fill = indexes_fill,
};

/* ---------------------------------------------------------------- statedb_feeds */

/* Columns that say which. */
enum { FEED_STORE, FEED_TABLE, FEED_NAME };

static int feeds_add(listing *l, store *s, view v, const sdb_table *t)
{
    int n = view_feeds(v, t);

    for (int i = 0; i < n; i++) {
        sdb_feed_info info;
        if (v.txn)
            sdb_txn_feed(v.txn, t, i, &info);
        else
            sdb_snapshot_feed(v.snapshot, t, i, &info);
        listing_text(l, s->name);
        listing_text(l, view_name(v, t));
        listing_text(l, info.name);
        listing_integer(l, (int64_t)info.acknowledged);
        listing_integer(l, (int64_t)info.revision);
        listing_integer(l, (int64_t)info.rows);
        listing_integer(l, (int64_t)info.deletions);
        listing_integer(l, (int64_t)info.bytes);
    }
    return SQLITE_OK;
}

static int feeds_fill(conn *c, listing *l, char **err)
{
    (void)err;
    return each_table(c, l, feeds_add);
}

/* End a feed, in the transaction like any change. */
static int feeds_remove(conn *c, const listing *l, int row, char **err)
{
    sdb_value in = listing_value(l, row, FEED_STORE);
    sdb_value of = listing_value(l, row, FEED_TABLE);
    sdb_value name = listing_value(l, row, FEED_NAME);
    store *s = store_find(c, in.type == SDB_NULL ? NULL : in.u.p);
    sdb_table *table;
    int rc = lock_take_named(s, of.u.p, "statedb_feeds", &table, err);

    if (rc)
        return rc;
    rc = table ? sdb_txn_drop_feed(s->txn, table, name.u.p) : SDB_DONE;
    if (rc == SDB_OK)
        txn_indexes_changed(s, false); /* the revisions may be gone */
    if (rc >= 0)
        return SQLITE_OK;
    *err = sqlite3_mprintf("statedb: statedb_feeds: %s", sdb_errmsg(rc));
    return *err ? error_code(rc) : SQLITE_NOMEM;
}

static const listing_module feeds_module = {
    .name = "statedb_feeds",
    .columns = "store TEXT, tbl_name TEXT, name TEXT, acknowledged INTEGER, revision INTEGER, "
               "rows INTEGER, deletions INTEGER, bytes INTEGER",
    .n_columns = 8,
    .fill = feeds_fill,
    .remove = feeds_remove,
};

/* ---------------------------------------------------------------- statedb_locks */

typedef struct lock_list {
    listing *l;
    store *store;
} lock_list;

static void lock_add(void *ctx, const sdb_lock_info *info)
{
    lock_list *to = ctx;
    listing *l = to->l;
    const store *s = to->store;

    listing_text(l, s->name);
    listing_text(l, info->table);
    listing_integer(l, (int64_t)info->txn);
    listing_integer(l, s->txn && sdb_txn_id(s->txn) == info->txn);
    listing_integer(l, info->is_waiting);
    listing_integer(l, info->ms);
}

static int locks_fill(conn *c, listing *l, char **err)
{
    int rc = SDB_OK;

    (void)err;
    for (store *s = c->stores; s && !rc; s = s->next)
        rc = sdb_lock_each(s->db, lock_add, &(lock_list){l, s});
    return error_code(rc);
}

static const listing_module locks_module = {
    .name = "statedb_locks",
    .columns = "store TEXT, tbl_name TEXT, txn INTEGER, is_own INTEGER, is_waiting INTEGER, ms INTEGER",
    .n_columns = 6,
    .is_harmless = true,
    .fill = locks_fill,
};

/* ---------------------------------------------------------------- statedb_stats */

static void stat_add(listing *l, const store *s, const char *table, const char *name, uint64_t value)
{
    listing_text(l, s->name);
    listing_text(l, table);
    listing_text(l, name);
    listing_integer(l, (int64_t)value);
}

static int table_stats_add(listing *l, store *s, view v, const sdb_table *t)
{
    sdb_table_info info;
    int rc = v.txn ? sdb_txn_table_info(v.txn, t, &info) : sdb_snapshot_table_info(v.snapshot, t, &info);

    for (int i = 0; !rc && i < SDB_N_COUNTERS; i++)
        if (i != SDB_N_SNAPSHOTS) /* of a store alone */
            stat_add(l, s, info.name, sdb_counter_name(i), info.count[i]);
    return error_code(rc);
}

static void store_stats_add(listing *l, store *s)
{
    sdb_stats now;

    view_let_go(s);
    sdb_stats_read(s->db, &now);
    for (int i = 0; i < SDB_N_COUNTERS; i++)
        stat_add(l, s, NULL, sdb_counter_name(i), now.count[i]);
    stat_add(l, s, NULL, "last_commit", now.commit);
    stat_add(l, s, NULL, "tables", now.tables);
    stat_add(l, s, NULL, "open_transactions", now.transactions);
    stat_add(l, s, NULL, "held_snapshots", now.snapshots);
    stat_add(l, s, NULL, "named_snapshots", now.named);
    stat_add(l, s, NULL, "watches", now.watches);
    stat_add(l, s, NULL, "bytes_limit", now.limit);
    stat_add(l, s, NULL, "bytes_live", now.memory.live);
    stat_add(l, s, NULL, "bytes_retired", now.memory.retired);
    stat_add(l, s, NULL, "bytes_mapped", now.memory.mapped);
    stat_add(l, s, NULL, "bytes_reserved", now.memory.reserved);
}

/* Before a cursor of ours adds to what is counted. */
static int stats_fill(conn *c, listing *l, char **err)
{
    (void)err;
    for (store *s = c->stores; s; s = s->next)
        store_stats_add(l, s);
    return each_table(c, l, table_stats_add);
}

static const listing_module stats_module = {
    .name = "statedb_stats",
    .columns = "store TEXT, tbl_name TEXT, name TEXT, value INTEGER",
    .n_columns = 4,
    .is_harmless = true,
    .fill = stats_fill,
};

int system_tables_register(conn *c)
{
    const listing_module *modules[] = {&tables_module, &indexes_module, &feeds_module,
                                       &locks_module, &stats_module};
    int rc = SQLITE_OK;

    for (size_t i = 0; !rc && i < sizeof modules / sizeof *modules; i++)
        rc = listing_register(c, modules[i]);
    return rc;
}
