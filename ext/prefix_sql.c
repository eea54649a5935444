/* prefix_sql.c - prefixes in SQL: the functions on IP, MAC and bit prefixes.
**
** What a prefix is, core/prefix.h says. The functions that compare two of them call it an error when
** a value is no prefix, as an index on prefixes does: no row would ever match 10.0.0.300, and nobody
** would know why. Those that take a prefix apart give NULL, so that there is a way to ask. */
#include "cursor.h"

#include "../core/prefix.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* ---------------------------------------------------------------- arguments */

/* An argument as a value; not one to go on with: NULL, or no memory for its text, which is the result
** then. */
static bool argument_get(sqlite3_context *ctx, sqlite3_value *in, sdb_value *out)
{
    if (value_get(in, out) == SQLITE_OK)
        return out->type != SDB_NULL;
    sqlite3_result_error_nomem(ctx);
    return false;
}

/* The prefixes of the two arguments of a comparison. When one of them is none, the result is an
** error, whatever the other one is; with NULL it is NULL. */
static bool arguments_get(sqlite3_context *ctx, sqlite3_value **argv, sdb_prefix out[2])
{
    const index_function *f = sqlite3_user_data(ctx);
    bool is_all = true;

    for (int i = 0; i < 2; i++) {
        sdb_value v;
        const char *wrong;
        char *text;
        if (!argument_get(ctx, argv[i], &v)) {
            is_all = false;
            continue;
        }
        wrong = sdb_prefix_from(&v, &out[i]);
        if (!wrong)
            continue;
        text = function_complaint(f, &v, wrong);
        if (text)
            sqlite3_result_error(ctx, text, -1);
        else
            sqlite3_result_error_nomem(ctx);
        sqlite3_free(text);
        return false;
    }
    return is_all;
}

/* The prefix of an argument that may be something else; the result is NULL then. */
static bool argument_is_prefix(sqlite3_context *ctx, sqlite3_value *in, sdb_prefix *out)
{
    sdb_value v;

    return argument_get(ctx, in, &v) && !sdb_prefix_from(&v, out);
}

static void result_prefix(sqlite3_context *ctx, const sdb_prefix *p)
{
    char text[SDB_PREFIX_TEXT];
    size_t n = sdb_prefix_print(p, text);

    sqlite3_result_text(ctx, text, (int)n, SQLITE_TRANSIENT);
}

/* ---------------------------------------------------------------- comparisons */

/* statedb_lpm(net, x): true of the rows of the longest prefix that covers x, in the whole table. So
** only the table can answer (plan.c); when this is called, it was not asked. */
void prefix_lpm(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_error(ctx,
                         "statedb_lpm(net, x) looks at the whole table: it is a condition, beside "
                         "others (AND), on a column of a statedb table that is read when x is known; "
                         "elsewhere write "
                         "statedb_covers(net, x) ORDER BY statedb_masklen(net) DESC LIMIT 1",
                         -1);
}

/* statedb_covers(net, x): whether net is x or contains it. */
void prefix_covers(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sdb_prefix p[2];

    (void)argc;
    if (arguments_get(ctx, argv, p))
        sqlite3_result_int(ctx, sdb_prefix_covers(&p[0], &p[1]));
}

/* statedb_within(net, p): whether net is p or within it. */
void prefix_within(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sdb_prefix p[2];

    (void)argc;
    if (arguments_get(ctx, argv, p))
        sqlite3_result_int(ctx, sdb_prefix_covers(&p[1], &p[0]));
}

/* ---------------------------------------------------------------- the cursor's part */

/* An argument or value that is no prefix ends the statement as the function itself would. */
static int filter_refuse(cursor *cur, const sdb_value *v, const char *wrong)
{
    sqlite3_vtab *vtab = cur->base.pVtab;

    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = function_complaint(cur->plan->function, v, wrong);
    return vtab->zErrMsg ? SQLITE_ERROR : SQLITE_NOMEM;
}

/* What is looked for without an index. */
typedef struct prefix_scan {
    sdb_prefix_op op;
    sdb_prefix x;
    int longest; /* that has been found */
} prefix_scan;

static int scan_see(cursor *cur, const sdb_row *row, const sdb_value *v, void *arg)
{
    prefix_scan *s = arg;
    sdb_prefix net;
    const char *wrong = v->type == SDB_NULL ? NULL : sdb_prefix_from(v, &net);

    if (wrong)
        return filter_refuse(cur, v, wrong);
    if (v->type == SDB_NULL ||
        !(s->op == SDB_WITHIN ? sdb_prefix_covers(&s->x, &net) : sdb_prefix_covers(&net, &s->x)))
        return SQLITE_OK;
    if (s->op == SDB_LONGEST) {
        if (net.bits < s->longest)
            return SQLITE_OK;
        if (net.bits > s->longest)
            cur->n_gathered = 0;
        s->longest = net.bits;
    }
    return cursor_gather(cur, row);
}

