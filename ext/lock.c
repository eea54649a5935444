/* lock.c - the write locks of shared tables: when they are taken, how long they are waited for.
**
** A statement that writes to shared tables takes their locks before it reads anything, so that it
** reads what it is going to change, and what it reads is the newest. SQLite says by xBegin which tables
** the statement is going to write: that is noted (it would not do to run SQL there, see
** transaction.c), and the locks are taken at its first xFilter or xUpdate. SQLite does not say it again
** in the same transaction; the locks are kept to its end anyway. */
#include "view.h"

SQLITE_EXTENSION_INIT3

enum { STOP_MS = 10 }; /* between looks at whether the application has interrupted */

/* ---------------------------------------------------------------- what is to be locked */

/* One order for all, so that nobody waits in a circle for two of them. */
static bool is_before(const vtable *a, const vtable *b)
{
    return a->store->db != b->store->db
               ? (uintptr_t)a->store->db < (uintptr_t)b->store->db
               : sdb_table_id(a->table) < sdb_table_id(b->table);
}

int lock_want(sqlite3_vtab *vtab)
{
    vtable *t = (vtable *)vtab;
    vtable **p = &t->conn->wanted;

    if (!t->store->name || t->is_wanted)
        return SQLITE_OK;
    while (*p && is_before(*p, t))
        p = &(*p)->next_wanted;
    t->next_wanted = *p;
    t->is_wanted = true;
    *p = t;
    return SQLITE_OK;
}

int lock_unwant(sqlite3_vtab *vtab)
{
    vtable *t = (vtable *)vtab;
    vtable **p = &t->conn->wanted;

    if (!t->is_wanted)
        return SQLITE_OK;
    while (*p != t)
        p = &(*p)->next_wanted;
    *p = t->next_wanted;
    t->is_wanted = false;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- errors */

typedef struct hop {
    const char *table; /* whose writer is looked for; or NULL */
    uint64_t txn;      /* its writer; or who waits, for the table `found` */
    char *found;
} hop;

static void hop_look(void *p, const sdb_lock_info *info)
{
    hop *h = p;

    if (h->table && !info->is_waiting && sqlite3_stricmp(info->table, h->table) == 0)
        h->txn = info->txn;
    else if (!h->table && info->is_waiting && info->txn == h->txn && !h->found)
        h->found = sqlite3_mprintf("%s", info->table);
}

/* The tables of the circle; if it has been broken meanwhile, the first ones. */
static int deadlock_error(vtable *t)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    store *s = t->store;
    char *table = sqlite3_mprintf("%s", t->key);
    hop h = {0};

    sqlite3_str_appendf(text, "it is being written by a transaction that waits for ");
    for (bool is_first = true; table; is_first = false) {
        h = (hop){.table = table};
        if (sdb_lock_each(s->db, hop_look, &h) || h.txn == sdb_txn_id(s->txn))
            break;
        h.table = NULL;
        if (sdb_lock_each(s->db, hop_look, &h) || !h.found)
            break;
        sqlite3_str_appendf(text, "%s%s", is_first ? "" : ", and its writer for ", h.found);
        sqlite3_free(table);
        table = h.found;
    }
    sqlite3_free(table);
    return error_set(t, SQLITE_BUSY, "%z, which this transaction has written: roll it back",
                     sqlite3_str_finish(text));
}

static char *busy_text(int waited_ms)
{
    return waited_ms ? sqlite3_mprintf("another connection is writing the table; waited %d ms, as PRAGMA "
                                       "busy_timeout says",
                                       waited_ms)
                     : sqlite3_mprintf("another connection is writing the table; PRAGMA busy_timeout says "
                                       "how long to wait");
}

static int lock_error(vtable *t, int rc, int waited_ms)
{
    switch (rc) {
    case SDB_BUSY:
        return error_set(t, SQLITE_BUSY, "%z", busy_text(waited_ms));
    case SDB_DEADLOCK:
        return deadlock_error(t);
    default:
        return error_core(t, rc);
    }
}

/* ---------------------------------------------------------------- locking */

/* The connection's busy_timeout, which SQLite tells by SQL alone; or SQLITE_INTERRUPT. */
static int busy_timeout(conn *c, int *ms)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(c->db, "PRAGMA busy_timeout", -1, &stmt, NULL);

    if (rc)
        return rc;
    sqlite3_step(stmt);
    *ms = sqlite3_column_int(stmt, 0);
    return sqlite3_finalize(stmt);
}

/* An SDB_ code. */
static int table_wait(store *s, sdb_table *table, int *ms)
{
    int rc = busy_timeout(s->conn, ms);

    if (rc)
        return rc == SQLITE_INTERRUPT ? SDB_INTERRUPTED : SDB_NOMEM;
    sdb_txn_set_timeout(s->txn, *ms);
    sdb_txn_set_stop(s->txn, STOP_MS, conn_stop(s->conn));
    rc = sdb_txn_lock(s->txn, table);
    sdb_txn_set_timeout(s->txn, 0);
    return rc;
}

