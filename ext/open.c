/* open.c - xOpen and xClose, and what core is open on in between: a version of the table, an index of it.
**
** SQLite is handed the rows' own text and may look at it until the statement ends, after xClose
** too (max() keeps but a pointer). The snapshot sees to that; a cursor on a txn is parked at xClose,
** its rows held, until no cursor of the connection is open.
**
** Closed cursors are idle until the next xOpen. What core is open on in a snapshot stays open: the next
** statement of the plan may read the same version. */
#include "cursor.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
    GATHERED_KEPT = 256, /* rows to have room for until the next xFilter */
    IDLE_MAX = 16,       /* what has been open by so many plans stays open for them */
    PARKED_MAX = 16 /* SQLite keeps text of the statement's last few cursors, not of every one */
};

/* ---------------------------------------------------------------- cursors */

static int cursor_new(store *s, cursor **out)
{
    cursor *cur = sqlite3_malloc(sizeof *cur);

    if (!cur)
        return SQLITE_NOMEM;
    memset(cur, 0, sizeof *cur);
    ahead_new(cur);
    int rc = sdb_cursor_new(s->db, &cur->core);
    if (rc != SDB_OK) {
        sqlite3_free(cur);
        return error_code(rc);
    }
    *out = cur;
    return SQLITE_OK;
}

static void cursor_free(cursor *cur)
{
    sdb_cursor_free(cur->core);
    sdb_snapshot_free(cur->past_held);
    held_clear(cur);
    sqlite3_free(cur->held);
    sqlite3_free(cur->list);
    sqlite3_free(cur->filter);
    sqlite3_free(cur->gathered);
    sqlite3_free(cur->eq);
    sqlite3_free(cur);
}

/* Whether the snapshot has to stay for the sake of core. */
static void core_stand(store *s, cursor *cur, bool stands)
{
    s->n_standing += stands - cur->stands;
    cur->stands = stands;
}

int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    store *s = ((vtable *)vtab)->store;
    int rc = txn_verify(s->conn);
    cursor *cur = s->idle;

    if (rc != SQLITE_OK)
        return rc;
    if (cur)
        s->idle = cur->next;
    else if ((rc = cursor_new(s, &cur)) != SQLITE_OK)
        return rc;
    cur->next = s->open;
    s->open = cur;
    s->conn->n_open++;
    *out = &cur->base;
    return SQLITE_OK;
}

void core_close(store *s, cursor *cur)
{
    if (!cur->is_open)
        return;
    sdb_cursor_close(cur->core);
    automatic_drop(cur);
    cur->n_vain = 0;
    core_stand(s, cur, false);
    cur->is_open = false;
}

void cursor_clear(cursor *cur)
{
    cur->row = NULL;
    cur->is_rowid_read = false;
    if (cur->is_ahead)
        ahead_end(cur);
    if (cur->is_plain && !cur->held)
        return;
    held_clear(cur);
    cur->n_list = cur->list_at = cur->n_filter = 0;
    cur->n_left = cur->n_behind = 0;
    if (cur->gathered_room > GATHERED_KEPT) {
        sqlite3_free(cur->gathered);
        cur->gathered = NULL;
        cur->gathered_room = 0;
    }
    cur->n_gathered = cur->gathered_at = 0;
    cur->is_batch = false;
    cur->is_plain = true;
}

/* Whether the next cursor of the same plan can use what this one has found out. */
static bool cursor_is_worthy(const cursor *cur)
{
    return cur->sorted || cur->n_vain;
}

/* Core stays open for the next statement of its plan, which may read the same version. */
static void core_rest(store *s, cursor *cur)
{
    if (cur->is_open && cur->on_snapshot && !cursor_is_worthy(cur))
        core_stand(s, cur, false);
    else
        core_close(s, cur);
}

static void cursor_retire(store *s, cursor *cur)
{
    core_rest(s, cur);
    if (cur->past)
        past_set(cur, NULL);
    cur->next = s->idle;
    s->idle = cur;
}

