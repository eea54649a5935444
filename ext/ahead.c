/* ahead.c - what the inner side of a join is going to look up, fetched before it does.
**
** A look-up in a large table waits for memory, twice or more, one wait after the other; that is most of the
** time of a join. Its outer side would know what comes: the next rows are there to be read. But SQLite hands
** the inner side one value at a time, and does not say where it is from. So that is found out: when what a
** cursor is given is, one time after the other, in the same column of the row that another cursor is at (or
** always the same number), it FOLLOWS that one. The LEADER then gathers some rows before xNext asks for them,
** and for each follower core fetches what their values lead to, all at once (sdb_cursor_look_ahead).
**
** Nothing is looked up for good: a wrong guess costs a little time, and who follows in vain - since the outer
** rows are filtered, say, before they are joined - is let go. A statement of few rows never comes so far.
** Chen, Ailamaki, Gibbons, Mowry: Improving hash join performance through prefetching, ICDE 2004. */
#include "cursor.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#ifdef SDB_EAGER /* core/radix.h */
enum { LOOK_EVERY = 1, SURE = 2 };
#else
enum {
    LOOK_EVERY = 16, /* look-ups */
    SURE = 4         /* times that a column was right */
};
#endif
enum {
    COLUMNS = 63,    /* of a leader, that are considered */
    AHEAD_MIN = 8,   /* rows: a LIMIT may be near */
    AHEAD_MAX = 64,
    AHEAD_DEPTH = 8  /* of followers of followers */
};

static sdb_value leader_value(const cursor *leader, const sdb_row *row, int bit)
{
    return row_value(leader->table, row, bit - 1);
}

static bool value_is_same(const sdb_value *a, const sdb_value *b)
{
    if (a->type != b->type || a->type < SDB_TEXT)
        return a->type == b->type && a->type == SDB_INTEGER && a->u.i == b->u.i;
    return a->n == b->n && memcmp(a->u.p, b->u.p, a->n) == 0;
}

/* Those of the columns in which the row that the leader is at has the value. */
static uint64_t columns_with(const cursor *leader, uint64_t columns, const sdb_value *value)
{
    uint64_t found = 0;

    for (uint64_t left = leader->row ? columns : 0; left; left &= left - 1) {
        int bit = __builtin_ctzll(left);
        sdb_value v = leader_value(leader, leader->row, bit);
        if (value_is_same(&v, value))
            found |= (uint64_t)1 << bit;
    }
    return found;
}

static uint64_t columns_all(const cursor *leader)
{
    int n = cursor_vtable(leader)->def->n_columns;

    return ((uint64_t)2 << (n < COLUMNS ? n : COLUMNS)) - 1;
}

/* Whether all values may still come from the leader's rows, and one does. */
static bool origins_fit(cursor *cur, const cursor *leader, const sdb_value *values)
{
    uint64_t any = 0;

    for (int i = 0; i < cur->n_from; i++) {
        origin *from = &cur->from[i];
        from->columns = columns_with(leader, from->columns, &values[i]);
        from->is_number &= values[i].type == SDB_INTEGER && values[i].u.i == from->number;
        any |= from->columns;
        if (!from->columns && !from->is_number)
            return false;
    }
    return any;
}

/* The same, when nothing is known yet. */
static bool origins_begin(cursor *cur, const cursor *leader, const sdb_value *values, int n)
{
    cur->n_from = n;
    for (int i = 0; i < n; i++)
        cur->from[i] = (origin){.columns = columns_all(leader),
                                .is_number = values[i].type == SDB_INTEGER,
                                .number = values[i].type == SDB_INTEGER ? values[i].u.i : 0};
    return origins_fit(cur, leader, values);
}

/* Rows behind the one it is at can be gathered; or those of its own leader lead to its own. */
static bool may_lead(const cursor *cur)
{
    return cur->follows || cur->is_ahead ||
           (cur->row && cur->n_asked == 0 && !cur->n_left && !cur->n_gathered && !cur->plan->n_distinct);
}

/* It has no leader any more, and cannot be one by that; look for one, but not so soon. */
static void leave(cursor *cur)
{
    if (cur->follows) {
        cur->leader->n_followers--;
        ahead_end(cur);
    }
    cur->leader = NULL;
    cur->follows = false;
    cur->look_every *= 4;
    cur->look_at = cur->n_asked + cur->look_every;
}

