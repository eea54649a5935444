/* feed.h - what a table remembers for those who follow its changes.
**
** A FEED is a named reader of a table's changes and a part of the table's versions, like an index: it
** is created, moved on and dropped in transactions, and undone with them. While a table has a feed,
** its versions keep three more trees,
**
**   by_revision       the rows, by the revision that wrote them
**   dead_by_revision  rows that were deleted, by the revision that deleted them: copies of the last
**   dead_by_rowid     content, for as long as a feed has not acknowledged the deletion
**
** What a feed has to show of a snapshot is what is in the first two behind the revision it has
** acknowledged: each row once, with its last content, and each deletion, in the order of commits. A
** row that comes back takes its grave away. Deletions from before a feed was made are not for it.
** There is no other process to it: acknowledging frees what the slowest feed kept.
**
** Only what is committed is read, in a transaction its base; there the feed stands where that very
** transaction has acknowledged. So what is not committed is never shown, and what was rolled back never
** was (cilium/statedb's Changes could do both: it read the graveyard of the running transaction). */
#ifndef SDB_FEED_H
#define SDB_FEED_H

#include "radix.h"
#include "row.h"

struct sdb_version;

typedef struct sdb_feed {
    const char *name; /* behind the array */
    uint64_t id;      /* of the clock, when it was made */
    uint64_t born;    /* the table's revision then */
    uint64_t seen;    /* acknowledged up to and with this revision */
} sdb_feed;

/* The feeds of a table at one time: immutable, counted. */
typedef struct sdb_feeds {
    _Atomic int n_ref;
    int n;
    sdb_feed at[];
} sdb_feeds;

typedef struct sdb_history {
    sdb_feeds *feeds; /* counted; NULL: no feed, and no trees */
    sdb_link by_revision, dead_by_revision, dead_by_rowid;
} sdb_history;

/* Share, or let go of, the list of feeds in it. */
sdb_history sdb_history_ref(const sdb_history *h);
void sdb_history_unref(sdb_history *h);

extern const sdb_leaves sdb_revision_leaves;

/* What one change of a row needs besides the indexes, in bytes of nodes and in links. */
size_t sdb_history_need(const sdb_arena *a);
size_t sdb_history_need_links(const sdb_arena *a);

/* A copy of a row that is about to be deleted by `revision`. SDB_NOMEM, SDB_FULL. */
SDB_MUST int sdb_grave_new(struct sdb_version *v, const sdb_edit *edit, const sdb_row *row,
                           uint64_t revision, sdb_link *out);

/* A change of a row, as for sdb_version_change; grave: what is left of `old` where it is deleted, or
** 0. Cannot fail. */
void sdb_history_change(struct sdb_version *v, sdb_edit *edit, const sdb_row *row,
                        const sdb_row *old, sdb_link grave);

/* Free the nodes and graves made after `floor`; see sdb_version_free_after. */
void sdb_history_free_after(struct sdb_version *v, uint64_t floor);

/* NULL, or what is wrong with the three trees. */
const char *sdb_history_check(const struct sdb_version *v);

#endif