/* One of the idle cursors, the longest out of use, or a new one; with core closed. NULL: no memory. */
static cursor *cursor_spare(store *s)
{
    cursor **at = &s->idle, *spare;
    int n = 1;

    while (*at && (*at)->is_open && ((*at)->next || n < IDLE_MAX)) {
        at = &(*at)->next;
        n++;
    }
    spare = *at;
    if (!spare)
        return cursor_new(s, &spare) == SQLITE_OK ? spare : NULL;
    *at = spare->next;
    core_close(s, spare);
    return spare;
}

/* The newest parked one may hold the same rows already; the oldest of many is out of use. */
static void cursor_park(store *s, cursor *cur)
{
    cursor **last = &s->parked;
    int n = 1;

    if (s->parked && s->parked->n_writes == cur->n_writes && !s->parked->past && !cur->past &&
        !cursor_is_worthy(cur)) {
        cursor_retire(s, cur);
        return;
    }
    cur->next = s->parked;
    s->parked = cur;
    for (; (*last)->next; last = &(*last)->next)
        n++;
    if (n > PARKED_MAX) {
        cursor_retire(s, *last);
        *last = NULL;
    }
}

/* The connection has closed one more cursor. */
void conn_close_cursor(conn *c)
{
    c->n_open--;
    for (store *s = c->stores; s && c->n_open == 0; s = s->next) {
        for (cursor *next; s->parked; s->parked = next) {
            next = s->parked->next;
            cursor_retire(s, s->parked);
        }
        view_leave(s);
    }
}

static void open_remove(store *s, cursor *cur)
{
    cursor **at = &s->open;

    while (*at != cur)
        at = &(*at)->next;
    *at = cur->next;
    if (s->open || cur->n_asked)
        ahead_close(cur);
}

int cursor_close(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;
    store *s = cursor_vtable(cur)->store;
    conn *c = s->conn;

    open_remove(s, cur);
    cursor_clear(cur);
    if (c->n_open > 1 && cur->is_open && (!cur->on_snapshot || cursor_is_worthy(cur)))
        cursor_park(s, cur);
    else
        cursor_retire(s, cur);
    conn_close_cursor(c);
    return SQLITE_OK;
}

void cursor_pool_free(store *s)
{
    assert(s->conn->n_open == 0 && !s->parked);
    for (cursor *next; s->idle; s->idle = next) {
        next = s->idle->next;
        cursor_free(s->idle);
    }
}

/* ---------------------------------------------------------------- the table and its index */

static bool index_is_same(const sdb_index_def *a, const sdb_index_def *b)
{
    if (a->kind != b->kind || a->unique != b->unique || a->n_parts != b->n_parts ||
        strcmp(a->name, b->name) != 0)
        return false;
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].column != b->parts[i].column ||
            a->parts[i].collation != b->parts[i].collation || a->parts[i].desc != b->parts[i].desc)
            return false;
    return true;
}

/* The number of the plan's index in a version that the plan was not made for, or -1. */
static int index_find(const plan *p, view v, const sdb_table *table)
{
    int i = view_indexes(v, table);

    while (i > 0 && !index_is_same(view_index(v, table, i), &p->path.def))
        i--;
    return i ? i : -1;
}

/* The number there of the index that the plan is for; is_same: the table has those that the plan was made
** for. -1: it is not there. Without revisions the rowids will do (is_without_revisions). */
static int index_in(const plan *p, view v, const sdb_table *table, bool is_same)
{
    if (p->index == SDB_BY_REVISION)
        return view_feeds(v, table) ? p->index : SDB_BY_ROWID;
    return p->index == SDB_BY_ROWID || is_same ? p->index : index_find(p, v, table);
}