/* Somebody else has the lock; the time-out is asked for only then. */
static bool is_taken(const store *s, const sdb_table *table)
{
    return sdb_table_is_locked(table) && !sdb_txn_is_locked(s->txn, table);
}

static int table_lock(vtable *t)
{
    store *s = t->store;
    int waited_ms = 0;
    int rc = txn_enroll_table(t);

    if (rc)
        return rc;
    rc = view_lacks((view){.txn = s->txn}, t) ? SDB_MISUSE
         : is_taken(s, t->table)              ? SDB_BUSY
                                              : sdb_txn_lock(s->txn, t->table);
    if (rc == SDB_MISUSE) { /* not the table that the transaction sees */
        rc = vtable_find(t);
        if (rc)
            return rc;
        rc = is_taken(s, t->table) ? SDB_BUSY : sdb_txn_lock(s->txn, t->table);
    }
    if (rc == SDB_BUSY)
        rc = table_wait(s, t->table, &waited_ms);
    return lock_error(t, rc, waited_ms);
}

/* When a table has been dropped meanwhile, this one perhaps, a txn that has done nothing yet begins
** again, without it. */
static bool is_to_begin_again(vtable *t, int rc)
{
    if (rc != SQLITE_BUSY_SNAPSHOT || !t->store->is_blank || !txn_restart(t->store))
        return false;
    sqlite3_free(t->base.zErrMsg);
    t->base.zErrMsg = NULL;
    return true;
}

/* Whether there is nothing to be done, as for all rows but the first of a transaction. */
static bool is_locked(const vtable *t)
{
    const store *s = t->store;

    return s->txn && !s->conn->manager_is_young && !s->conn->n_evaluating &&
           (!txn_is_led(s->conn) || sqlite3_get_autocommit(s->conn->db)) &&
           sdb_txn_is_locked(s->txn, t->table) && sdb_txn_name(s->txn, t->table) &&
           !view_lacks((view){.txn = s->txn}, t);
}

int lock_take(vtable *t)
{
    int rc;

    if (is_locked(t))
        return SQLITE_OK;
    do
        rc = table_lock(t);
    while (is_to_begin_again(t, rc));
    return rc;
}

int lock_take_named(store *s, const char *name, const char *who, sdb_table **out, char **err)
{
    int waited_ms = 0;
    int rc;

    do {
        rc = txn_enroll(s, err);
        *out = rc ? NULL : sdb_txn_table(s->txn, name);
        if (!*out)
            return rc;
        rc = is_taken(s, *out) ? table_wait(s, *out, &waited_ms) : sdb_txn_lock(s->txn, *out);
    } while (rc == SDB_STALE && s->is_blank && txn_restart(s));
    s->n_writes += rc == SDB_OK;
    s->is_blank &= rc != SDB_OK;
    if (rc == SDB_OK || rc == SDB_NOMEM || rc == SDB_INTERRUPTED)
        return error_code(rc);
    sqlite3_free(*err);
    *err = sqlite3_mprintf("statedb: %s: %z", who,
                           rc == SDB_BUSY ? busy_text(waited_ms) : sqlite3_mprintf("%s", sdb_errmsg(rc)));
    return *err ? error_code(rc) : SQLITE_NOMEM;
}

bool lock_makes_way(vtable *t, int core_rc, int *waited_ms)
{
    store *s = t->store;
    int ms;

    if (core_rc == SDB_BUSY && !busy_timeout(t->conn, &ms) && *waited_ms < ms)
        *waited_ms += sqlite3_sleep(1);
    else if (core_rc != SDB_STALE || !s->is_blank)
        return false;
    return !s->is_blank || txn_restart(s);
}

/* The error of one table to another, whose method SQLite has called. */
static void error_move(vtable *from, vtable *to)
{
    if (from == to)
        return;
    sqlite3_free(to->base.zErrMsg);
    to->base.zErrMsg = from->base.zErrMsg;
    from->base.zErrMsg = NULL;
}

int lock_wanted_now(vtable *teller)
{
    conn *c = teller->conn;
    int rc = SQLITE_OK;

    /* In a transaction they may be those of a statement that has read nothing, and is over. */
    if (!sqlite3_get_autocommit(c->db) && txn_count_writing(c) == 0) {
        while (c->wanted)
            lock_unwant(&c->wanted->base);
        return SQLITE_OK;
    }
    for (vtable *t = c->wanted, *next; t; t = next) {
        next = t->next_wanted;
        rc = table_lock(t);
        if (is_to_begin_again(t, rc))
            next = c->wanted;
        else if (rc) {
            error_move(t, teller);
            break;
        }
    }
    while (c->wanted)
        lock_unwant(&c->wanted->base);
    return rc;
}
