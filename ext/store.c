/* store.c - the stores of a connection: its own, and those with names, which all connections and
** threads of the process have in common.
**
** A connection that has come across a store keeps it to its end, whether or not tables of it are left
** here; a store with a name lives while a connection keeps it. */
#include "ext.h"

#include <pthread.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- names of the process */

typedef struct named {
    struct named *next;
    sdb_db *db;
    int n_conns; /* that keep it */
    char name[];
} named;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static named *stores;

static named **named_find(const char *name)
{
    named **p = &stores;

    while (*p && strcmp((*p)->name, name) != 0)
        p = &(*p)->next;
    return p;
}

static int named_new(const char *name, named **out)
{
    size_t n = strlen(name) + 1;
    named *new = sqlite3_malloc64(sizeof *new + n);
    int rc = new ? sdb_open(&new->db) : SDB_NOMEM;

    if (rc) {
        sqlite3_free(new);
        return rc;
    }
    memcpy(new->name, name, n);
    new->next = NULL;
    new->n_conns = 0;
    *out = new;
    return SDB_OK;
}

static int named_open(const char *name, sdb_db **out)
{
    named **p;
    int rc = SDB_OK;

    pthread_mutex_lock(&mutex);
    p = named_find(name);
    if (!*p)
        rc = named_new(name, p);
    if (!rc) {
        (*p)->n_conns++;
        *out = sdb_ref((*p)->db);
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

static void named_close(const char *name)
{
    named **p, *last = NULL;

    pthread_mutex_lock(&mutex);
    p = named_find(name);
    if (--(*p)->n_conns == 0) {
        last = *p;
        *p = last->next;
    }
    pthread_mutex_unlock(&mutex);
    if (!last)
        return;
    sdb_unref(last->db);
    sqlite3_free(last);
}

/* ---------------------------------------------------------------- stores of a connection */

static void store_free(store *s)
{
    cursor_pool_free(s);
    sdb_snapshot_free(s->snapshot);
    sdb_unref(s->db);
    if (s->name && s->db)
        named_close(s->name);
    sqlite3_free(s->name);
    sqlite3_free(s);
}

static int store_new(conn *c, const char *name, store **out)
{
    store *s = sqlite3_malloc(sizeof *s);
    int rc = SDB_OK;

    if (!s)
        return SQLITE_NOMEM;
    *s = (store){.conn = c, .index_level = -1};
    if (name && !(s->name = sqlite3_mprintf("%s", name)))
        rc = SDB_NOMEM;
    if (!rc)
        rc = name ? named_open(name, &s->db) : sdb_open(&s->db);
    if (!rc)
        rc = sdb_snapshot_new(s->db, &s->snapshot);
    if (rc) {
        store_free(s);
        return error_code(rc);
    }
    *out = s;
    return SQLITE_OK;
}

int store_open(conn *c, const char *name, store **out)
{
    store **p = name ? &c->stores->next : &c->stores;
    int rc = SQLITE_OK;

    while (name && *p && strcmp((*p)->name, name) != 0)
        p = &(*p)->next;
    if (!*p)
        rc = store_new(c, name, p);
    *out = *p;
    return rc;
}

store *store_find(conn *c, const char *name)
{
    store *s = c->stores;

    while (s && name != s->name && (!name || !s->name || strcmp(s->name, name) != 0))
        s = s->next;
    return s;
}

/* ---------------------------------------------------------------- connections */

conn *conn_new(sqlite3 *db, int *rc)
{
    conn *c = sqlite3_malloc(sizeof *c);
    store *own;

    if (!c) {
        *rc = SQLITE_NOMEM;
        return NULL;
    }
    *c = (conn){.db = db, .n_ref = 1};
    *rc = store_open(c, NULL, &own);
    if (*rc) {
        conn_unref(c);
        return NULL;
    }
    return c;
}

/* SQLite looks whether it is to stop before it reads the first token, and there is none. */
bool conn_is_interrupted(conn *c)
{
    sqlite3_stmt *none = NULL;

    return sqlite3_prepare_v2(c->db, " ", -1, &none, NULL) == SQLITE_INTERRUPT;
}

static bool stop_is_due(void *c)
{
    return conn_is_interrupted(c);
}

sdb_stop conn_stop(conn *c)
{
    return (sdb_stop){stop_is_due, c};
}

conn *conn_ref(conn *c)
{
    c->n_ref++;
    return c;
}

void conn_unref(void *p)
{
    conn *c = p;

    if (--c->n_ref)
        return;
    txn_close(c);
    watches_free(c);
    for (store *next; c->stores; c->stores = next) {
        next = c->stores->next;
        store_free(c->stores);
    }
    sqlite3_free(c);
}
