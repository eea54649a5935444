/* arena.h - one region of address space per table, from which its nodes and rows are cut.
**
** The region is reserved at once (16 GiB, less where the system refuses) and made writable a step
** at a time, so it costs what is used. An object is named by a 32-bit link: half the bytes of
** a pointer, and what a commit costs is the bytes it copies. Against malloc this made inserts 1.4
** to 4 times as fast and small commits 1.5 to 2 times (core/README.md).
**
**   link 31 bits: offset from the region's base in units of 8 bytes | 1 bit: it is a leaf
**        0 is no object: page 0 is never handed out
**
**   region = pages of 16 KiB; a page is cut into blocks of one size class, or belongs to a run of
**   pages that is one large object, or to a free run. What is known of a page stands in a table
**   apart from it (struct page), so that freeing a cold block touches no other cold line, and the
**   headers of all pages do not fall on one cache set.
**
** An arena has one user at a time: whoever holds its table's write lock. Only the counters in it
** may be read by anybody at any time. */
#ifndef SDB_ARENA_H
#define SDB_ARENA_H

#include "statedb.h"

#include <stdatomic.h>

typedef uint32_t sdb_link;

#define SDB_LEAF 1u

enum {
    SDB_PAGE = 16384,
    SDB_CLASSES = 57, /* 16..128 by 8, ..256 by 16, ..512 by 32, ..1024 by 64, then page/14..page/1 */
    SDB_RUN_LISTS = 21 /* free runs of 2^k .. 2^(k+1)-1 pages; 16 GiB are 2^20 pages */
};

/* What all arenas of a store have used, and may use. */
typedef struct sdb_budget {
    _Atomic uint64_t used;  /* bytes in pages that hold objects */
    _Atomic uint64_t limit; /* 0: none */
} sdb_budget;

typedef struct sdb_page sdb_page;

typedef struct sdb_arena {
    uint8_t *base;
    sdb_page *page;      /* one for each page of the region */
    sdb_budget *budget;
    uint64_t reserved;   /* bytes of the region */
    uint64_t writable;   /* of these, from the base on, made writable */
    uint32_t top;        /* pages from here on have not been handed out, or came back */
    uint32_t touched;    /* pages from here on have no memory behind them */
    uint32_t n_free;     /* pages in free runs below top */
    uint32_t n_idle;     /* of these and of top..touched, how many may have memory behind them */
    uint32_t partial[SDB_CLASSES];     /* first page of each class that has a free block, or 0 */
    uint32_t free_run[SDB_RUN_LISTS];  /* first page of the first free run of each length, or 0 */
    _Atomic uint64_t live;             /* bytes in objects */
    _Atomic uint64_t pages;            /* pages that hold objects */
    _Atomic uint64_t idle;             /* copy of n_idle for readers */
} sdb_arena;

/* SDB_NOMEM when not even a small region can be had. */
SDB_MUST int sdb_arena_init(sdb_arena *a, sdb_budget *budget);
void sdb_arena_fini(sdb_arena *a);

/* After SDB_OK, node allocations of `bytes` in all cannot fail, so that a change of several trees
** needs no way back half-way through. `limited`: refuse (SDB_FULL) what would pass the store's
** limit; a delete is not limited, or a full store could not be emptied. SDB_NOMEM, SDB_FULL. */
SDB_MUST int sdb_arena_reserve(sdb_arena *a, size_t bytes, bool limited);

/* A node of one of the node sizes, out of what was reserved. Not zeroed. */
sdb_link sdb_arena_node(sdb_arena *a, size_t size);

/* Anything else, of 16 bytes to SDB_MAX_ROW; *out has the leaf bit set. SDB_NOMEM, SDB_FULL. */
SDB_MUST int sdb_arena_alloc(sdb_arena *a, size_t size, sdb_link *out);

/* `size` as it was allocated. */
void sdb_arena_free(sdb_arena *a, sdb_link ref, size_t size);

/* Give memory that has become idle back to the system, when there is much of it. */
void sdb_arena_trim(sdb_arena *a);

/* At a commit, in a build to find bugs with (make frozen): all objects there are become read-only, so
** that who writes to one is found at once. New ones come from other pages, and a page is used again
** when everything in it has been freed. thaw: an object that nobody sees may be written. */
#ifdef SDB_FREEZE
void sdb_arena_freeze(sdb_arena *a);
void sdb_arena_thaw(sdb_arena *a, sdb_link ref);
#else
#define sdb_arena_freeze(a) ((void)(a))
#define sdb_arena_thaw(a, ref) ((void)(a), (void)(ref))
#endif

/* NULL when the page tables agree with themselves and the counters, else what is wrong. */
const char *sdb_arena_check(const sdb_arena *a);

static inline void *sdb_at(const uint8_t *base, sdb_link ref)
{
    return (void *)(base + (uint64_t)(ref >> 1) * 8);
}

static inline sdb_link sdb_link_to(const sdb_arena *a, const void *p)
{
    return (sdb_link)(((const uint8_t *)p - a->base) / 8) << 1;
}

#endif
