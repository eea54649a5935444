/* statedb.c - the extension's entry points: what a connection gets when it loads statedb. */
#include "ext.h"
#include "statedb_static.h"

#include <string.h>

SQLITE_EXTENSION_INIT1

/* sqlite3_vtab_in and sqlite3_vtab_rhs_value are there since 3.38.0, which itself does not check
** (a, b) IN (...) of a virtual table's rows. */
enum { SQLITE_NEEDED = 3038002 };

/* Whether the module is there already. To register it again would leave the tables of this
** connection with the old one, in another store. */
static int is_loaded(sqlite3 *db, bool *out)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, "PRAGMA module_list", -1, &stmt, NULL);
    const char *name;

    *out = false;
    if (rc)
        return rc;
    while (!*out && sqlite3_step(stmt) == SQLITE_ROW) {
        name = (const char *)sqlite3_column_text(stmt, 0);
        *out = name && strcmp(name, "statedb") == 0;
    }
    rc = sqlite3_finalize(stmt);
    return *out ? SQLITE_OK : rc;
}

static int encoding_find(conn *c)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(c->db, "PRAGMA encoding", -1, &stmt, NULL);

    if (rc)
        return rc;
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        c->is_utf16 = name && strncmp(name, "UTF-16", 6) == 0;
    }
    return sqlite3_finalize(stmt);
}

/* The module comes last: where it is, everything is registered, and for this conn. */
static int connection_init(sqlite3 *db, char **err)
{
    conn *c;
    bool has_it;
    int rc;

    if (sqlite3_libversion_number() < SQLITE_NEEDED) {
        *err = sqlite3_mprintf("statedb needs SQLite 3.38.2 or newer; this is %s",
                               sqlite3_libversion());
        return SQLITE_ERROR;
    }
    rc = is_loaded(db, &has_it);
    if (rc || has_it)
        return rc;
    c = conn_new(db, &rc);
    if (!c)
        return rc;
    rc = encoding_find(c);
    if (!rc)
        rc = functions_register(c);
    if (!rc)
        rc = attach_register(c);
    if (!rc)
        rc = manager_register(c);
    if (!rc)
        rc = system_tables_register(c);
    if (!rc)
        rc = snapshots_register(c);
    if (!rc)
        rc = diff_register(c);
    if (!rc)
        rc = feed_register(c);
    if (!rc)
        rc = watches_register(c);
    if (!rc)
        rc = sqlite3_create_module_v2(db, "statedb", statedb_module, conn_ref(c), conn_unref);
    if (!rc)
        manager_create_early(c);
    conn_unref(c);
    return rc;
}

int sqlite3_statedb_static_init(sqlite3 *db, char **err, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api)
    return connection_init(db, err);
}

/* Called by load_extension(). The library must stay in memory when the connection that loaded it
** closes; sqlite3_auto_extension would take this answer for a failure. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int sqlite3_statedb_init(sqlite3 *db, char **err, const sqlite3_api_routines *api);

int sqlite3_statedb_init(sqlite3 *db, char **err, const sqlite3_api_routines *api)
{
    int rc = sqlite3_statedb_static_init(db, err, api);

    return rc ? rc : SQLITE_OK_LOAD_PERMANENTLY;
}
