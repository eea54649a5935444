/* t_frozen.c - the aids that find bugs are themselves awake: SDB_CHECK=1 stops at a commit of what is
** wrong, and the build with SDB_FREEZE (make frozen) at a write to what is published. */
#define _GNU_SOURCE
#include "../core/db.h"
#include "../core/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- a child that dies */

/* In a child process cmocka has no say. */
#define MUST(cond) ((cond) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #cond), _exit(9)))

/* Run it in a child; returns the signal that ended it, 0 if none did, and what it wrote to stderr. */
static int signal_of(void (*run)(void), char *said, size_t room)
{
    int fd[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* cmocka and sanitizers have handlers of their own */
        signal(SIGABRT, SIG_DFL);
        dup2(fd[1], 2);
        run();
        _exit(0);
    }
    close(fd[1]);
    while (n < room - 1 && (got = read(fd[0], said + n, room - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(fd[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        fail_msg("%s", said);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

typedef struct fixture {
    sdb_db *db;
    sdb_table *t;
    sdb_txn *txn;
} fixture;

/* t(id = rowid, k), by_k; two rows, not committed yet */
static void fixture_open(fixture *f)
{
    static const sdb_part by_k = {1, SDB_BINARY, false};
    static const sdb_index_def index = {.name = "by_k", .n_parts = 1, .parts = &by_k};
    sdb_table_def def = {.name = "t", .n_columns = 2, .rowid_column = 0, .n_indexes = 1,
                         .indexes = &index};
    sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_INTEGER, .u.i = 7}};
    MUST(sdb_open(&f->db) == SDB_OK);
    MUST(sdb_txn_begin(f->db, &f->txn) == SDB_OK);
    MUST(sdb_txn_create_table(f->txn, &def, &f->t) == SDB_OK);
    MUST(sdb_put(f->txn, f->t, 1, v) == SDB_OK);
    MUST(sdb_put(f->txn, f->t, 2, v) == SDB_OK);
}

/* ---------------------------------------------------------------- SDB_CHECK */

static void commit_broken_row(void)
{
    fixture f;
    fixture_open(&f);
    ((sdb_row *)(uintptr_t)sdb_txn_get(f.txn, f.t, 1))->type[2] = 8; /* k: not what by_k has it under */
    MUST(sdb_txn_commit(f.txn) == SDB_OK);
}

static void commit_broken_row_checked(void)
{
    setenv("SDB_CHECK", "1", 1);
    commit_broken_row();
}

static void commit_broken_row_unchecked(void)
{
    setenv("SDB_CHECK", "0", 1);
    commit_broken_row();
}

static void test_check_at_commit(void **state)
{
    (void)state;
    char said[500];
    assert_int_equal(signal_of(commit_broken_row_checked, said, sizeof said), SIGABRT);
    assert_memory_equal(said, "statedb: table t, index by_k: ", 30);
    assert_int_equal(signal_of(commit_broken_row_unchecked, said, sizeof said), 0);
}

/* ---------------------------------------------------------------- SDB_FREEZE */

#ifdef SDB_FREEZE
static void write_unpublished(void)
{
    fixture f;
    fixture_open(&f);
    ((sdb_row *)(uintptr_t)sdb_txn_get(f.txn, f.t, 1))->revision = 0;
    MUST(sdb_txn_commit(f.txn) == SDB_OK);
}

static void write_row(void)
{
    fixture f;
    sdb_snapshot *snap;
    sdb_cursor *cur;
    fixture_open(&f);
    MUST(sdb_txn_commit(f.txn) == SDB_OK);
    MUST(sdb_snapshot_new(f.db, &snap) == SDB_OK);
    MUST(sdb_cursor_new(f.db, &cur) == SDB_OK);
    sdb_snapshot_take(snap);
    MUST(sdb_cursor_open(cur, snap, f.t, SDB_BY_ROWID) == SDB_OK);
    MUST(sdb_cursor_seek(cur, &(sdb_range){0}) == SDB_OK);
    ((sdb_row *)(uintptr_t)sdb_cursor_row(cur))->type[2] = 8;
}

static void write_node(void)
{
    fixture f;
    fixture_open(&f);
    MUST(sdb_txn_commit(f.txn) == SDB_OK);
    sdb_version *version = sdb_root_version(atomic_load(&f.db->root), f.t);
    MUST(!(version->root[SDB_BY_ROWID] & SDB_LEAF));
    ((sdb_node *)sdb_at(f.t->arena.base, version->root[SDB_BY_ROWID]))->count = 3;
}

static void test_write_to_published(void **state)
{
    (void)state;
    char said[500];
    assert_int_equal(signal_of(write_unpublished, said, sizeof said), 0);
    assert_int_equal(signal_of(write_row, said, sizeof said), SIGSEGV);
    assert_int_equal(signal_of(write_node, said, sizeof said), SIGSEGV);
}

/* Frozen pages come back: three hundred commits do not need three hundred times the memory. */
static void test_memory_comes_back(void **state)
{
    (void)state;
    fixture f;
    sdb_memory used;
    static char text[20000]; /* more than a page */
    fixture_open(&f);
    assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    for (int i = 0; i < 300; i++) {
        sdb_value v[2] = {{.type = SDB_NULL}, {.type = SDB_BLOB, .u.p = text}};
        v[1].n = i % 9 ? (uint32_t)i % 100 : sizeof text;
        assert_int_equal(sdb_txn_begin(f.db, &f.txn), SDB_OK);
        assert_int_equal(sdb_put(f.txn, f.t, i * 31 % 100, v), SDB_OK);
        assert_int_equal(sdb_txn_commit(f.txn), SDB_OK);
    }
    sdb_memory_used(f.db, &used);
    assert_int_equal(used.retired, 0);
    assert_true(used.mapped < 16 << 20);
    sdb_unref(f.db);
    assert_int_equal(sdb_mem_blocks(), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_at_commit),
#ifdef SDB_FREEZE
        cmocka_unit_test(test_write_to_published),
        cmocka_unit_test(test_memory_comes_back),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