int prefix_filter(cursor *cur, sqlite3_value *in)
{
    sdb_prefix_op op = (sdb_prefix_op)cur->plan->function->op;
    prefix_scan scan = {.op = op, .longest = -1};
    const char *wrong;
    sdb_value v;
    int rc = value_get(in, &v);

    if (rc != SQLITE_OK || v.type == SDB_NULL)
        return rc;
    if (cur->index != SDB_BY_ROWID) {
        rc = sdb_cursor_seek_prefix(cur->core, op, &v, false);
        if (rc != SDB_NOTPREFIX) {
            cur->row = rc == SDB_OK ? sdb_cursor_row(cur->core) : NULL;
            if (rc < 0)
                return error_core(cursor_vtable(cur), rc);
            if (op == SDB_LONGEST)
                ahead_ask(cur, &v, 1);
            return is_watched(cur) ? watch_prefix(cur, op, &v) : SQLITE_OK;
        }
    }
    wrong = sdb_prefix_from(&v, &scan.x);
    return wrong ? filter_refuse(cur, &v, wrong) : cursor_scan(cur, scan_see, &scan);
}

/* ---------------------------------------------------------------- parts of a prefix */

/* statedb_net(x): the prefix in its one form, '10.0.0.0/8' of '10.1.2.3/8'. */
static void net_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sdb_prefix p;

    (void)argc;
    if (argument_is_prefix(ctx, argv[0], &p))
        result_prefix(ctx, &p);
}

/* statedb_host(x): the address without the length, '10.1.2.3' of '10.1.2.3/8'. */
static void host_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sdb_value v;
    sdb_prefix p;

    (void)argc;
    if (!argument_get(ctx, argv[0], &v))
        return;
    if (!(v.type == SDB_TEXT ? sdb_prefix_parse_address(v.u.p, v.n, &p) : sdb_prefix_from(&v, &p)))
        result_prefix(ctx, &p);
}

/* statedb_masklen(x): the bits of the prefix. */
static void masklen_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    sdb_prefix p;

    (void)argc;
    if (argument_is_prefix(ctx, argv[0], &p))
        sqlite3_result_int(ctx, p.bits);
}

/* statedb_family(x) */
static void family_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    static const char *const names[SDB_FAMILIES] = {"ipv4", "ipv6", "mac", "bits"};
    sdb_prefix p;

    (void)argc;
    if (argument_is_prefix(ctx, argv[0], &p))
        sqlite3_result_text(ctx, names[p.family], -1, SQLITE_STATIC);
}

/* Bytes that order as prefixes do in an index: by family, bit by bit, a prefix before what it covers. */
enum { KEY_MAX = 2 + sizeof((sdb_prefix *)0)->addr };

static int key_make(const sdb_prefix *p, uint8_t key[KEY_MAX])
{
    unsigned bytes = (sdb_family_bits(p->family) + 7) / 8;

    key[0] = p->family;
    memcpy(key + 1, p->addr, bytes);
    key[1 + bytes] = p->bits;
    return (int)bytes + 2;
}

/* statedb_net_key(x): these bytes, as a blob. */
static void net_key_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    uint8_t key[KEY_MAX];
    sdb_prefix p;

    (void)argc;
    if (argument_is_prefix(ctx, argv[0], &p))
        sqlite3_result_blob(ctx, key, key_make(&p, key), SQLITE_TRANSIENT);
}

/* statedb_net_cmp(a, b): -1, 0 or 1 in the same order. */
static void net_cmp_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    uint8_t a[KEY_MAX], b[KEY_MAX];
    sdb_prefix p, q;

    (void)argc;
    if (!argument_is_prefix(ctx, argv[0], &p) || !argument_is_prefix(ctx, argv[1], &q))
        return;
    int n_a = key_make(&p, a), n_b = key_make(&q, b);
    int c = memcmp(a, b, (size_t)(n_a < n_b ? n_a : n_b)); /* of one family they are as long */
    sqlite3_result_int(ctx, (c > 0) - (c < 0));
}

int prefix_functions_register(sqlite3 *db)
{
    static const struct {
        const char *name;
        int n_args;
        void (*function)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"statedb_net", 1, net_function},         {"statedb_host", 1, host_function},
        {"statedb_masklen", 1, masklen_function}, {"statedb_family", 1, family_function},
        {"statedb_net_key", 1, net_key_function}, {"statedb_net_cmp", 2, net_cmp_function},
    };
    int rc = SQLITE_OK;

    for (size_t i = 0; !rc && i < sizeof functions / sizeof *functions; i++)
        rc = sqlite3_create_function_v2(db, functions[i].name, functions[i].n_args,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
                                        functions[i].function, NULL, NULL, NULL);
    return rc;
}