/* SDB_MISUSE: the table is not there. *is_there: its index is; else core is open by rowid. */
static int core_open_now(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    view v;
    int rc = view_begin(t->store, &v);

    if (rc != SDB_OK)
        return rc;
    bool is_same = view_indexes_id(v, t->table) == p->indexes_id;
    if (!is_same)
        t->conn->has_old_plans |= t->store->name != NULL; /* another connection has changed them */
    t->conn->has_old_plans |= view_count(v, t->table) > p->n_outgrown;
    int index = index_in(p, v, t->table, is_same);
    *is_there = index >= 0;
    if (!*is_there)
        index = SDB_BY_ROWID;
    if (view_lacks(v, t))
        rc = SDB_MISUSE;
    else if (v.txn)
        rc = sdb_cursor_open_txn(cur->core, v.txn, t->table, index);
    else
        rc = sdb_cursor_open(cur->core, v.snapshot, t->table, index);
    cur->index = index;
    cur->on_snapshot = rc == SDB_OK && !v.txn;
    cur->commit = cur->on_snapshot ? sdb_snapshot_commit(v.snapshot) : 0;
    t->read_revision = v.txn ? sdb_txn_revision(v.txn, t->table)
                             : sdb_snapshot_revision(v.snapshot, t->table);
    view_end(t->store, v);
    return rc;
}

/* An SQLite code. */
static int core_open_present(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    int rc = core_open_now(cur, p, is_there);

    if (rc == SDB_MISUSE) { /* made in what has been undone since */
        rc = vtable_find(t);
        if (rc != SQLITE_OK)
            return rc;
        rc = core_open_now(cur, p, is_there);
    }
    cur->table = t->table;
    return error_core(t, rc);
}

/* The table as it was when the cursor's snapshot was taken: under another name, or another one of this
** name that was defined as this one is. An SQLite code. */
static int past_table(const cursor *cur, view v, sdb_table **out)
{
    vtable *t = cursor_vtable(cur);

    *out = view_name(v, t->table) ? t->table : view_table(v, t->key);
    if (!*out)
        return error_set(t, SQLITE_ERROR, "the table is not in snapshot '%s', which is older", cur->past);
    if (*out != t->table && !table_sql_is_same(sdb_table_sql(*out), sdb_table_sql(t->table)))
        return error_set(t, SQLITE_ERROR, "in snapshot '%s' the table has another definition: %s",
                         cur->past, sdb_table_sql(*out));
    return SQLITE_OK;
}

/* As core_open_now, for a cursor that has a past. An SQLite code. */
static int core_open_past(cursor *cur, const plan *p, bool *is_there)
{
    vtable *t = cursor_vtable(cur);
    view v = {.snapshot = cur->past_held};
    sdb_table *table;
    int rc = past_table(cur, v, &table);

    if (rc != SQLITE_OK)
        return rc;
    int index = index_in(p, v, table, table == t->table && view_indexes_id(v, table) == p->indexes_id);
    *is_there = index >= 0;
    cur->index = *is_there ? index : SDB_BY_ROWID;
    rc = sdb_cursor_open(cur->core, cur->past_held, table, cur->index);
    cur->table = table;
    cur->on_snapshot = false;
    return error_core(t, rc);
}

/* What goes with core. */
static void core_move(cursor *to, const cursor *from)
{
    to->core = from->core;
    to->table = from->table;
    to->is_open = from->is_open;
    to->index = from->index;
    to->on_snapshot = from->on_snapshot;
    to->stands = from->stands;
    to->commit = from->commit;
    to->n_writes = from->n_writes;
    to->plan_id = from->plan_id;
    to->sorted = from->sorted;
    to->path = from->path;
    to->n_vain = from->n_vain;
}

static void core_swap(cursor *a, cursor *b)
{
    cursor was = *a;

    core_move(a, b);
    core_move(b, &was);
}

/* Have a version to read; where there is none, core_open's own question says why. */
static bool view_is_ready(store *s)
{
    char *err = NULL;
    int rc = view_ready(s, &err);

    sqlite3_free(err);
    return rc == SQLITE_OK;
}

