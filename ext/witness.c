/* witness.c - learning of the end of a SQLite transaction that only reads.
**
** SQLite tells a virtual table nothing of it. But it takes a lock on the file of every schema that the
** transaction reads, and gives it up when the transaction ends. So each connection that reads a shared
** store in a transaction has a schema of ours attached, statedb_reading, which is empty; its file is no
** file but this VFS. To call the witness is to read that schema. Nothing is written: no hook of the
** application hears of it, changes() is what it was, and query_only or a database that is read-only
** does not matter.
**
** While another statement is running SQLite keeps its locks, and the transaction goes on for as long
** for us as it does for its own tables. Where there is no room for one more schema, or no URI can be
** attached, the transaction manager does it, which is a write in the eyes of SQLite. */
#include "view.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define VFS_NAME "statedb_reading"

/* The file. */
typedef struct witness {
    sqlite3_file base; /* must be first */
    conn *conn;        /* counted; its witness may be another one by now */
    bool is_locked;
} witness;

/* Whose file is being opened: of nobody, when somebody else uses our VFS. */
static _Thread_local conn *opening;

/* ---------------------------------------------------------------- the file */

static void witness_tell(witness *w)
{
    w->is_locked = false;
    if (w->conn->witness != w || !w->conn->is_witnessed)
        return;
    w->conn->is_witnessed = false;
    view_end_all(w->conn);
}

static int file_close(sqlite3_file *file)
{
    witness *w = (witness *)file;

    witness_tell(w);
    if (w->conn->witness == w)
        w->conn->witness = NULL;
    conn_unref(w->conn);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    (void)file;
    (void)at;
    memset(to, 0, (size_t)n);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    (void)file;
    (void)from;
    (void)n;
    (void)at;
    return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    (void)file;
    (void)size;
    return SQLITE_READONLY;
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    (void)file;
    *size = 0;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
    ((witness *)file)->is_locked |= level > SQLITE_LOCK_NONE;
    return SQLITE_OK;
}

static int file_unlock(sqlite3_file *file, int level)
{
    if (level == SQLITE_LOCK_NONE)
        witness_tell((witness *)file);
    return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *file, int *out)
{
    (void)file;
    *out = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    (void)file;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
    (void)file;
    return 512;
}

static int file_characteristics(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_characteristics,
};

/* ---------------------------------------------------------------- the VFS */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    witness *w = (witness *)file;

    (void)vfs;
    (void)name;
    w->base.pMethods = NULL;
    if (!opening || !(flags & SQLITE_OPEN_MAIN_DB))
        return SQLITE_CANTOPEN;
    w->base.pMethods = &file_methods;
    w->conn = conn_ref(opening);
    w->is_locked = false;
    opening->witness = w;
    if (out_flags)
        *out_flags = SQLITE_OPEN_READONLY;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)name;
    (void)sync;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    (void)name;
    (void)flags;
    *out = 0;
    return SQLITE_OK;
}

static int vfs_full_name(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
    (void)vfs;
    sqlite3_snprintf(n, out, "%s", name);
    return SQLITE_OK;
}

/* Where URIs are not in use this is the name of a file in a directory that does not exist. */
static const char attach_sql[] =
    "ATTACH 'file:/statedb/reading?vfs=" VFS_NAME "&mode=ro&cache=private' AS statedb_reading";

static int witness_attach(conn *c)
{
    static sqlite3_vfs vfs = {.iVersion = 1,
                              .szOsFile = sizeof(witness),
                              .mxPathname = 512,
                              .zName = VFS_NAME,
                              .xOpen = vfs_open,
                              .xDelete = vfs_delete,
                              .xAccess = vfs_access,
                              .xFullPathname = vfs_full_name};
    int rc = SQLITE_OK;

    if (!sqlite3_vfs_find(VFS_NAME))
        rc = sqlite3_vfs_register(&vfs, 0);
    if (rc)
        return rc;
    opening = c;
    rc = sqlite3_exec(c->db, attach_sql, NULL, NULL, NULL);
    opening = NULL;
    return rc;
}

/* ---------------------------------------------------------------- calling it */

void witness_forget_statement(conn *c)
{
    sqlite3_finalize(c->call);
    c->call = NULL;
}

static int witness_read(conn *c)
{
    int rc = SQLITE_OK;

    if (!c->call)
        rc = sqlite3_prepare_v3(c->db, "SELECT 1 FROM statedb_reading.sqlite_schema", -1,
                                SQLITE_PREPARE_PERSISTENT, &c->call, NULL);
    if (rc)
        return rc;
    sqlite3_step(c->call);
    rc = sqlite3_reset(c->call);
    if (rc)
        witness_forget_statement(c);
    return rc;
}

/* PRAGMA locking_mode = EXCLUSIVE is for all schemas, and would keep the lock beyond the transaction. */
static int witness_mode(conn *c)
{
    return sqlite3_exec(c->db, "PRAGMA statedb_reading.locking_mode = NORMAL", NULL, NULL, NULL);
}

bool witness_is_there(conn *c)
{
    if (c->is_witnessed && sqlite3_txn_state(c->db, "statedb_reading") == SQLITE_TXN_NONE)
        witness_tell(c->witness); /* the pragma has been given in the transaction itself */
    return c->is_witnessed;
}

/* The manager in its place. query_only does not mean it; the pragma works when it is prepared, and the
** statement that is running does not mind. */
static int witness_replace(conn *c, char **err)
{
    int rc = txn_join(c, err);

    if (rc != SQLITE_READONLY)
        return rc;
    sqlite3_free(*err);
    *err = NULL;
    sqlite3_exec(c->db, "PRAGMA query_only = OFF", NULL, NULL, NULL);
    rc = txn_join(c, err);
    sqlite3_exec(c->db, "PRAGMA query_only = ON", NULL, NULL, NULL);
    return rc;
}

int witness_call(conn *c, char **err)
{
    int rc = SQLITE_OK;

    if (c->is_witnessed || c->manager)
        return rc;
    if (!c->witness)
        rc = witness_attach(c);
    if (!rc)
        rc = witness_mode(c);
    if (!rc)
        rc = witness_read(c);
    c->is_witnessed = !rc && c->witness && c->witness->is_locked;
    return c->is_witnessed || rc == SQLITE_NOMEM || rc == SQLITE_INTERRUPT ? rc : witness_replace(c, err);
}
