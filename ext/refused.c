/* refused.c - what is said of a value that an index refuses: one of prefixes, where it is no prefix; one
** of several keys a row, where it is no JSON. Core only says that there is one, and it is looked for
** again here. */
#include "ext.h"
#include "json_keys.h"

#include "../core/prefix.h"

SQLITE_EXTENSION_INIT3

const char json_wrong[] = "is not a JSON array or object";

enum { QUOTED_MAX = 60 };

/* How many bytes of a text a message quotes: whole characters. */
static int quoted_length(const sdb_value *v)
{
    const char *text = v->u.p;
    int n = QUOTED_MAX;

    if (v->n <= QUOTED_MAX)
        return (int)v->n;
    while (n > 0 && (text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

char *value_complaint(const sdb_value *v, const char *wrong)
{
    switch (v->type) {
    case SDB_INTEGER:
        return sqlite3_mprintf("%lld %s", (long long)v->u.i, wrong);
    case SDB_REAL:
        return sqlite3_mprintf("%!.15g %s", v->u.r, wrong);
    case SDB_TEXT:
        return sqlite3_mprintf("'%.*q' %s", quoted_length(v), (const char *)v->u.p, wrong);
    default:
        return sqlite3_mprintf("a blob of %u bytes %s", v->n, wrong);
    }
}

char *function_complaint(const index_function *f, const sdb_value *v, const char *wrong)
{
    char *text = value_complaint(v, wrong);

    return text ? sqlite3_mprintf("%s: %z", f->name, text) : NULL;
}

static int key_ignore(void *ctx, const sdb_value *key)
{
    (void)ctx;
    (void)key;
    return SDB_OK;
}

/* Whether a value is refused by an index; its error, then. */
static int value_check(vtable *t, const sdb_index_def *def, int64_t rowid, const sdb_value *v)
{
    int column = def->parts[0].column;
    const char *wrong = NULL;
    char *text;
    sdb_prefix p;
    int rc;

    switch (def->kind) {
    case SDB_LPM:
        wrong = v->type == SDB_NULL ? NULL : sdb_prefix_from(v, &p);
        break;
    case SDB_MULTI:
        rc = json_keys(v, key_ignore, NULL);
        wrong = rc == SDB_NOTSET ? json_wrong : NULL;
        if (rc == SDB_NOMEM)
            return SQLITE_NOMEM;
        break;
    }
    if (!wrong)
        return SQLITE_OK;
    text = value_complaint(v, wrong);
    if (!text)
        return SQLITE_NOMEM;
    if (def->kind == SDB_MULTI)
        return error_column(t, SQLITE_CONSTRAINT_VTAB, column, "row %lld: %z", (long long)rowid, text);
    return error_column(t, SQLITE_CONSTRAINT_VTAB, column,
                        "%z (index %s is of addresses and prefixes)", text, def->name);
}

int refused_row(vtable *t, int64_t rowid, int core_rc)
{
    int rc = SQLITE_OK;

    for (int i = 1; rc == SQLITE_OK && i <= sdb_txn_indexes(t->store->txn, t->table); i++) {
        const sdb_index_def *def = sdb_txn_index(t->store->txn, t->table, i);
        rc = value_check(t, def, rowid, &t->row[def->parts[0].column]);
    }
    return rc ? rc : error_core(t, core_rc);
}

int refused_table(vtable *t, const sdb_index_def *def, int core_rc)
{
    store *s = t->store;
    sdb_range all = {0};
    sdb_cursor *cur;
    int rc_error = SQLITE_OK;
    int rc = sdb_cursor_new(s->db, &cur);

    if (rc != SDB_OK)
        return error_core(t, rc);
    rc = sdb_cursor_open_txn(cur, s->txn, t->table, SDB_BY_ROWID);
    if (rc == SDB_OK)
        rc = sdb_cursor_seek(cur, &all);
    for (; rc == SDB_OK && !rc_error; rc = sdb_cursor_next(cur)) {
        const sdb_row *row = sdb_cursor_row(cur);
        sdb_value v = sdb_row_value(t->table, row, def->parts[0].column);
        rc_error = value_check(t, def, sdb_row_rowid(row), &v);
    }
    sdb_cursor_free(cur);
    return rc_error ? rc_error : error_core(t, rc < 0 ? rc : core_rc);
}
