/* tags.h - for tests of multi indexes: a table of rows with tags, and indexes of them. */
#ifndef STATEDB_TEST_TAGS_H
#define STATEDB_TEST_TAGS_H

#include "random.h"

#include "../core/mem.h"
#include "../core/statedb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TAGS = 64 };

/* Tags are written as "b,12,,~": a text, a number, an empty text, NULL. No tags are written as "-", and
** a "!" is refused. The column's own NULL has no tags either. */
static inline int tag_value(const char *at, size_t n, sdb_value *out)
{
    *out = (sdb_value){.type = SDB_TEXT, .n = (uint32_t)n, .u.p = at};
    if (n == 1 && *at == '!')
        return SDB_NOTSET;
    if (n == 1 && *at == '~')
        *out = (sdb_value){.type = SDB_NULL};
    else if (n > 0 && *at >= '0' && *at <= '9')
        *out = (sdb_value){.type = SDB_INTEGER, .u.i = strtol(at, NULL, 10)};
    return SDB_OK;
}

static inline int tags_extract(void *ctx, const sdb_value *value, sdb_key_set *keys)
{
    const char *at = value->u.p;
    size_t left = value->n;
    if (ctx)
        ++*(atomic_int *)ctx;
    if (value->type == SDB_NULL || (left == 1 && *at == '-'))
        return SDB_OK;
    if (value->type != SDB_TEXT)
        return sdb_key_set_add(keys, value);
    for (;;) {
        size_t n = 0;
        sdb_value tag;
        while (n < left && at[n] != ',')
            n++;
        int rc = tag_value(at, n, &tag);
        if (rc != SDB_OK)
            return rc;
        sdb_key_set_add(keys, &tag); /* should it fail, that is remembered */
        if (n == left)
            return SDB_OK;
        at += n + 1;
        left -= n + 1;
    }
}

static atomic_int n_extracted;

/* t(id = rowid, tags, n); by_tag (tags), by_n (n), by_fold (tags NOCASE DESC) */
static const sdb_part BY_TAG = {1, SDB_BINARY, false}, BY_N = {2, SDB_BINARY, false};
static const sdb_part BY_FOLD = {1, SDB_NOCASE, true};
static const sdb_index_def INDEXES[] = {
    {.name = "by_tag", .n_parts = 1, .parts = &BY_TAG, .kind = SDB_MULTI, .extract = tags_extract},
    {.name = "by_n", .n_parts = 1, .parts = &BY_N},
    {.name = "by_fold", .n_parts = 1, .parts = &BY_FOLD, .kind = SDB_MULTI, .extract = tags_extract,
     .extract_ctx = &n_extracted},
};
static const sdb_index_def ONCE = {.name = "once", .unique = true, .n_parts = 1, .parts = &BY_TAG,
                                   .kind = SDB_MULTI, .extract = tags_extract};
static const sdb_table_def DEF = {
    .name = "t", .n_columns = 3, .rowid_column = 0, .n_indexes = 3, .indexes = INDEXES};

static inline sdb_value text(const char *s)
{
    return (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s};
}

static inline void row_values(sdb_value v[3], const char *tags, int n)
{
    v[0] = (sdb_value){.type = SDB_NULL};
    v[1] = text(tags);
    v[2] = (sdb_value){.type = SDB_INTEGER, .u.i = n};
}

static inline int put(sdb_txn *txn, sdb_table *t, int64_t rowid, const char *tags, int n)
{
    sdb_value v[3];
    row_values(v, tags, n);
    return sdb_put(txn, t, rowid, v);
}

static inline void assert_sound(sdb_txn *txn)
{
    char *wrong = sdb_txn_check(txn);
    if (wrong)
        fail_msg("%s", wrong);
}

static inline void open_table(sdb_db **db, sdb_table **t)
{
    sdb_txn *txn;
    assert_int_equal(sdb_open(db), SDB_OK);
    assert_int_equal(sdb_txn_begin(*db, &txn), SDB_OK);
    assert_int_equal(sdb_txn_create_table(txn, &DEF, t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
}

/* By now every cursor, snapshot and transaction is gone. */
static inline void close_store(sdb_db *db, sdb_table *t)
{
    sdb_txn *txn;
    sdb_memory used;
    assert_int_equal(sdb_txn_begin(db, &txn), SDB_OK);
    assert_int_equal(sdb_delete_all(txn, t), SDB_OK);
    assert_int_equal(sdb_txn_commit(txn), SDB_OK);
    sdb_memory_used(db, &used);
    assert_int_equal(used.live, 0);
    sdb_unref(db);
    assert_int_equal(sdb_mem_blocks(), 0);
}

/* The rowids that a cursor gives, as "1 2 3". */
static inline const char *rows_of(sdb_cursor *cur, const sdb_range *range)
{
    static char out[4096];
    size_t n = 0;
    int rc = sdb_cursor_seek(cur, range);
    out[0] = 0;
    for (; rc == SDB_OK; rc = sdb_cursor_next(cur))
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", n ? " " : "",
                              (int)sdb_row_rowid(sdb_cursor_row(cur)));
    assert_int_equal(rc, SDB_DONE);
    assert_null(sdb_cursor_row(cur));
    return out;
}

static inline const char *rows_in_txn(sdb_db *db, sdb_txn *txn, sdb_table *t, const char *index,
                               const sdb_value *eq)
{
    sdb_cursor *cur;
    sdb_range range = {.eq = eq, .n_eq = eq != NULL};
    assert_int_equal(sdb_cursor_new(db, &cur), SDB_OK);
    assert_int_equal(sdb_cursor_open_txn(cur, txn, t, sdb_txn_find_index(txn, t, index)), SDB_OK);
    const char *out = rows_of(cur, &range);
    sdb_cursor_free(cur);
    return out;
}

#endif
