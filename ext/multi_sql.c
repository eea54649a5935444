/* multi_sql.c - indexes of several keys a row in SQL: statedb_has and statedb_has_prefix, for one value
** and by an index.
**
** The keys are those of JSON (json_keys.h). They compare as a column without collation and affinity
** does: text by its bytes, numbers as numbers, and 5 is not '5'. A value that is no JSON is an error,
** with an index when it is written, without one when the function meets it. */
#include "cursor.h"
#include "json_keys.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- one value */

typedef struct search {
    sdb_value x;
    bool is_prefix;
    bool is_found;
} search;

static int search_key(void *ctx, const sdb_value *key)
{
    search *s = ctx;

    if (s->is_prefix)
        s->is_found |= key->type == SDB_TEXT && key->n >= s->x.n &&
                       (s->x.n == 0 || memcmp(key->u.p, s->x.u.p, s->x.n) == 0);
    else
        s->is_found |= value_compare(key, &s->x, SDB_BINARY) == 0;
    return SDB_OK;
}

/* What is looked for; of a prefix always text, as LIKE takes it. */
static int argument_get(const index_function *f, sqlite3_value *in, sdb_value *out)
{
    if (f->op == MULTI_HAS || sqlite3_value_type(in) == SQLITE_NULL)
        return value_get(in, out);
    out->type = SDB_TEXT;
    out->u.p = sqlite3_value_text(in);
    out->n = (uint32_t)sqlite3_value_bytes(in);
    return out->u.p ? SQLITE_OK : SQLITE_NOMEM;
}

void multi_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const index_function *f = sqlite3_user_data(ctx);
    search s = {.is_prefix = f->op == MULTI_HAS_PREFIX};
    sdb_value json;
    char *text;
    int rc;

    (void)argc;
    if (value_get(argv[0], &json) != SQLITE_OK || argument_get(f, argv[1], &s.x) != SQLITE_OK) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    rc = json_keys(&json, search_key, &s);
    if (rc == SDB_NOTSET) {
        text = function_complaint(f, &json, json_wrong);
        rc = text ? SDB_OK : SDB_NOMEM;
        if (text)
            sqlite3_result_error(ctx, text, -1);
        sqlite3_free(text);
    } else if (rc == SDB_OK && json.type != SDB_NULL && s.x.type != SDB_NULL) {
        sqlite3_result_int(ctx, s.is_found);
    }
    if (rc != SDB_OK)
        sqlite3_result_error_nomem(ctx);
}

/* ---------------------------------------------------------------- by an index */

/* The end of the texts that begin with x: x with its last byte counted up. `room` is for that. */
static sdb_value prefix_end(const sdb_value *x, uint8_t *room)
{
    sdb_value end = {.type = SDB_TEXT, .n = x->n, .u.p = room};

    if (x->n)
        memcpy(room, x->u.p, x->n);
    while (end.n > 0 && room[end.n - 1] == 0xff)
        end.n--;
    if (end.n > 0)
        room[end.n - 1]++;
    else
        end.type = SDB_BLOB; /* the first blob is behind all text */
    return end;
}

/* Without an index, which has been dropped: as the function does. */
static int scan_see(cursor *cur, const sdb_row *row, const sdb_value *v, void *arg)
{
    search *s = arg;
    sqlite3_vtab *vtab = cur->base.pVtab;
    int rc;

    s->is_found = false;
    rc = json_keys(v, search_key, s);
    if (rc == SDB_OK)
        return s->is_found ? cursor_gather(cur, row) : SQLITE_OK;
    if (rc != SDB_NOTSET)
        return error_core(cursor_vtable(cur), rc);
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = function_complaint(cur->plan->function, v, json_wrong);
    return vtab->zErrMsg ? SQLITE_ERROR : SQLITE_NOMEM;
}

int multi_filter(cursor *cur, sqlite3_value *in)
{
    const plan *p = cur->plan;
    sdb_range range = {.reverse = p->reverse};
    uint8_t *room = NULL;
    sdb_value x, end;
    int rc = argument_get(p->function, in, &x);

    if (rc != SQLITE_OK || x.type == SDB_NULL)
        return rc;
    if (cur->index == SDB_BY_ROWID)
        return cursor_scan(cur, scan_see, &(search){.x = x, .is_prefix = p->function->op == MULTI_HAS_PREFIX});
    if (p->function->op == MULTI_HAS) {
        range.eq = &x;
        range.n_eq = 1;
    } else {
        room = sqlite3_malloc64(x.n + 1u);
        if (!room)
            return SQLITE_NOMEM;
        end = prefix_end(&x, room);
        range.lower = &x;
        range.upper = &end;
        range.upper_open = true;
    }
    if (is_watched(cur))
        rc = watch_range(cur, &range);
    if (rc != SQLITE_OK) {
        sqlite3_free(room);
        return rc;
    }
    rc = sdb_cursor_seek(cur->core, &range);
    sqlite3_free(room);
    if (rc < 0)
        return error_core(cursor_vtable(cur), rc);
    cur->row = rc == SDB_OK ? sdb_cursor_row(cur->core) : NULL;
    return SQLITE_OK;
}
