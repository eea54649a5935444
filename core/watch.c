/* watch.c - watches: registering, finding, firing, waiting (see watch.h). */
#define _GNU_SOURCE
#include "watch.h"

#include "key.h"
#include "lpm_index.h"
#include "mem.h"
#include "multi_index.h"
#include "wait.h"

#include <assert.h>

struct sdb_watch {
    sdb_db *db;
    sdb_table *table; /* counted, like the index, from arming to disarming; NULL: not armed */
    sdb_index *index;
    sdb_buf range; /* where it begins, range[0..n_lo), and where it ends: the rest; none: it does not */
    size_t n_lo;
    enum { WATCH_KEYS, WATCH_COVERS, WATCH_WITHIN } what;
    sdb_prefix prefix; /* in a prefix index: tell of those that cover it, or those that it covers, */
    unsigned bits;     /* of no fewer bits than these */
    _Atomic bool is_fired;
    bool is_listed;               /* among its index's watches */
    bool is_touched;              /* in its table's list */
    sdb_watch *next_touched;
    sdb_watch *open_prev, *open_next;
    sdb_watch_set *set;           /* NULL: none */
    sdb_watch *prev, *next;       /* in the set */
    pthread_cond_t cond;
    int fd[2]; /* sdb_fd_open's; -1: not asked for */
    int tell;  /* somebody else's, to be raised as well */
};

struct sdb_watch_set {
    sdb_db *db;
    sdb_watch *first;
    pthread_cond_t cond;
};

/* ---------------------------------------------------------------- ranges */

static bool is_open(const sdb_watch *w)
{
    return w->range.n == w->n_lo;
}

static int begin_compare(const sdb_watch *w, const uint8_t *key, size_t len)
{
    return sdb_key_compare(w->range.at, w->n_lo, key, len);
}

static int end_compare(const sdb_watch *w, const uint8_t *key, size_t len)
{
    return sdb_key_compare(sdb_buf_at(&w->range, w->n_lo), w->range.n - w->n_lo, key, len);
}

static const sdb_watch *later_end(const sdb_watch *a, const sdb_watch *b)
{
    return end_compare(a, b->range.at + b->n_lo, b->range.n - b->n_lo) >= 0 ? a : b;
}

/* A watch on prefixes stands where the addresses of its prefix are: a family and an address is a key.
** Two prefixes have addresses in common only where one covers the other. */
enum { PREFIX_KEY = 1 + sizeof((sdb_prefix){0}.addr) };

static void prefix_ends(const sdb_prefix *p, uint8_t first[PREFIX_KEY], uint8_t last[PREFIX_KEY])
{
    first[0] = last[0] = p->family;
    for (unsigned i = 0; i < sizeof p->addr; i++) {
        unsigned bits = p->bits > 8 * i ? p->bits - 8 * i : 0; /* that are the prefix's in this byte */
        first[1 + i] = p->addr[i];
        last[1 + i] = (uint8_t)(p->addr[i] | (bits < 8 ? 0xff >> bits : 0));
    }
}

/* Whether a change of a prefix (of a key: NULL) concerns a watch whose range it meets. */
static bool is_told(const sdb_watch *w, const sdb_prefix *p)
{
    switch (w->what) {
    case WATCH_COVERS:
        return p->bits >= w->bits && sdb_prefix_covers(p, &w->prefix);
    case WATCH_WITHIN:
        return sdb_prefix_covers(&w->prefix, p);
    default:
        return true;
    }
}

/* ---------------------------------------------------------------- the watches of an index */

/* Fill reach from a place on. */
static void reach_fill(sdb_watches *all, size_t from)
{
    for (size_t i = from; i < all->n; i++)
        all->reach[i] = i ? (sdb_watch *)(uintptr_t)later_end(all->reach[i - 1], all->at[i])
                          : all->at[i];
}

