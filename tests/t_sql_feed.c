/* t_sql_feed.c - feeds in SQL against a model of what each has to show, after every step: several
** connections to one store, with transactions, savepoints, rollbacks, feeds that are ended and begin
** anew; and with threads, followers whose copies must become the table. */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include "random.h"

#include "../core/mem.h"
#include "../ext/statedb_static.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 12, FEEDS = 3, CONNS = 3, LEVELS = 3, TEXT = 4000 };

/* ---------------------------------------------------------------- SQL */

/* What it returns, as one text, or its error. */
static int run(sqlite3 *db, char *out, const char *format, ...)
{
    va_list ap;
    char *sql;
    sqlite3_stmt *stmt;
    size_t n = 0;
    int rc;

    va_start(ap, format);
    sql = sqlite3_vmprintf(format, ap);
    va_end(ap);
    *out = 0;
    rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++)
            n += (size_t)snprintf(out + n, TEXT - n, "%s ", (const char *)sqlite3_column_text(stmt, i));
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE)
        snprintf(out, TEXT, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

#define MUST(db, ...)                                 \
    do {                                              \
        char must_text[TEXT];                         \
        if (run(db, must_text, __VA_ARGS__))          \
            fail_msg("%s: %s", #__VA_ARGS__, must_text); \
    } while (0)

static sqlite3 *db_open(void)
{
    sqlite3 *db;
    char *err = NULL;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_statedb_static_init(db, &err, NULL), SQLITE_OK);
    return db;
}

/* ---------------------------------------------------------------- the model */

typedef struct model_row {
    bool is_there;
    int k;        /* its content; when it has been deleted the last one */
    int revision; /* that wrote or deleted it; 0: it never was there */
} model_row;

typedef struct model_feed {
    int born; /* the table's revision when it was made; -1: it is not there */
    int seen;
    int id; /* no other one has had it */
} model_feed;

/* The table as somebody sees it. */
typedef struct model {
    int revision;
    model_row row[ROWS];
    model_feed feed[FEEDS];
} model;

typedef struct client {
    sqlite3 *db;
    bool is_open;    /* BEGIN */
    bool is_writing; /* and it has the table's lock: */
    model now;       /* what it sees then */
    model saved[LEVELS];
    bool saved_writing[LEVELS];
    int n_saved;
} client;

typedef struct world {
    client c[CONNS];
    model committed;
    client *writer; /* who has the lock */
    int n_feeds;    /* ever made */
} world;

static void model_put(model *m, int id, int k)
{
    m->row[id] = (model_row){true, k, ++m->revision};
}

static void model_delete(model *m, int id)
{
    m->row[id].is_there = false;
    m->row[id].revision = ++m->revision;
}

/* Two changes to a feed; one where there is none. */
static void model_move(model *m, int id, int to)
{
    bool has_feed = false;

    for (int i = 0; i < FEEDS; i++)
        has_feed |= m->feed[i].born >= 0;
    model_delete(m, id);
    m->revision -= !has_feed;
    model_put(m, to, m->row[id].k);
}

/* The revisions that a feed is to show, in order: `base` is what is committed, `f` where it stands. */
static int model_pending(const model *base, const model_feed *f, int *ids)
{
    int n = 0;

    for (int i = 0; i < ROWS; i++) {
        const model_row *r = &base->row[i];
        if (r->revision <= f->seen || (!r->is_there && r->revision <= f->born))
            continue;
        int at = n++;
        for (; at > 0 && base->row[ids[at - 1]].revision > r->revision; at--)
            ids[at] = ids[at - 1];
        ids[at] = i;
    }
    return n;
}

/* What a client is to be shown of a feed: the committed changes, from where it stands in its own
** transaction. One that the transaction has made shows nothing. */
static int client_pending(const world *w, const client *c, int feed, int *ids)
{
    const model_feed *f = &(c->is_writing ? &c->now : &w->committed)->feed[feed];

    if (f->id != w->committed.feed[feed].id)
        return 0;
    return model_pending(&w->committed, f, ids);
}

/* ---------------------------------------------------------------- steps */

static void client_end(world *w, client *c)
{
    if (w->writer == c)
        w->writer = NULL;
    c->is_open = c->is_writing = false;
    c->n_saved = 0;
}

/* Run a statement that writes, which changes the model as said in *to (a copy of what it sees). */
static void client_write(world *w, client *c, model to, const char *sql)
{
    char text[TEXT];
    int rc = run(c->db, text, "%s", sql);

    if (w->writer && w->writer != c) {
        if (rc != SQLITE_BUSY)
            fail_msg("%s: %d %s, where somebody else has the lock", sql, rc, text);
        if (c->is_open)
            MUST(c->db, "ROLLBACK"); /* what it reads from there on would be as old as this attempt */
        client_end(w, c);
        return;
    }
    if (rc)
        fail_msg("%s: %s", sql, text);
    if (!c->is_open) {
        w->committed = to;
        return;
    }
    c->now = to;
    c->is_writing = true;
    w->writer = c;
}

static void step_change(world *w, client *c)
{
    model to = c->is_writing ? c->now : w->committed;
    int id = (int)rnd(ROWS), other = (int)rnd(ROWS), k = (int)rnd(100);
    char sql[200];

    switch (rnd(4)) {
    case 0:
        snprintf(sql, sizeof sql, "DELETE FROM t WHERE id = %d", id);
        if (!to.row[id].is_there)
            return;
        model_delete(&to, id);
        break;
    case 1:
        snprintf(sql, sizeof sql, "UPDATE t SET id = %d WHERE id = %d", other, id);
        if (!to.row[id].is_there || to.row[other].is_there)
            return;
        model_move(&to, id, other);
        break;
    default:
        snprintf(sql, sizeof sql, "REPLACE INTO t VALUES(%d, %d)", id, k);
        if (to.row[id].is_there)
            snprintf(sql, sizeof sql, "UPDATE t SET k = %d WHERE id = %d", k, id);
        model_put(&to, id, k);
    }
    client_write(w, c, to, sql);
}

static void step_read(world *w, client *c, int feed)
{
    char text[TEXT], expected[TEXT] = "", says[200];
    int ids[ROWS], n = client_pending(w, c, feed, ids);
    int rc = run(c->db, text, "SELECT _revision, _op, id, k FROM f%d", feed);
    size_t at = 0;

    if ((c->is_writing ? &c->now : &w->committed)->feed[feed].born < 0) {
        snprintf(says, sizeof says, "statedb: f%d: the feed has been ended", feed);
        if (rc != SQLITE_ERROR || strncmp(text, says, strlen(says)) != 0)
            fail_msg("feed %d, which is not there: %d %s", feed, rc, text);
        return;
    }
    for (int i = 0; i < n; i++) {
        const model_row *r = &w->committed.row[ids[i]];
        at += (size_t)snprintf(expected + at, TEXT - at, "%d %s %d %d ", r->revision,
                               r->is_there ? "upsert" : "delete", ids[i], r->k);
    }
    if (rc || strcmp(text, expected) != 0)
        fail_msg("feed %d: %d [%s] instead of [%s]", feed, rc, text, expected);
}

/* Acknowledge some from the front; or try to leave one out. */
static void step_acknowledge(world *w, client *c, int feed)
{
    model to = c->is_writing ? c->now : w->committed;
    int ids[ROWS], n = client_pending(w, c, feed, ids);
    char sql[200], text[TEXT];

    if (n == 0 || to.feed[feed].born < 0)
        return;
    int at = (int)rnd((uint64_t)n), revision = w->committed.row[ids[at]].revision;
    if (rnd(4) == 0 && at > 0 && (!w->writer || w->writer == c) && c->is_writing) {
        assert_int_equal(run(c->db, text, "DELETE FROM f%d WHERE _revision = %d", feed, revision),
                         SQLITE_ERROR);
        assert_non_null(strstr(text, "delete from the front"));
        return;
    }
    snprintf(sql, sizeof sql, "DELETE FROM f%d WHERE _revision <= %d", feed, revision);
    to.feed[feed].seen = revision;
    client_write(w, c, to, sql);
}

/* End a feed, or begin it (anew). */
static void step_feed(world *w, client *c, int feed)
{
    model to = c->is_writing ? c->now : w->committed;
    char sql[200];

    if (to.feed[feed].born >= 0) {
        snprintf(sql, sizeof sql, "DELETE FROM statedb_feeds WHERE name = 'f%d'", feed);
        to.feed[feed] = (model_feed){.born = -1};
        client_write(w, c, to, sql);
        return;
    }
    if (w->writer && w->writer != c)
        return;
    if (!c->is_open) /* both or nothing */
        return;
    MUST(c->db, "DROP TABLE f%d", feed);
    to.feed[feed] = (model_feed){.born = to.revision, .id = ++w->n_feeds};
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.f%d USING statedb_feed(t)", feed);
    client_write(w, c, to, sql);
}

static void step_transaction(world *w, client *c)
{
    if (!c->is_open) {
        MUST(c->db, "BEGIN");
        c->is_open = true;
    } else if (c->n_saved < LEVELS && rnd(3) == 0) {
        MUST(c->db, "SAVEPOINT s%d", c->n_saved);
        c->saved[c->n_saved] = c->now;
        c->saved_writing[c->n_saved++] = c->is_writing;
    } else if (c->n_saved > 0 && rnd(2) == 0) {
        int to = (int)rnd((uint64_t)c->n_saved);
        if (rnd(2)) {
            MUST(c->db, "RELEASE s%d", to);
            c->n_saved = to;
        } else if (c->saved_writing[to]) { /* else it would go on with what its statements have read */
            MUST(c->db, "ROLLBACK TO s%d", to);
            c->now = c->saved[to];
            c->n_saved = to + 1;
        }
    } else {
        bool is_commit = rnd(4) > 0;
        MUST(c->db, is_commit ? "COMMIT" : "ROLLBACK");
        if (is_commit && c->is_writing)
            w->committed = c->now;
        client_end(w, c);
    }
}

static void world_open(world *w)
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < CONNS; i++) {
        w->c[i].db = db_open();
        MUST(w->c[i].db, "CREATE VIRTUAL TABLE temp.t USING statedb(id INTEGER PRIMARY KEY, k, store=feeds)");
        for (int f = 0; f < FEEDS; f++) {
            MUST(w->c[i].db, "CREATE VIRTUAL TABLE temp.f%d USING statedb_feed(t)", f);
            w->committed.feed[f].id = w->n_feeds = f + 1;
        }
    }
}

