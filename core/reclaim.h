/* reclaim.h - when the memory of a row or node that the newest version has lost is free again.
**
** Time is the store's clock: a counter that every transaction state and every commit takes a number
** from. A pin is a number too: the commit that a snapshot sees, or the moment a cursor looked at its
** own transaction. An object carries its stamp, the moment it was made; it dies with the commit that
** no longer has it. Then
**
**     a pin p can see an object only if  stamp <= p < death,
**
** since whatever a pin sees was made before it and is not yet dead. (Not "exactly if": an object of
** a transaction that was still open at p is below its commit. It is kept a little longer than
** needed, never less.) So an object is freed as soon as no pin lies in [stamp, death): a reader that
** stays for an hour keeps what it can see and nothing else, however much is born and dies behind it.
** Epochs and LMDB's oldest-reader rule keep all of that too.
**
** A dead object waits at the newest pin that may see it, and is looked at again only when that pin
** has gone; then it is freed, or waits at the next older one. Pins are made at the newest commit, so none
** that sees it appears below; only the numbers of cursors that outlive their transactions do, and these see
** nothing of a table but what they held in it already. Each object is looked at once for each pin that has
** kept it.
**
** All of it is guarded by the table's write lock. Nothing here can fail: where there is no memory to
** sort the dead by, they stay in the list they are in and are looked at again the next time. */
#ifndef SDB_RECLAIM_H
#define SDB_RECLAIM_H

#include "radix.h"

struct sdb_version;

/* Pins, ascending, each once. */
typedef struct sdb_pins {
    uint64_t *at;
    size_t n, room;
    bool is_short; /* there were more than room for: take it that everything is pinned */
} sdb_pins;

/* Whether a pin lies in [from, to). */
bool sdb_pins_within(const sdb_pins *pins, uint64_t from, uint64_t to);

/* What one transaction has replaced and deleted; made when it begins, so that its end needs no
** memory. */
typedef struct sdb_dead {
    struct sdb_dead *next;
    uint64_t death;
    bool is_counted; /* in sdb_reclaim.bytes */
    sdb_links links;
} sdb_dead;

/* What waits at one pin. */
typedef struct sdb_waiting {
    uint64_t pin;
    uint64_t bytes;
    sdb_links links;
} sdb_waiting;

/* The dead of one table. */
typedef struct sdb_reclaim {
    sdb_waiting *waiting; /* ascending by pin */
    size_t n, room;
    sdb_dead *dead;           /* not yet looked at */
    struct sdb_version *left; /* states that were rolled back under an open cursor: what was made
                              ** after `born`, until no pin lies between that and `died`, which comes
                              ** down to the newest pin that does, as for the dead. Oldest first, and
                              ** freed in this order: a state may hang on nodes that a later rollback
                              ** has left behind, and freeing looks at those. */
    _Atomic uint64_t bytes;   /* of all objects that wait */
} sdb_reclaim;

/* Free whatever no pin sees: of what waited at pins that have gone, and of `dead` (NULL: none), which
** died before the clock was `death`. `dead` is emptied; what had no place to wait, because memory was
** short or the pins are not known, goes into *room, which is NULL then. O(dead + what waited). */
void sdb_reclaim_run(sdb_table *table, const sdb_pins *pins, sdb_links *dead, uint64_t death,
                     sdb_dead **room);

/* Free the left states that nobody sees: is_seen tells whether somebody looks at a moment in
** [from, to). */
void sdb_reclaim_left(sdb_table *table, bool (*is_seen)(const void *ctx, uint64_t from, uint64_t to),
                      const void *ctx);

/* Whether there is anything that waits. */
static inline bool sdb_reclaim_waits(const sdb_reclaim *r)
{
    return r->n || r->dead || r->left;
}

/* Bytes that wait at a pin. */
uint64_t sdb_reclaim_bytes_at(const sdb_reclaim *r, uint64_t pin);

void sdb_dead_free(sdb_dead *dead);
void sdb_reclaim_fini(sdb_reclaim *r);

#endif