static int watches_reserve(sdb_watches *all)
{
    if (all->n < all->room)
        return SDB_OK;
    size_t room = all->room ? all->room * 2 : 8;
    sdb_watch **at = sdb_malloc(2 * room * sizeof *at);
    if (!at)
        return SDB_NOMEM;
    if (all->n) {
        memcpy(at, all->at, all->n * sizeof *at);
        memcpy(at + room, all->reach, all->n * sizeof *at);
    }
    sdb_free(all->at);
    all->at = at;
    all->reach = at + room;
    all->room = room;
    return SDB_OK;
}

/* How many ranges begin at or before a key. */
static size_t watches_before(const sdb_watches *all, const uint8_t *key, size_t len)
{
    size_t lo = 0, hi = all->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (begin_compare(all->at[mid], key, len) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* There is room. */
static void watches_add(sdb_watches *all, sdb_watch *w)
{
    w->is_listed = true;
    if (is_open(w)) {
        w->open_prev = NULL;
        w->open_next = all->open;
        if (all->open)
            all->open->open_prev = w;
        all->open = w;
        return;
    }
    size_t i = watches_before(all, w->range.at, w->n_lo);
    memmove(all->at + i + 1, all->at + i, (all->n - i) * sizeof *all->at);
    all->at[i] = w;
    all->n++;
    reach_fill(all, i);
}

/* Take out a watch and all others that have fired. */
static void watches_remove(sdb_watches *all, sdb_watch *w)
{
    if (!w->is_listed)
        return;
    w->is_listed = false;
    if (is_open(w)) {
        if (w->open_prev)
            w->open_prev->open_next = w->open_next;
        else
            all->open = w->open_next;
        if (w->open_next)
            w->open_next->open_prev = w->open_prev;
        return;
    }
    size_t kept = 0, first = all->n;
    for (size_t i = 0; i < all->n; i++) {
        sdb_watch *other = all->at[i];
        if (other != w && !atomic_load_explicit(&other->is_fired, memory_order_relaxed)) {
            all->at[kept++] = other;
            continue;
        }
        other->is_listed = false;
        first = first < i ? first : i;
    }
    all->n = kept;
    reach_fill(all, first < kept ? first : kept);
}

/* ---------------------------------------------------------------- touching and firing */

static void touch(sdb_watch *w)
{
    if (w->is_touched)
        return;
    w->is_touched = true;
    w->next_touched = w->table->touched;
    w->table->touched = w;
}

/* Those whose range meets [first, last]; of those on prefixes, whom this one concerns. */
static void touch_between(const sdb_index *index, sdb_bytes first, sdb_bytes last, const sdb_prefix *p)
{
    const sdb_watches *all = &index->watches;
    for (sdb_watch *w = all->open; w; w = w->open_next)
        if (begin_compare(w, last.at, last.n) <= 0)
            touch(w);
    for (size_t i = watches_before(all, last.at, last.n); i-- > 0;) {
        if (end_compare(all->reach[i], first.at, first.n) <= 0)
            break;
        if (end_compare(all->at[i], first.at, first.n) > 0 && is_told(all->at[i], p))
            touch(all->at[i]);
    }
}

static void touch_key(const sdb_index *index, const uint8_t *key, size_t len)
{
    sdb_bytes only = {key, len};
    touch_between(index, only, only, NULL);
}

static void touch_prefix(const sdb_index *index, const sdb_prefix *p)
{
    uint8_t first[PREFIX_KEY], last[PREFIX_KEY];
    prefix_ends(p, first, last);
    touch_between(index, (sdb_bytes){first, PREFIX_KEY}, (sdb_bytes){last, PREFIX_KEY}, p);
}

/* What a row has in an index: a key, or a set of them. */
static void touch_keys(const sdb_index *index, int i, const sdb_keys *keys)
{
    size_t len;
    if (index->def.kind == SDB_MULTI) {
        sdb_set set = sdb_keys_set(keys, i);
        for (const sdb_key_item *item; (item = sdb_set_next(&set)) != NULL;)
            touch_key(index, item->key, item->n);
        return;
    }
    const uint8_t *key = sdb_key_at(keys, i, &len);
    if (index->def.kind != SDB_LPM) {
        touch_key(index, key, len);
    } else if (len > 0) { /* else the row is not in it */
        sdb_prefix p;
        memcpy(&p, key, sizeof p);
        touch_prefix(index, &p);
    }
}

void sdb_watch_touch(sdb_table *table, const sdb_indexes *set, const sdb_keys *keys,
                     const sdb_keys *old_keys)
{
    pthread_mutex_lock(&table->db->watch_mutex);
    for (int i = 0; i < set->n; i++) {
        const sdb_index *index = set->at[i];
        if (!index->watches.n && !index->watches.open)
            continue;
        if (keys)
            touch_keys(index, i, keys);
        if (old_keys && !(old_keys->is_same >> i & 1))
            touch_keys(index, i, old_keys);
    }
    pthread_mutex_unlock(&table->db->watch_mutex);
}

void sdb_watch_touch_index(sdb_table *table, sdb_index *index)
{
    if (!atomic_load_explicit(&table->n_watches, memory_order_relaxed))
        return;
    pthread_mutex_lock(&table->db->watch_mutex);
    for (sdb_watch *w = index->watches.open; w; w = w->open_next)
        touch(w);
    for (size_t i = 0; i < index->watches.n; i++)
        touch(index->watches.at[i]);
    pthread_mutex_unlock(&table->db->watch_mutex);
}

static void fire(sdb_watch *w)
{
    atomic_store(&w->is_fired, true);
    pthread_cond_broadcast(&w->cond);
    if (w->set)
        pthread_cond_broadcast(&w->set->cond);
    sdb_fd_raise(w->fd[1]);
    sdb_fd_raise(w->tell);
}

void sdb_watch_settle(sdb_table *table, bool is_commit)
{
    if (!atomic_load_explicit(&table->n_watches, memory_order_relaxed))
        return;
    pthread_mutex_lock(&table->db->watch_mutex);
    sdb_watch *touched = table->touched;
    table->touched = NULL;
    for (sdb_watch *w = touched; w; w = w->next_touched) {
        w->is_touched = false;
        if (is_commit)
            fire(w);
    }
    for (sdb_watch *w = touched; w && is_commit; w = w->next_touched) {
        watches_remove(&w->index->watches, w); /* all that have fired, with the first of an index */
        atomic_fetch_sub_explicit(&table->n_watches, 1, memory_order_relaxed);
        sdb_count(&table->count[SDB_N_WATCHES_FIRED], 1);
    }
    pthread_mutex_unlock(&table->db->watch_mutex);
}

/* ---------------------------------------------------------------- watches */

int sdb_watch_new(sdb_db *db, sdb_watch **out)
{
    sdb_watch *w = sdb_zalloc(sizeof *w);
    if (!w || sdb_cond_init(&w->cond) != 0) {
        sdb_free(w);
        return SDB_NOMEM;
    }
    w->db = sdb_ref(db);
    w->fd[0] = w->fd[1] = w->tell = -1;
    *out = w;
    return SDB_OK;
}

void sdb_watch_disarm(sdb_watch *w)
{
    if (!w->table)
        return;
    sdb_table *table = w->table;
    pthread_mutex_lock(&w->db->watch_mutex);
    if (w->is_listed) {
        watches_remove(&w->index->watches, w);
        atomic_fetch_sub_explicit(&table->n_watches, 1, memory_order_relaxed);
    }
    for (sdb_watch **p = &table->touched; w->is_touched; p = &(*p)->next_touched) {
        if (*p == w) {
            *p = w->next_touched;
            w->is_touched = false;
            break;
        }
    }
    pthread_mutex_unlock(&w->db->watch_mutex);
    w->table = NULL;
    sdb_index_unref(w->index);
    sdb_table_unref(table);
}

void sdb_watch_free(sdb_watch *w)
{
    if (!w)
        return;
    sdb_watch_disarm(w);
    if (w->set)
        sdb_watch_set_remove(w->set, w);
    sdb_fd_close(w->fd);
    pthread_cond_destroy(&w->cond);
    sdb_buf_fini(&w->range);
    sdb_unref(w->db);
    sdb_free(w);
}

/* The range is set. */
static int watch_arm(sdb_watch *w, const sdb_version *v, sdb_index *on)
{
    sdb_db *db = w->db;
    pthread_mutex_lock(&db->mutex);
    pthread_mutex_lock(&db->watch_mutex);
    int rc = watches_reserve(&on->watches);
    if (rc == SDB_OK) {
        sdb_fd_clear(w->fd);
        atomic_store(&w->is_fired, false);
        w->table = sdb_table_ref(v->table);
        w->index = sdb_index_ref(on);
        sdb_count(&w->table->count[SDB_N_WATCHES_ARMED], 1);
        if (sdb_root_version(atomic_load(&db->root), w->table) != v) {
            sdb_count(&w->table->count[SDB_N_WATCHES_FIRED], 1);
            fire(w);
        } else {
            watches_add(&on->watches, w);
            atomic_fetch_add_explicit(&w->table->n_watches, 1, memory_order_relaxed);
            if (atomic_load_explicit(&w->table->owner, memory_order_relaxed))
                touch(w); /* it may have changed or dropped what we did not see it change */
        }
    }
    pthread_mutex_unlock(&db->watch_mutex);
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

/* The version and the index to watch; what the watch was armed for is forgotten. */
static int watch_begin(sdb_watch *w, const sdb_snapshot *snap, const sdb_table *table, int index,
                       const sdb_version **v)
{
    *v = sdb_snapshot_version(snap, table);
    if (!*v || table->db != w->db || index < 0 || index >= (*v)->set->n)
        return SDB_MISUSE;
    sdb_watch_disarm(w);
    w->what = WATCH_KEYS;
    return SDB_OK;
}

static int range_set(sdb_watch *w, const void *lo, size_t n_lo, const void *hi, size_t n_hi)
{
    w->range.n = 0;
    int rc = sdb_buf_reserve(&w->range, n_lo + n_hi);
    if (rc != SDB_OK)
        return rc;
    memcpy(w->range.at, lo, n_lo);
    memcpy(w->range.at + n_lo, hi, n_hi);
    w->n_lo = n_lo;
    w->range.n = n_lo + n_hi;
    return SDB_OK;
}

/* It is only told when the index goes. */
static int watch_arm_empty(sdb_watch *w, const sdb_version *v, sdb_index *on)
{
    int rc = range_set(w, "\xff", 1, "\xff", 1);
    return rc == SDB_OK ? watch_arm(w, v, on) : rc;
}

int sdb_watch_arm(sdb_watch *w, const sdb_snapshot *snap, sdb_table *table, int index,
                  const sdb_range *range)
{
    const sdb_version *v;
    int rc = watch_begin(w, snap, table, index, &v);
    if (rc != SDB_OK)
        return rc;
    sdb_index *on = v->set->at[index];
    if (on->def.kind == SDB_LPM) {
        if (range->n_eq > 1 || range->lower || range->upper)
            return SDB_MISUSE;
        if (range->n_eq)
            return sdb_watch_arm_prefix(w, snap, table, index, SDB_EXACT, range->eq);
        w->range.n = w->n_lo = 0; /* all of it */
    } else {
        rc = sdb_index_bounds(on, range, &w->range, &w->n_lo);
    }
    if (rc == SDB_DONE)
        return watch_arm_empty(w, v, on);
    return rc == SDB_OK ? watch_arm(w, v, on) : rc;
}

/* Of the longest prefix that covers one; 0 where there is none, for then the shortest would be it. */
static int longest_bits(const sdb_version *v, int index, const sdb_prefix *p, unsigned *bits)
{
    const uint8_t *base = v->table->arena.base;
    sdb_link row = sdb_lpm_index_first(base, sdb_lpm_match(base, v->root[index], p));
    *bits = 0;
    if (!row)
        return SDB_OK;
    sdb_buf key = {0};
    int rc = sdb_index_row_key(v->set->at[index], sdb_row_at(v->table, row), &key);
    if (rc == SDB_OK)
        *bits = ((const sdb_prefix *)(const void *)key.at)->bits;
    sdb_buf_fini(&key);
    return rc;
}

int sdb_watch_arm_prefix(sdb_watch *w, const sdb_snapshot *snap, sdb_table *table, int index,
                         sdb_prefix_op op, const sdb_value *prefix)
{
    const sdb_version *v;
    int rc = watch_begin(w, snap, table, index, &v);
    if (rc != SDB_OK)
        return rc;
    sdb_index *on = v->set->at[index];
    if (on->def.kind != SDB_LPM || op > SDB_WITHIN)
        return SDB_MISUSE;
    if (prefix->type == SDB_NULL)
        return watch_arm_empty(w, v, on);
    if (sdb_prefix_from(prefix, &w->prefix))
        return SDB_NOTPREFIX;
    uint8_t first[PREFIX_KEY], last[PREFIX_KEY + 1] = {0}; /* and behind the last address */
    prefix_ends(&w->prefix, first, last);
    rc = range_set(w, first, sizeof first, last, sizeof last);
    w->what = op == SDB_WITHIN ? WATCH_WITHIN : WATCH_COVERS;
    w->bits = op == SDB_EXACT ? w->prefix.bits : 0;
    if (rc == SDB_OK && op == SDB_LONGEST)
        rc = longest_bits(v, index, &w->prefix, &w->bits);
    return rc == SDB_OK ? watch_arm(w, v, on) : rc;
}

bool sdb_watch_fired(const sdb_watch *w)
{
    return atomic_load(&w->is_fired);
}

int sdb_watch_wait(sdb_watch *w, int64_t timeout_ms)
{
    int64_t deadline = sdb_deadline(timeout_ms);
    if (!w->table && !atomic_load(&w->is_fired))
        return SDB_MISUSE; /* nothing would ever fire it */
    pthread_mutex_lock(&w->db->watch_mutex);
    while (!atomic_load(&w->is_fired) && sdb_cond_wait(&w->cond, &w->db->watch_mutex, deadline))
        ;
    pthread_mutex_unlock(&w->db->watch_mutex);
    return atomic_load(&w->is_fired) ? SDB_OK : SDB_DONE;
}

int sdb_watch_fd(sdb_watch *w)
{
    pthread_mutex_lock(&w->db->watch_mutex);
    if (w->fd[0] < 0 && sdb_fd_open(w->fd) && atomic_load(&w->is_fired))
        sdb_fd_raise(w->fd[1]);
    pthread_mutex_unlock(&w->db->watch_mutex);
    return w->fd[0];
}

void sdb_watch_tell(sdb_watch *w, int fd)
{
    pthread_mutex_lock(&w->db->watch_mutex);
    w->tell = fd;
    if (atomic_load(&w->is_fired))
        sdb_fd_raise(fd);
    pthread_mutex_unlock(&w->db->watch_mutex);
}

/* ---------------------------------------------------------------- sets */

int sdb_watch_set_new(sdb_db *db, sdb_watch_set **out)
{
    sdb_watch_set *set = sdb_zalloc(sizeof *set);
    if (!set || sdb_cond_init(&set->cond) != 0) {
        sdb_free(set);
        return SDB_NOMEM;
    }
    set->db = sdb_ref(db);
    *out = set;
    return SDB_OK;
}

void sdb_watch_set_free(sdb_watch_set *set)
{
    if (!set)
        return;
    sdb_watch_set_clear(set);
    pthread_cond_destroy(&set->cond);
    sdb_unref(set->db);
    sdb_free(set);
}

/* Under the watch_mutex. */
static void set_unlink(sdb_watch *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        w->set->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->set = NULL;
}

static void set_link(sdb_watch_set *set, sdb_watch *w)
{
    if (w->set)
        set_unlink(w);
    w->set = set;
    w->prev = NULL;
    w->next = set->first;
    if (w->next)
        w->next->prev = w;
    set->first = w;
}

int sdb_watch_set_add(sdb_watch_set *set, sdb_watch *w)
{
    if (w->db != set->db)
        return SDB_MISUSE;
    pthread_mutex_lock(&set->db->watch_mutex);
    set_link(set, w);
    pthread_cond_broadcast(&set->cond); /* it may have fired already */
    pthread_mutex_unlock(&set->db->watch_mutex);
    return SDB_OK;
}

void sdb_watch_set_remove(sdb_watch_set *set, sdb_watch *w)
{
    pthread_mutex_lock(&set->db->watch_mutex);
    if (w->set == set)
        set_unlink(w);
    pthread_mutex_unlock(&set->db->watch_mutex);
}

void sdb_watch_set_clear(sdb_watch_set *set)
{
    pthread_mutex_lock(&set->db->watch_mutex);
    while (set->first)
        set_unlink(set->first);
    pthread_mutex_unlock(&set->db->watch_mutex);
}

bool sdb_watch_set_has(const sdb_watch_set *set, const sdb_watch *w)
{
    pthread_mutex_lock(&set->db->watch_mutex);
    bool has = w->set == set;
    pthread_mutex_unlock(&set->db->watch_mutex);
    return has;
}

int sdb_watch_set_merge(sdb_watch_set *set, sdb_watch_set *from)
{
    if (from->db != set->db)
        return SDB_MISUSE;
    pthread_mutex_lock(&set->db->watch_mutex);
    while (set != from && from->first)
        set_link(set, from->first);
    pthread_cond_broadcast(&set->cond);
    pthread_mutex_unlock(&set->db->watch_mutex);
    return SDB_OK;
}

/* Under the watch_mutex: take out those that have fired. */
static void set_gather(sdb_watch_set *set, sdb_watch **out, int room, int *n)
{
    for (sdb_watch *w = set->first; w && *n < room;) {
        sdb_watch *next = w->next;
        if (atomic_load(&w->is_fired)) {
            set_unlink(w);
            out[(*n)++] = w;
        }
        w = next;
    }
}

int sdb_watch_set_wait(sdb_watch_set *set, int64_t timeout_ms, int64_t settle_ms, sdb_watch **out,
                       int room, int *n)
{
    int64_t deadline = sdb_deadline(timeout_ms);
    bool in_time = true;
    *n = 0;
    if (room < 1)
        return SDB_MISUSE;
    if (settle_ms <= 0 && room > 1)
        room = 1;
    pthread_mutex_lock(&set->db->watch_mutex);
    for (set_gather(set, out, room, n); *n == 0 && in_time; set_gather(set, out, room, n))
        in_time = sdb_cond_wait(&set->cond, &set->db->watch_mutex, deadline);
    if (*n > 0 && settle_ms > 0) { /* all of the time, even when none is left: as said */
        int64_t settled = sdb_deadline(settle_ms);
        if (settled > deadline)
            settled = deadline;
        while (sdb_cond_wait(&set->cond, &set->db->watch_mutex, settled))
            set_gather(set, out, room, n);
        set_gather(set, out, room, n);
    }
    pthread_mutex_unlock(&set->db->watch_mutex);
    return *n > 0 ? SDB_OK : SDB_DONE;
}