static void follow(cursor *cur)
{
    cursor *leader = cur->leader;

    for (int i = 0; i < cur->n_from; i++)
        cur->from[i].columns &= -cur->from[i].columns; /* one of them will do */
    cur->follows = true;
    cur->n_before = cur->n_asked - AHEAD_MAX; /* the rows that are gathered now are not for it to answer for */
    leader->n_followers++;
    if (!leader->is_ahead && !leader->follows) {
        leader->is_ahead = true;
        leader->is_plain = false;
        leader->n_ahead = AHEAD_MIN;
    }
}

void ahead_look(cursor *cur, const sdb_value *values, int n)
{
    cursor *at = cur->leader;

    cur->look_at += cur->look_every;
    if (at && n == cur->n_from && may_lead(at) && origins_fit(cur, at, values)) {
        if (!cur->follows && ++cur->n_right == SURE)
            follow(cur);
        return;
    }
    if (cur->follows || n > AHEAD_EQ) {
        leave(cur);
        return;
    }
    at = at ? at->next : cursor_vtable(cur)->store->open;
    while (at && (at == cur || !may_lead(at) || !origins_begin(cur, at, values, n)))
        at = at->next;
    cur->leader = at;
    cur->n_right = 1;
    if (!at)
        leave(cur);
}

/* What a follower is going to look up, one after the other. */
static void values_ahead(const cursor *f, const sdb_row *const *rows, size_t n, sdb_value *out)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < f->n_from; k++) {
            const origin *from = &f->from[k];
            if (!rows[i])
                *out++ = (sdb_value){.type = SDB_NULL};
            else if (from->columns)
                *out++ = leader_value(f->leader, rows[i], __builtin_ctzll(from->columns));
            else
                *out++ = (sdb_value){.type = SDB_INTEGER, .u.i = from->number};
        }
}

/* Let those who follow the cursor, and those who follow them, look where its rows lead to. */
static void rows_ahead(const cursor *leader, const sdb_row *const *rows, size_t n, int depth)
{
    for (cursor *f = cursor_vtable(leader)->store->open; f; f = f->next) {
        const sdb_row *found[AHEAD_MAX];
        sdb_value values[AHEAD_MAX * AHEAD_EQ];
        bool has_followers = f->n_followers > 0 && depth < AHEAD_DEPTH;
        if (f->leader != leader || !f->follows || !f->is_open)
            continue;
        values_ahead(f, rows, n, values);
        f->n_before = f->n_asked;
        if (!sdb_cursor_look_ahead(f->core, values, f->n_from, n, has_followers ? found : NULL)) {
            f->look_every = 0; /* never again */
            leave(f);
        } else if (has_followers) {
            rows_ahead(f, found, n, depth + 1);
        }
    }
}

/* Let go who has looked up the values of few rows that were gathered for it. */
static void rows_were(cursor *leader, size_t n)
{
    for (cursor *f = cursor_vtable(leader)->store->open; f && leader->n_followers; f = f->next) {
        if (f->leader != leader || !f->follows)
            continue;
        rows_were(f, n);
        if ((f->n_asked - f->n_before) * 4 < n)
            leave(f);
    }
}

int ahead_next(cursor *cur)
{
    int rc;

    if (++cur->gathered_at < cur->n_gathered) {
        cur->row = cur->gathered[cur->gathered_at];
        return SQLITE_OK;
    }
    rows_were(cur, cur->n_gathered);
    cur->n_gathered = cur->gathered_at = 0;
    if (cur->n_followers == 0) {
        cur->is_ahead = false;
        cur->is_plain = !cur->n_filter && !cur->n_list && !cur->n_behind;
        return cursor_advance(cur, sdb_cursor_next(cur->core));
    }
    do {
        rc = cursor_advance(cur, sdb_cursor_next(cur->core));
        if (rc == SQLITE_OK && cur->row)
            rc = cursor_gather(cur, cur->row);
        if (rc != SQLITE_OK)
            return rc;
    } while (cur->row && cur->n_gathered < cur->n_ahead);
    if (cur->n_ahead < AHEAD_MAX)
        cur->n_ahead *= 2;
    rows_ahead(cur, cur->gathered, cur->n_gathered, 0);
    cur->row = cur->n_gathered ? cur->gathered[0] : NULL;
    return SQLITE_OK;
}

void ahead_end(cursor *cur)
{
    for (cursor *f = cursor_vtable(cur)->store->open; f; f = f->next)
        if (f->leader == cur)
            leave(f);
    cur->is_ahead = false;
}

void ahead_new(cursor *cur)
{
    cur->leader = NULL;
    cur->follows = false;
    cur->n_asked = 0;
    cur->look_at = cur->look_every = LOOK_EVERY;
}

void ahead_close(cursor *cur)
{
    if (cur->follows)
        cur->leader->n_followers--;
    ahead_end(cur);
    ahead_new(cur);
}
