/* count.h - counters that one thread at a time adds to, and that any thread may read at any time.
**
** Whoever may write is settled elsewhere (a lock, one owner): so a plain add, published. */
#ifndef SDB_COUNT_H
#define SDB_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t sdb_counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void sdb_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, sdb_counted(counter) + n, memory_order_relaxed);
}

#endif