/* Whether core, left open by another statement, is open on what is to be read now. */
static bool core_is_same(const store *s, const cursor *cur, const plan *p)
{
    return core_is_open(s, cur, p) && !cur->past && cur->on_snapshot == !s->txn &&
           (s->txn || cur->commit == sdb_snapshot_commit(s->snapshot));
}

/* What core is open on goes to a closed cursor that is kept, if it may be of use again; or a kept one's
** comes here. False: there is none of the plan. */
static bool core_exchange(store *s, cursor *cur, const plan *p)
{
    cursor **at = &s->parked, *kept = s->idle;

    while (*at && !core_is_same(s, *at, p))
        at = &(*at)->next;
    if (*at) {
        kept = *at;
        core_swap(cur, kept);
        if (!kept->is_open || !cursor_is_worthy(kept)) {
            *at = kept->next;
            cursor_retire(s, kept);
        }
        return true;
    }
    while (kept && !core_is_same(s, kept, p))
        kept = kept->next;
    if (!kept)
        return false;
    core_swap(cur, kept);
    core_rest(s, kept);
    return true;
}

/* Close core, or leave it to a cursor that is kept. */
static int core_leave(store *s, cursor *cur)
{
    bool is_of_use = cur->is_open && !cur->past && cur->n_writes == s->n_writes;
    bool is_worthy = is_of_use && cursor_is_worthy(cur);
    bool is_newest = is_of_use && cur->on_snapshot && cur->commit == sdb_snapshot_commit(s->snapshot);
    cursor *kept = is_worthy || is_newest ? cursor_spare(s) : NULL;

    if (!kept) {
        core_close(s, cur);
        return is_worthy ? SQLITE_NOMEM : SQLITE_OK;
    }
    core_swap(cur, kept);
    if (is_worthy)
        cursor_park(s, kept);
    else
        cursor_retire(s, kept);
    return SQLITE_OK;
}

/* The plan's index is no more. Statements prepared before an index was dropped are prepared again
** (transaction.c), but not one that is running, nor, at once, those of another connection. To ask for that
** here, by SQLITE_SCHEMA, gives the statement from its beginning: that is right for one that writes, but
** another would return rows twice. So it gets an index of its own, or, where none can be made, goes through
** all rows (cursor_scan). */
static int core_replace_index(cursor *cur, const plan *p)
{
    conn *c = cursor_vtable(cur)->conn;

    if (!cur->past && !c->has_lost && txn_can_restart(c)) {
        c->has_lost = true;
        return SQLITE_SCHEMA;
    }
    return p->function ? SQLITE_OK : automatic_make(cur, &p->path);
}

bool core_resume(cursor *cur, const plan *p)
{
    store *s = cursor_vtable(cur)->store;

    if ((s->name && !view_is_ready(s)) || !core_is_same(s, cur, p))
        return false;
    core_stand(s, cur, true);
    return true;
}

int core_open(cursor *cur, const plan *p)
{
    vtable *t = cursor_vtable(cur);
    store *s = t->store;
    bool is_there;
    int rc;

    if (core_is_ready(cur, p))
        return SQLITE_OK;
    rc = view_ready(s, &t->base.zErrMsg);
    if (rc != SQLITE_OK)
        return rc;
    if (!cur->past && (core_is_same(s, cur, p) || core_exchange(s, cur, p))) {
        core_stand(s, cur, cur->on_snapshot);
        return SQLITE_OK;
    }
    rc = core_leave(s, cur);
    if (rc != SQLITE_OK)
        return rc;
    rc = cur->past ? core_open_past(cur, p, &is_there) : core_open_present(cur, p, &is_there);
    if (rc != SQLITE_OK)
        return rc;
    cur->is_open = true;
    cur->plan_id = p->id;
    cur->n_writes = s->n_writes;
    core_stand(s, cur, cur->on_snapshot);
    if (!is_there)
        rc = core_replace_index(cur, p);
    t->conn->has_lost = rc == SQLITE_SCHEMA;
    if (rc != SQLITE_OK)
        core_close(s, cur); /* it is not open by this plan */
    return rc;
}
