/* store_model.h - for fuzz_store.c: what a table holds at one moment, as plain arrays, and what each kind
** of index would find in it. */
#ifndef STATEDB_TEST_STORE_MODEL_H
#define STATEDB_TEST_STORE_MODEL_H

#include "../core/prefix.h"
#include "../core/statedb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))

enum { ROWS = 12, FEEDS = 2, NETS = 16, BAD_NET = 15 };

/* ---------------------------------------------------------------- rows */

/* x: 0 is NULL, 1..5 numbers, 6..7 blobs. y: 0 is NULL, else a text; y and y ^ 1 differ in case. net: 0 is
** NULL, BAD_NET a text that is no prefix. */
typedef struct content {
    bool is_there;
    int8_t x, y, net;
    uint64_t revision;
} content;

static const char *const NET[NETS] = {NULL,          "0.0.0.0/0",  "10.0.0.0/8", "10.9.9.9/8",
                                      "10.0.0.0/9",  "10.128.0.0/9", "10.1.0.0/16", "10.1.2.3",
                                      "10.1.2.2/31", "::/0",       "fd00::/8",   "fd00::1",
                                      "0x",          "0x0a01/12",  "aa:bb:cc/24", "10/8"};

static const char *text_of(int y)
{
    static char text[16][17002];
    if (!text[y][0])
        memset(text[y], (y & 1 ? 'a' : 'A') + y / 2, y / 2 == 3 ? 17001 : 1 + (size_t)y / 2);
    return text[y];
}

static sdb_value text_value(const char *s)
{
    return s ? (sdb_value){.type = SDB_TEXT, .n = (uint32_t)strlen(s), .u.p = s}
             : (sdb_value){.type = SDB_NULL};
}

static sdb_value value_x(int x)
{
    if (x > 5)
        return (sdb_value){.type = SDB_BLOB, .n = (uint32_t)x, .u.p = "\0\0\0\0\0\0\0"};
    if (x % 2 == 1)
        return (sdb_value){.type = SDB_INTEGER, .u.i = x};
    return x ? (sdb_value){.type = SDB_REAL, .u.r = x} : (sdb_value){.type = SDB_NULL};
}

static sdb_value value_y(int y)
{
    return text_value(y ? text_of(y) : NULL);
}

static sdb_value value_net(int net)
{
    return text_value(NET[net]);
}

static void values_of(const content *c, int id, sdb_value out[4])
{
    out[0] = (sdb_value){.type = SDB_INTEGER, .u.i = id};
    out[1] = value_x(c->x);
    out[2] = value_y(c->y);
    out[3] = value_net(c->net);
}

/* Read once. */
static const sdb_prefix *prefix_of(int net)
{
    static sdb_prefix read[NETS];
    static bool is_read[NETS];
    if (!is_read[net])
        CHECK(sdb_prefix_parse(NET[net], strlen(NET[net]), &read[net]) == NULL);
    is_read[net] = true;
    return &read[net];
}

static bool covers(int net, int other)
{
    return sdb_prefix_covers(prefix_of(net), prefix_of(other));
}

static int bits_of(int net)
{
    return prefix_of(net)->bits;
}

/* Where a prefix stands among them, from 1; what is none is 0. Two that are the same stand in one place. */
static int rank_net(int net)
{
    int rank = 1;
    if (net == 0 || net == BAD_NET)
        return 0;
    for (int i = 1; i < BAD_NET; i++)
        rank += sdb_prefix_compare(prefix_of(i), prefix_of(net)) < 0;
    return rank;
}

/* ---------------------------------------------------------------- indexes */

/* The indexes that a table may have, in any order; BY_ID is index 0. A row's bits are those of x. */
typedef enum { BY_ID, BY_X_Y, BY_Y_NOCASE, BY_Y, BY_X, BY_NET, BY_ONE_NET, BY_BIT, BY_REVISION,
               BY_X_REVISION, KINDS } kind;

static int bits_extract(void *ctx, const sdb_value *value, sdb_key_set *keys)
{
    int64_t x = value->type == SDB_REAL ? (int64_t)value->u.r : value->type == SDB_BLOB ? value->n
                : value->type == SDB_INTEGER ? value->u.i : 0;
    (void)ctx;
    for (int64_t bit = 2; bit >= 0; bit--) {
        sdb_value key = {.type = SDB_INTEGER, .u.i = bit};
        if (x >> bit & 1)
            sdb_key_set_add(keys, &key);
    }
    return SDB_OK;
}

static const sdb_part PARTS[KINDS][2] = {[BY_X_Y] = {{1, SDB_BINARY, true}, {2, SDB_BINARY, false}},
                                         [BY_Y_NOCASE] = {{2, SDB_NOCASE, false}},
                                         [BY_Y] = {{2, SDB_BINARY, true}},
                                         [BY_X] = {{1, SDB_BINARY, false}},
                                         [BY_NET] = {{3, SDB_BINARY, false}},
                                         [BY_ONE_NET] = {{3, SDB_BINARY, false}},
                                         [BY_BIT] = {{1, SDB_BINARY, false}},
                                         [BY_REVISION] = {{SDB_REVISION_COLUMN, SDB_BINARY, false}},
                                         [BY_X_REVISION] = {{1, SDB_BINARY, false},
                                                            {SDB_REVISION_COLUMN, SDB_BINARY, true}}};
