/* error.c - result codes and messages. A statement that fails on a statedb table says why in a
** sentence that begins with the table; a constraint says what SQLite says for an ordinary table. */
#include "ext.h"

#include <stdarg.h>

SQLITE_EXTENSION_INIT3

/* The text becomes the message; without memory for it SQLite says what it says for the code. */
static int message_take(vtable *t, int rc, char *text)
{
    sqlite3_free(t->base.zErrMsg);
    t->base.zErrMsg = text;
    return rc;
}

int error_column(vtable *t, int rc, int column, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (text)
        text = sqlite3_mprintf("statedb: %s.%s: %z", t->name, t->def->columns[column].name, text);
    return message_take(t, text ? rc : SQLITE_NOMEM, text);
}

int error_set(vtable *t, int rc, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (text)
        text = sqlite3_mprintf("statedb: %s: %z", t->name, text);
    return message_take(t, text ? rc : SQLITE_NOMEM, text);
}

int error_text(vtable *t, int rc, const char *text)
{
    return message_take(t, rc, sqlite3_mprintf("%s", text));
}

int error_code(int core_rc)
{
    switch (core_rc) {
    case SDB_OK:
        return SQLITE_OK;
    case SDB_NOMEM:
        return SQLITE_NOMEM;
    case SDB_FULL:
        return SQLITE_FULL;
    case SDB_BUSY:
    case SDB_DEADLOCK:
        return SQLITE_BUSY;
    case SDB_STALE:
        return SQLITE_BUSY_SNAPSHOT;
    case SDB_TOOBIG:
        return SQLITE_TOOBIG;
    case SDB_MISUSE:
        return SQLITE_MISUSE;
    case SDB_INTERRUPTED:
        return SQLITE_INTERRUPT;
    default:
        return SQLITE_ERROR;
    }
}

int error_core_failed(vtable *t, int core_rc)
{
    int rc = error_code(core_rc);

    if (rc == SQLITE_NOMEM || rc == SQLITE_INTERRUPT)
        return rc;
    return error_set(t, rc, "%s", sdb_errmsg(core_rc));
}

int error_unique_parts(vtable *t, int code, const sdb_part *parts, int n)
{
    sqlite3_str *text = sqlite3_str_new(NULL);

    sqlite3_str_appendall(text, "UNIQUE constraint failed: ");
    for (int i = 0; i < n; i++)
        sqlite3_str_appendf(text, "%s%s.%s", i ? ", " : "", t->name,
                            t->def->columns[parts[i].column].name);
    return message_take(t, code, sqlite3_str_finish(text));
}

/* Those of constraints are the first indexes, and stay that. */
int error_unique(vtable *t, int index)
{
    const table_sql *def = t->def;
    const sdb_index_def *idx;
    bool is_primary;

    if (!index) {
        is_primary = def->rowid_column >= 0;
        return message_take(
            t, is_primary ? SQLITE_CONSTRAINT_PRIMARYKEY : SQLITE_CONSTRAINT_ROWID,
            sqlite3_mprintf("UNIQUE constraint failed: %s.%s", t->name,
                            is_primary ? def->columns[def->rowid_column].name : "rowid"));
    }
    idx = sdb_txn_index(t->store->txn, t->table, index);
    is_primary = index <= def->n_indexes && def->indexes[index - 1].is_primary;
    return error_unique_parts(t,
                              is_primary ? SQLITE_CONSTRAINT_PRIMARYKEY : SQLITE_CONSTRAINT_UNIQUE,
                              idx->parts, idx->n_parts);
}

int error_not_null(vtable *t, int column)
{
    return message_take(t, SQLITE_CONSTRAINT_NOTNULL,
                        sqlite3_mprintf("NOT NULL constraint failed: %s.%s", t->name,
                                        t->def->columns[column].name));
}

int error_check(vtable *t, int check)
{
    return message_take(
        t, SQLITE_CONSTRAINT_CHECK,
        sqlite3_mprintf("CHECK constraint failed: %s", t->def->checks[check].name));
}
