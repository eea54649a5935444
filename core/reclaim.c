/* reclaim.c - sorting the dead by the newest pin that may still see them (see reclaim.h). */
#include "reclaim.h"

#include "mem.h"
#include "table.h"

#include <assert.h>

/* How many pins are below `time`. */
static size_t pins_below(const sdb_pins *pins, uint64_t time)
{
    size_t lo = 0, hi = pins->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (pins->at[mid] < time)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool sdb_pins_within(const sdb_pins *pins, uint64_t from, uint64_t to)
{
    return pins->is_short || pins_below(pins, from) < pins_below(pins, to);
}

/* The list of what waits at a pin, made where there is none; NULL: no memory. */
static sdb_waiting *waiting_at(sdb_reclaim *r, uint64_t pin)
{
    size_t i = r->n;
    while (i > 0 && r->waiting[i - 1].pin > pin) /* few, and mostly the newest is wanted */
        i--;
    if (i > 0 && r->waiting[i - 1].pin == pin)
        return &r->waiting[i - 1];
    if (r->n == r->room) {
        size_t room = r->room ? r->room * 2 : 8;
        sdb_waiting *w = sdb_realloc(r->waiting, room * sizeof *w);
        if (!w)
            return NULL;
        r->waiting = w;
        r->room = room;
    }
    memmove(r->waiting + i + 1, r->waiting + i, (r->n - i) * sizeof *r->waiting);
    r->n++;
    r->waiting[i] = (sdb_waiting){.pin = pin};
    return &r->waiting[i];
}

/* Free an object, or let it wait at the newest pin below `death` that may see it. False: there is
** no memory for that. */
static bool settle(sdb_table *t, const sdb_pins *pins, sdb_link link, uint64_t death, bool is_counted)
{
    sdb_reclaim *r = &t->reclaim;
    size_t below = pins_below(pins, death), size = sdb_object_size(t, link);
    if (below == 0 || pins->at[below - 1] < sdb_object_stamp(t, link)) {
        if (is_counted)
            sdb_count(&r->bytes, -(uint64_t)size);
        sdb_arena_free(&t->arena, link, size);
        return true;
    }
    sdb_waiting *w = waiting_at(r, pins->at[below - 1]);
    if (!w || sdb_links_reserve(&w->links, 1) != SDB_OK)
        return false;
    sdb_links_push(&w->links, link);
    w->bytes += size;
    if (!is_counted)
        sdb_count(&r->bytes, size);
    return true;
}

/* Settle each of a list; what cannot be stays in it. */
static void settle_all(sdb_table *t, const sdb_pins *pins, sdb_links *links, uint64_t death,
                       bool is_counted)
{
    enum { AHEAD = 8 }; /* they are far from each other */
    size_t kept = 0;
    for (size_t i = 0; i < links->n; i++) {
        if (i + AHEAD < links->n)
            __builtin_prefetch(sdb_at(t->arena.base, links->at[i + AHEAD]), 1);
        if (!settle(t, pins, links->at[i], death, is_counted))
            links->at[kept++] = links->at[i];
    }
    links->n = kept;
}

/* Look again at what waits at pins that have gone. What is not freed goes to a pin that is there,
** so each list is met once. */
static void waiting_run(sdb_table *t, const sdb_pins *pins)
{
    sdb_reclaim *r = &t->reclaim;
    for (size_t i = 0; i < r->n;) {
        uint64_t pin = r->waiting[i].pin;
        if (sdb_pins_within(pins, pin, pin + 1)) {
            i++;
            continue;
        }
        sdb_links links = r->waiting[i].links;
        r->waiting[i].links = (sdb_links){0};
        r->waiting[i].bytes = 0;
        settle_all(t, pins, &links, pin, true);
        for (i = 0; r->waiting[i].pin != pin;) /* lists may have been made below it */
            i++;
        if (links.n > 0) { /* no memory: the next time */
            for (size_t k = 0; k < links.n; k++)
                r->waiting[i].bytes += sdb_object_size(t, links.at[k]);
            r->waiting[i++].links = links;
            continue;
        }
        sdb_links_fini(&links);
        r->n--;
        memmove(r->waiting + i, r->waiting + i + 1, (r->n - i) * sizeof *r->waiting);
    }
}

static void dead_run(sdb_table *t, const sdb_pins *pins)
{
    for (sdb_dead **p = &t->reclaim.dead; *p;) {
        sdb_dead *dead = *p;
        settle_all(t, pins, &dead->links, dead->death, dead->is_counted);
        if (dead->links.n == 0) {
            *p = dead->next;
            sdb_dead_free(dead);
            continue;
        }
        for (size_t i = 0; !dead->is_counted && i < dead->links.n; i++)
            sdb_count(&t->reclaim.bytes, sdb_object_size(t, dead->links.at[i]));
        dead->is_counted = true;
        p = &dead->next;
    }
}

void sdb_reclaim_left(sdb_table *t, bool (*is_seen)(const void *ctx, uint64_t from, uint64_t to),
                      const void *ctx)
{
    for (sdb_version **p = &t->reclaim.left; *p;) {
        sdb_version *v = *p;
        if (is_seen(ctx, v->born + 1, v->died)) {
            p = &v->next;
            continue;
        }
        *p = v->next;
        sdb_version_free_after(v, v->born);
        sdb_version_free(v);
    }
}

/* As with the dead, what counts for a left version is the newest pin that may see it, of those there are now. One
** that comes later, of a cursor on another table, may have a number between; what the version hangs on would
** not wait for that. */
static void left_settle(sdb_table *t, const sdb_pins *pins)
{
    for (sdb_version *v = t->reclaim.left; v; v = v->next) {
        size_t below = pins_below(pins, v->died);
        v->died = below ? pins->at[below - 1] + 1 : 0;
    }
}

static bool is_pinned(const void *ctx, uint64_t from, uint64_t to)
{
    return sdb_pins_within(ctx, from, to);
}

void sdb_reclaim_run(sdb_table *t, const sdb_pins *pins, sdb_links *dead, uint64_t death,
                     sdb_dead **room)
{
    if (!pins->is_short) {
        left_settle(t, pins);
        sdb_reclaim_left(t, is_pinned, pins); /* first: it reads nodes that only pins now gone kept */
        waiting_run(t, pins);
        dead_run(t, pins);
        if (dead)
            settle_all(t, pins, dead, death, false);
        sdb_arena_trim(&t->arena);
    }
    if (!dead || dead->n == 0)
        return;
    **room = (sdb_dead){.next = t->reclaim.dead, .death = death, .links = *dead};
    t->reclaim.dead = *room;
    *room = NULL;
    *dead = (sdb_links){0};
}

uint64_t sdb_reclaim_bytes_at(const sdb_reclaim *r, uint64_t pin)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->waiting[i].pin == pin)
            return r->waiting[i].bytes;
    return 0;
}

void sdb_dead_free(sdb_dead *dead)
{
    if (dead)
        sdb_links_fini(&dead->links);
    sdb_free(dead);
}

void sdb_reclaim_fini(sdb_reclaim *r)
{
    for (size_t i = 0; i < r->n; i++)
        sdb_links_fini(&r->waiting[i].links);
    sdb_free(r->waiting);
    while (r->dead) {
        sdb_dead *dead = r->dead;
        r->dead = dead->next;
        sdb_dead_free(dead);
    }
    while (r->left) {
        sdb_version *v = r->left;
        r->left = v->next;
        sdb_version_free(v);
    }
}