static const sdb_index_def DEFS[KINDS] = {
    [BY_X_Y] = {.name = "xy", .n_parts = 2, .parts = PARTS[BY_X_Y]},
    [BY_Y_NOCASE] = {.name = "yn", .unique = true, .n_parts = 1, .parts = PARTS[BY_Y_NOCASE]},
    [BY_Y] = {.name = "y", .n_parts = 1, .parts = PARTS[BY_Y]},
    [BY_X] = {.name = "x", .unique = true, .n_parts = 1, .parts = PARTS[BY_X]},
    [BY_NET] = {.name = "net", .n_parts = 1, .parts = PARTS[BY_NET], .kind = SDB_LPM},
    [BY_ONE_NET] = {.name = "one", .unique = true, .n_parts = 1, .parts = PARTS[BY_ONE_NET],
                    .kind = SDB_LPM},
    [BY_BIT] = {.name = "bit", .n_parts = 1, .parts = PARTS[BY_BIT], .kind = SDB_MULTI,
                .extract = bits_extract},
    [BY_REVISION] = {.name = "rev", .n_parts = 1, .parts = PARTS[BY_REVISION]},
    [BY_X_REVISION] = {.name = "xrev", .n_parts = 2, .parts = PARTS[BY_X_REVISION]}};

static bool is_lpm(kind k)
{
    return k == BY_NET || k == BY_ONE_NET;
}

/* Where the first column's value stands among all values of it, NULL at 0. */
static int rank_first(kind k, const content *c, int id)
{
    switch (k) {
    case BY_ID:
        return id;
    case BY_X_Y:
    case BY_X:
    case BY_X_REVISION:
        return c->x;
    case BY_REVISION:
        return (int)c->revision;
    case BY_NET:
    case BY_ONE_NET:
        return rank_net(c->net);
    case BY_Y_NOCASE:
        return c->y ? 1 + c->y / 2 : 0;
    default:
        return c->y ? 1 + (c->y & 1) * 8 + c->y / 2 : 0;
    }
}

static int compare(kind k, const content *a, int id_a, const content *b, int id_b)
{
    int c = rank_first(k, a, id_a) - rank_first(k, b, id_b);
    if (k == BY_X_Y || k == BY_Y)
        c = -c;
    if (c == 0 && k == BY_X_Y)
        c = rank_first(BY_Y, a, id_a) - rank_first(BY_Y, b, id_b);
    if (c == 0 && k == BY_X_REVISION)
        c = rank_first(BY_REVISION, b, id_b) - rank_first(BY_REVISION, a, id_a);
    return c ? c : id_a - id_b;
}

/* The first column's value as a cursor is asked for it. Of a bit, x says which. */
static sdb_value value_first(kind k, const content *c, int id)
{
    switch (k) {
    case BY_ID:
        return (sdb_value){.type = SDB_INTEGER, .u.i = id};
    case BY_X_Y:
    case BY_X:
    case BY_X_REVISION:
        return value_x(c->x);
    case BY_REVISION:
        return (sdb_value){.type = SDB_INTEGER, .u.i = (int64_t)c->revision};
    case BY_NET:
    case BY_ONE_NET:
        return value_net(c->net);
    case BY_BIT:
        return (sdb_value){.type = SDB_INTEGER, .u.i = c->x % 4};
    default:
        return value_y(c->y);
    }
}

/* ---------------------------------------------------------------- tables */

typedef struct feed {
    bool is_there;
    uint64_t born, seen;
} feed;

/* One table at one moment. */
typedef struct shot {
    sdb_table *t; /* NULL: it is not there */
    uint64_t commit;
    bool is_renamed;
    int n_kinds, n;
    kind kinds[KINDS];
    int made[KINDS]; /* a number for each index that was ever made */
    uint64_t revision;
    content row[ROWS];
    feed feed[FEEDS];
    content grave[ROWS];
} shot;

static int index_of(const shot *s, kind k)
{
    for (int i = 1; i < s->n_kinds; i++)
        if (s->kinds[i] == k)
            return i;
    return 0;
}

/* Another row that a unique index does not allow beside this one, or -1. */
static int clash_of(const shot *s, int id, const content *c)
{
    for (int i = 1; i < s->n_kinds; i++) {
        kind k = s->kinds[i];
        for (int o = 0; DEFS[k].unique && rank_first(k, c, id) && o < ROWS; o++)
            if (o != id && s->row[o].is_there && rank_first(k, &s->row[o], o) == rank_first(k, c, id))
                return o;
    }
    return -1;
}

static bool is_refused(const shot *s, const content *c)
{
    return c->net == BAD_NET && (index_of(s, BY_NET) || index_of(s, BY_ONE_NET));
}

static bool has_feed(const shot *s)
{
    return s->feed[0].is_there || s->feed[1].is_there;
}

