/* check.c - the validator of tables: every index well-formed, and all of them the same rows. */
#include "txn.h"

#include "key.h"
#include "lpm_index.h"
#include "mem.h"
#include "multi_index.h"

#include <stdio.h>
#include <stdlib.h>

/* A message that its receiver frees; the plain text of `wrong` stands in where there is no memory
** for a better one. */
static char *complain(const sdb_version *v, int index, const char *wrong)
{
    const char *name = index ? v->set->at[index]->def.name : "rowid";
    size_t size = strlen(wrong) + strlen(v->name) + strlen(name) + 32;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "table %s, index %s: %s", v->name, name, wrong);
    return text;
}

static const char interrupted[] = "the check has been interrupted";

/* Every row of the table is in index i, under its key. stop may be NULL. */
static const char *check_rows(const sdb_version *v, int i, sdb_buf *key, const sdb_stop *stop)
{
    const sdb_table *t = v->table;
    const char *wrong = NULL;
    uint64_t n = 0;
    sdb_iter it;
    sdb_iter_init(&it);
    sdb_iter_open(&it, &v->set->at[SDB_BY_ROWID]->leaves, t->arena.base, v->root[SDB_BY_ROWID]);
    int rc = sdb_iter_first(&it);
    for (; rc == SDB_OK && !wrong; rc = sdb_iter_next(&it)) {
        const sdb_row *row = sdb_row_at(t, it.leaf);
        key->n = 0;
        rc = sdb_index_row_key(v->set->at[i], row, key);
        if (rc != SDB_OK)
            break;
        if (sdb_radix_get(&v->set->at[i]->leaves, t->arena.base, v->root[i], key->at, key->n) != it.leaf)
            wrong = "a row of the table is not in the index";
        else if (sdb_stop_due(stop, n++))
            wrong = interrupted;
    }
    if (rc < 0)
        wrong = "there is no memory to check the table with";
    sdb_iter_fini(&it);
    return wrong;
}

static char *check_version(const sdb_version *v, const sdb_stop *stop)
{
    sdb_buf key = {0};
    const char *wrong = NULL;
    uint64_t rows = sdb_version_count(v), leaves;
    int i = 0;
    for (; i < v->set->n && !wrong; i++) {
        uint8_t kind = v->set->at[i]->def.kind;
        if (kind != SDB_RADIX) {
            wrong = kind == SDB_LPM ? sdb_lpm_index_check(v, i) : sdb_multi_check(v, i);
            continue;
        }
        wrong = sdb_radix_check(&v->set->at[i]->leaves, v->table->arena.base, v->root[i],
                                SDB_STAMP_MAX, &leaves);
        if (!wrong && leaves != rows)
            wrong = "the index has more or fewer entries than the table has rows";
        if (!wrong)
            wrong = check_rows(v, i, &key, stop);
    }
    sdb_buf_fini(&key);
    if (!wrong) {
        wrong = sdb_history_check(v);
        i = 1; /* named after the rowid */
    }
    return wrong ? complain(v, i - 1, wrong) : NULL;
}

char *sdb_txn_check(sdb_txn *txn)
{
    for (uint32_t i = 0; i < txn->n_table; i++) {
        const sdb_version *v = txn->table[i];
        if (!v)
            continue;
        char *text = check_version(v, &txn->stop);
        if (text)
            return text;
        const char *wrong =
            atomic_load_explicit(&v->table->owner, memory_order_relaxed) == txn
                ? sdb_arena_check(&v->table->arena)
                : NULL;
        if (wrong)
            return complain(v, SDB_BY_ROWID, wrong);
    }
    return NULL;
}

void sdb_commit_check(const sdb_txn *txn)
{
    static atomic_int is_wanted; /* 0: nobody has looked */
    if (!is_wanted) {
        const char *check = getenv("SDB_CHECK");
        is_wanted = check && *check && *check != '0' ? 1 : -1;
    }
    if (is_wanted < 0 || sdb_mem_injecting()) /* the fault is meant for others */
        return;
    for (uint32_t i = 0; i < txn->n_work; i++) {
        const sdb_work *w = &txn->work[i];
        const char *text = w->is_dropped ? NULL : check_version(w->now, NULL);
        if (!text && !w->is_dropped)
            text = sdb_arena_check(&w->table->arena);
        if (text) {
            fprintf(stderr, "statedb: %s\n", text);
            abort();
        }
    }
}

char *sdb_check(sdb_db *db)
{
    sdb_txn *txn;
    if (sdb_txn_begin(db, &txn) != SDB_OK)
        return NULL;
    char *text = sdb_txn_check(txn);
    sdb_txn_abort(txn);
    return text;
}