static void world_close(world *w)
{
    for (int i = 0; i < CONNS; i++) {
        MUST(w->c[i].db, "INSERT INTO t(t) VALUES('integrity-check')");
        assert_int_equal(sqlite3_close(w->c[i].db), SQLITE_OK);
    }
    assert_int_equal(sdb_mem_blocks(), 0);
}

static void test_model(void **state)
{
    static world w;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rng = seed * 0x9e3779b97f4a7c15u;
        world_open(&w);
        for (int step = 0; step < 1500; step++) {
            client *c = &w.c[rnd(CONNS)];
            int feed = (int)rnd(FEEDS);
            uint64_t what = rnd(100);
            if (what < 40)
                step_change(&w, c);
            else if (what < 60)
                step_acknowledge(&w, c, feed);
            else if (what < 97)
                step_transaction(&w, c);
            else
                step_feed(&w, c, feed);
            step_read(&w, c, feed);
            step_read(&w, &w.c[rnd(CONNS)], (int)rnd(FEEDS));
        }
        world_close(&w);
    }
}

/* ---------------------------------------------------------------- threads */

enum { WRITERS = 2, FOLLOWERS = 3, COMMITS = 400 };

static _Atomic int n_writing;

static sqlite3 *member_open(void)
{
    sqlite3 *db = db_open();

    MUST(db, "CREATE VIRTUAL TABLE temp.t USING statedb(id INTEGER PRIMARY KEY, k, store=threads)");
    return db;
}