static uint64_t feed_since(const feed *f)
{
    return f->seen > f->born ? f->seen : f->born;
}

/* A feed has moved or gone: the graves that none waits for go. */
static void graves_sweep(shot *s)
{
    uint64_t low = UINT64_MAX;
    for (int i = 0; i < FEEDS; i++)
        if (s->feed[i].is_there && feed_since(&s->feed[i]) < low)
            low = feed_since(&s->feed[i]);
    for (int i = 0; i < ROWS; i++)
        s->grave[i].is_there &= s->grave[i].revision > low;
}

static void shot_put(shot *s, int id, const content *c)
{
    s->n += !s->row[id].is_there;
    s->row[id] = *c;
    s->row[id].is_there = true;
    s->row[id].revision = ++s->revision;
    s->grave[id].is_there = false;
}

static void shot_bury(shot *s, int id)
{
    if (has_feed(s)) {
        s->grave[id] = s->row[id];
        s->grave[id].revision = s->revision;
    }
    s->row[id].is_there = false;
    s->n--;
}

static void shot_delete(shot *s, int id)
{
    s->revision++;
    shot_bury(s, id);
}

/* ---------------------------------------------------------------- what is found */

/* A part of an index: the first column's value, from and to. */
typedef struct span {
    bool is_equal, has_lower, has_upper, lower_open, upper_open;
    content lo, hi;
    int lo_id, hi_id;
} span;

static bool is_between(const span *p, int at, int lo, int hi)
{
    if (p->is_equal)
        return at == lo;
    return !(p->has_lower && (at < lo || (p->lower_open && at == lo))) &&
           !(p->has_upper && (at > hi || (p->upper_open && at == hi)));
}

/* The row's first or last bit in a span, or -1. */
static int bit_within(const span *p, const content *c, bool last)
{
    int found = -1;
    for (int bit = 0; bit < 3; bit++)
        if (c->x >> bit & 1 && is_between(p, bit, p->lo.x % 4, p->hi.x % 4) && (last || found < 0))
            found = bit;
    return found;
}

static bool is_within(const span *p, kind k, const content *c, int id)
{
    if (k == BY_BIT)
        return bit_within(p, c, false) >= 0;
    if (is_lpm(k) && (!c->net || c->net == BAD_NET))
        return false;
    return is_between(p, rank_first(k, c, id), rank_first(k, &p->lo, p->lo_id),
                      rank_first(k, &p->hi, p->hi_id));
}

/* The rows of a span, in the order in which a cursor meets them. */
static int rows_of(const shot *s, kind k, const span *p, bool reverse, int *id)
{
    int n = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!s->row[i].is_there || !is_within(p, k, &s->row[i], i))
            continue;
        int at = n++;
        for (; at > 0; at--) {
            int o = id[at - 1], c;
            if (k == BY_BIT) {
                c = bit_within(p, &s->row[i], reverse) - bit_within(p, &s->row[o], reverse);
                c = c ? c : i - o;
            } else {
                c = compare(k, &s->row[i], i, &s->row[o], o);
            }
            if (is_lpm(k) && p->is_equal ? c > 0 : reverse ? c < 0 : c > 0)
                break; /* the rows of one prefix are read in one direction */
            id[at] = o;
        }
        id[at] = i;
    }
    return n;
}

static bool is_found(sdb_prefix_op op, int net, int wanted)
{
    if (!net || net == BAD_NET || !wanted || wanted == BAD_NET)
        return false;
    switch (op) {
    case SDB_EXACT:
        return covers(net, wanted) && covers(wanted, net);
    case SDB_WITHIN:
        return covers(wanted, net);
    default:
        return covers(net, wanted);
    }
}

/* The bits of the longest prefix that covers one; -1: none does. */
static int longest_of(const shot *s, int wanted)
{
    int longest = -1;
    for (int i = 0; i < ROWS; i++)
        if (s->row[i].is_there && is_found(SDB_COVERS, s->row[i].net, wanted) &&
            bits_of(s->row[i].net) > longest)
            longest = bits_of(s->row[i].net);
    return longest;
}

/* The rows that a search for a prefix finds, in order. */
static int rows_of_prefix(const shot *s, sdb_prefix_op op, int wanted, bool reverse, int *id)
{
    int n = 0, longest = longest_of(s, wanted);
    for (int i = 0; i < ROWS; i++) {
        int net = s->row[i].net;
        if (!s->row[i].is_there || !is_found(op, net, wanted) ||
            (op == SDB_LONGEST && bits_of(net) != longest))
            continue;
        int at = n++;
        for (; at > 0; at--) {
            int o = id[at - 1];
            int c = op == SDB_COVERS ? bits_of(s->row[o].net) - bits_of(net)
                                     : rank_net(net) - rank_net(s->row[o].net);
            if (op == SDB_COVERS && reverse)
                c = -c;
            c = c ? c : i - o;
            if (op == SDB_WITHIN && reverse ? c < 0 : c > 0)
                break;
            id[at] = o;
        }
        id[at] = i;
    }
    return n;
}

#endif
