/* tree.h - for tests of trees: one in an arena of its own. */
#ifndef STATEDB_TEST_TREE_H
#define STATEDB_TEST_TREE_H

#include "random.h"

#include "../core/mem.h"
#include "../core/radix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct tree {
    sdb_budget budget;
    sdb_arena arena;
    sdb_edit edit;
    sdb_link root;
} tree;

static inline void tree_open(tree *t)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(sdb_arena_init(&t->arena, &t->budget), SDB_OK);
    t->edit.arena = &t->arena;
    t->edit.stamp = 1;
}

/* Everything made so far becomes immutable, as at a commit. */
static inline void tree_freeze(tree *t)
{
    t->edit.floor = t->edit.stamp++;
}

/* After all nodes and leaves have been freed. */
static inline void tree_fini(tree *t)
{
    assert_int_equal(t->arena.live, 0);
    assert_null(sdb_arena_check(&t->arena));
    sdb_links_fini(&t->edit.retired);
    sdb_arena_fini(&t->arena);
    assert_int_equal(t->budget.used, 0);
    assert_int_equal(sdb_mem_blocks(), 0);
}

#endif
