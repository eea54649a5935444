/* functions.c - the SQL functions. */
#include "ext.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* statedb_version() */
static void version_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_text(ctx, STATEDB_VERSION, -1, SQLITE_STATIC);
}

/* statedb_memory(what [, store]): bytes in the connection's own store, or in one with a name
** (core/statedb.h, sdb_memory). */
static void memory_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    static const char wrong[] =
        "statedb_memory: the argument is 'live', 'retired', 'mapped' or 'reserved'";
    const char *what = (const char *)sqlite3_value_text(argv[0]);
    const char *name = argc > 1 ? (const char *)sqlite3_value_text(argv[1]) : NULL;
    store *s;
    sdb_memory memory;
    const struct {
        const char *name;
        const uint64_t *bytes;
    } fields[] = {
        {"live", &memory.live},
        {"retired", &memory.retired},
        {"mapped", &memory.mapped},
        {"reserved", &memory.reserved},
    };
    int rc = store_open(sqlite3_user_data(ctx), name, &s);

    if (rc || (!what && sqlite3_value_type(argv[0]) != SQLITE_NULL) ||
        (argc > 1 && !name && sqlite3_value_type(argv[1]) != SQLITE_NULL)) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    sdb_memory_used(s->db, &memory);
    for (size_t i = 0; what && i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(what, fields[i].name) == 0) {
            sqlite3_result_int64(ctx, (sqlite3_int64)*fields[i].bytes);
            return;
        }
    }
    sqlite3_result_error(ctx, wrong, -1);
}

const index_function index_functions[INDEX_FUNCTIONS] = {
    {"statedb_lpm", SDB_LPM, SDB_LONGEST, 1, true, true, prefix_lpm, prefix_filter},
    {"statedb_covers", SDB_LPM, SDB_COVERS, 4, false, false, prefix_covers, prefix_filter},
    {"statedb_within", SDB_LPM, SDB_WITHIN, 0, false, false, prefix_within, prefix_filter},
    {"statedb_has", SDB_MULTI, MULTI_HAS, 10, false, true, multi_function, multi_filter},
    {"statedb_has_prefix", SDB_MULTI, MULTI_HAS_PREFIX, 0, false, false, multi_function, multi_filter},
};

static int index_functions_register(sqlite3 *db)
{
    int rc = SQLITE_OK;

    for (int i = 0; !rc && i < INDEX_FUNCTIONS; i++) {
        const index_function *f = &index_functions[i];
        int flags = SQLITE_UTF8 | SQLITE_INNOCUOUS | (f->is_of_table ? 0 : SQLITE_DETERMINISTIC);
        rc = sqlite3_create_function_v2(db, f->name, 2, flags, (void *)f, f->function, NULL, NULL,
                                        NULL);
    }
    return rc;
}

int functions_register(conn *c)
{
    int rc = sqlite3_create_function_v2(c->db, "statedb_version", 0,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
                                        version_function, NULL, NULL, NULL);

    if (!rc)
        rc = index_functions_register(c->db);
    if (!rc)
        rc = prefix_functions_register(c->db);
    for (int n_args = 1; n_args <= 2 && !rc; n_args++)
        rc = sqlite3_create_function_v2(c->db, "statedb_memory", n_args,
                                        SQLITE_UTF8 | SQLITE_INNOCUOUS, conn_ref(c),
                                        memory_function, NULL, NULL, conn_unref);
    return rc;
}
