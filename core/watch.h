/* watch.h - who is to be told when a range of keys changes (the store's side of sdb_watch).
**
** A watch is a half-open range of keys of one index. Every change of a row is compared with the
** watches of the indexes that hold it, by the row's keys there, old and new; those it touches are
** put down, and fire when the transaction has committed: after the new root is there for everybody,
** before the table is unlocked. Nothing fires for an abort. Where there are no watches all this is
** one load of a counter that is zero. (cilium/statedb keeps a channel in every node of the tree
** instead, which costs memory without watches and wakes the watchers of neighbours with them.)
**
** Watches of an index are sorted by the beginning of their ranges, and each place knows the furthest
** end up to there: a key is found in all ranges that hold it by a binary search and a walk back to
** the first place before which none reaches it. Ranges without an end stand in a list of their own.
**
** No change is missed: a watch is armed under the store's mutex, where it is seen whether the table
** has a newer version than the snapshot it is armed from (then it fires at once) and whether a
** transaction is writing the table (then it is put down for that one, whatever it has changed). All
** of it is guarded by db->watch_mutex, taken after the store's. */
#ifndef SDB_WATCH_H
#define SDB_WATCH_H

#include "db.h"

/* The transaction that writes the table has changed a row: `keys` and `old_keys` (one may be NULL)
** are those it has now and had before. */
void sdb_watch_touch(sdb_table *table, const sdb_indexes *set, const sdb_keys *keys,
                     const sdb_keys *old_keys);

/* It has dropped an index. */
void sdb_watch_touch_index(sdb_table *table, sdb_index *index);

/* It ends: fire what it has touched, or forget it. */
void sdb_watch_settle(sdb_table *table, bool is_commit);

#endif