static uint64_t next(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

/* cmocka's assertions are for the main thread: others say what went wrong. */
static const char *transact(sqlite3 *db, const char *const *sql, int n, bool is_commit)
{
    static _Thread_local char text[TEXT];
    int rc;

    do {
        rc = run(db, text, "BEGIN");
        for (int i = 0; i < n && !rc; i++)
            rc = run(db, text, "%s", sql[i]);
        if (rc || !is_commit)
            run(db, rc ? (char[TEXT]){0} : text, "ROLLBACK");
        else
            rc = run(db, text, "COMMIT");
        if (rc)
            sched_yield();
    } while ((rc & 0xff) == SQLITE_BUSY);
    return rc ? text : NULL;
}

static void *writer_run(void *p)
{
    uint64_t seed = *(uint64_t *)p;
    sqlite3 *db = member_open();
    const char *wrong = NULL;

    for (int i = 0; i < COMMITS && !wrong; i++) {
        char sql[4][100];
        const char *each[4];
        int n = 1 + (int)next(&seed, 4);
        for (int k = 0; k < n; k++) {
            int id = (int)next(&seed, 50);
            each[k] = sql[k];
            snprintf(sql[k], sizeof sql[k],
                     next(&seed, 3) ? "REPLACE INTO t VALUES(%d, %d)" : "DELETE FROM t WHERE id = %d", id, i);
        }
        wrong = transact(db, each, n, next(&seed, 5) > 0);
    }
    n_writing--;
    sqlite3_close(db);
    return wrong ? strdup(wrong) : NULL;
}

/* One round: take what there is into the copy, in one transaction with the acknowledgement. */
static const char *follow(sqlite3 *db, int feed, bool is_commit, int *seen, int *last)
{
    char text[TEXT], sql[3][200];
    const char *each[] = {sql[0], sql[1], sql[2]};
    int first;

    *last = 0;
    if (run(db, text, "SELECT min(_revision), max(_revision) FROM f%d", feed))
        return "it cannot be read";
    if (sscanf(text, "%d %d", &first, last) != 2)
        return NULL;
    if (first <= *seen)
        return "a change came twice";
    snprintf(sql[0], sizeof *sql, "REPLACE INTO copy SELECT id, k FROM f%d WHERE _op = 'upsert' AND "
                                  "_revision <= %d", feed, *last);
    snprintf(sql[1], sizeof *sql, "DELETE FROM copy WHERE id IN (SELECT id FROM f%d WHERE _op = 'delete' "
                                  "AND _revision <= %d)", feed, *last);
    snprintf(sql[2], sizeof *sql, "DELETE FROM f%d WHERE _revision <= %d", feed, *last);
    const char *wrong = transact(db, each, 3, is_commit);
    if (!wrong && is_commit)
        *seen = *last;
    return wrong;
}

static void *follower_run(void *p)
{
    int feed = *(int *)p, seen = 0, last = 1;
    uint64_t seed = (uint64_t)feed + 1;
    sqlite3 *db = member_open();
    const char *wrong = NULL;
    char text[TEXT];

    while (run(db, text, "CREATE VIRTUAL TABLE temp.f%d USING statedb_feed(t)", feed))
        if (strcmp(text, "database is locked") != 0 && !strstr(text, "another connection"))
            return strdup(text);
        else
            sched_yield();
    run(db, text, "CREATE TABLE copy(id INTEGER PRIMARY KEY, k)");
    while (!wrong && (n_writing > 0 || last)) {
        bool is_over = n_writing == 0;
        wrong = follow(db, feed, is_over || next(&seed, 4) > 0, &seen, &last);
        last |= !is_over; /* there may be more that was written before the last one ended */
    }
    if (!wrong)
        run(db, text, "SELECT (SELECT count(*) FROM t) = (SELECT count(*) FROM copy), "
                      "(SELECT count(*) FROM t JOIN copy USING (id, k)) = (SELECT count(*) FROM t)");
    if (!wrong && strcmp(text, "1 1 ") != 0)
        wrong = "the copy is not the table";
    snprintf(text, sizeof text, "DELETE FROM statedb_feeds WHERE name = 'f%d'", feed);
    if (!wrong)
        wrong = transact(db, (const char *const[]){text}, 1, true);
    sqlite3_close(db);
    return wrong ? strdup(wrong) : NULL;
}

static void test_threads(void **state)
{
    pthread_t writer[WRITERS], follower[FOLLOWERS];
    uint64_t seed[WRITERS];
    int feed[FOLLOWERS];
    sqlite3 *db = member_open();
    bool is_wrong = false;
    void *wrong;

    (void)state;
    n_writing = WRITERS;
    for (int i = 0; i < WRITERS; i++) {
        seed[i] = (uint64_t)i + 100;
        assert_int_equal(pthread_create(&writer[i], NULL, writer_run, &seed[i]), 0);
    }
    for (int i = 0; i < FOLLOWERS; i++) {
        feed[i] = i;
        assert_int_equal(pthread_create(&follower[i], NULL, follower_run, &feed[i]), 0);
    }
    for (int i = 0; i < WRITERS + FOLLOWERS; i++) {
        pthread_join(i < WRITERS ? writer[i] : follower[i - WRITERS], &wrong);
        if (wrong)
            print_error("thread %d: %s\n", i, (char *)wrong);
        is_wrong |= wrong != NULL;
        free(wrong);
    }
    assert_false(is_wrong);
    MUST(db, "INSERT INTO t(t) VALUES('integrity-check')");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* Of several connections that read a row and write it back on condition one wins; all increments count. */
enum { SWAPPERS = 3, SWAPS = 300 };

static void *swapper_run(void *p)
{
    int *n_lost = p;
    sqlite3 *db = member_open();
    char text[TEXT];

    for (int i = 0; i < SWAPS;) {
        int k, revision;
        if (run(db, text, "SELECT k, _revision FROM t WHERE id = 1") ||
            sscanf(text, "%d %d", &k, &revision) != 2)
            return strdup(text);
        int rc = run(db, text, "UPDATE t SET k = %d WHERE id = 1 AND _revision = %d", k + 1, revision);
        if (rc && (rc & 0xff) != SQLITE_BUSY)
            return strdup(text);
        bool has_won = !rc && sqlite3_changes(db) == 1;
        i += has_won;
        *n_lost += !has_won;
    }
    sqlite3_close(db);
    return NULL;
}

static void test_compare_and_swap(void **state)
{
    pthread_t thread[SWAPPERS];
    int lost[SWAPPERS] = {0};
    sqlite3 *db = member_open();
    void *wrong;
    char text[TEXT];

    (void)state;
    MUST(db, "INSERT INTO t VALUES(1, 0)");
    for (int i = 0; i < SWAPPERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, swapper_run, &lost[i]), 0);
    for (int i = 0; i < SWAPPERS; i++) {
        pthread_join(thread[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    assert_int_equal(run(db, text, "SELECT k, _revision FROM t"), SQLITE_OK);
    assert_string_equal(text, "900 901 ");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(sdb_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_compare_and_swap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
