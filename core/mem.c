/* mem.c - counted heap blocks, and faults on demand.
**
** Nothing here orders anything between threads. An injection is set and ended while no other
** thread allocates: "the next" would mean nothing otherwise. */
#include "mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int64_t mem_blocks;

static atomic_bool is_injecting;
static atomic_bool is_persistent;
static _Atomic int64_t mem_due;    /* allocations up to and with the first that fails */
static _Atomic int64_t mem_raised; /* faults so far */

/* ---------------------------------------------------------------- blocks */

static void *block_count(void *block)
{
    if (block)
        atomic_fetch_add_explicit(&mem_blocks, 1, memory_order_relaxed);
    return block;
}

void *sdb_malloc(size_t n)
{
    assert(n > 0);
    return sdb_mem_fault() ? NULL : block_count(malloc(n));
}

void *sdb_zalloc(size_t n)
{
    assert(n > 0);
    return sdb_mem_fault() ? NULL : block_count(calloc(1, n));
}

void *sdb_realloc(void *p, size_t n)
{
    assert(n > 0);
    if (!p)
        return sdb_malloc(n);
    return sdb_mem_fault() ? NULL : realloc(p, n);
}

void sdb_free(void *p)
{
    if (p)
        atomic_fetch_sub_explicit(&mem_blocks, 1, memory_order_relaxed);
    free(p);
}

int64_t sdb_mem_blocks(void)
{
    return atomic_load_explicit(&mem_blocks, memory_order_relaxed);
}

/* ---------------------------------------------------------------- buffers */

void *sdb_grow(void *at, uint32_t *room, uint32_t n, size_t size)
{
    if (n < *room)
        return at;
    uint32_t want = n < 4 ? 8 : n * 2;
    void *p = sdb_realloc(at, want * size);
    if (p)
        *room = want;
    return p;
}

int sdb_buf_grow(sdb_buf *buf, size_t more)
{
    size_t room = buf->room * 2 > buf->n + more ? buf->room * 2 : buf->n + more;
    uint8_t *at = sdb_realloc(buf->at, room < 256 ? 256 : room);
    if (!at)
        return SDB_NOMEM;
    buf->at = at;
    buf->room = room < 256 ? 256 : room;
    return SDB_OK;
}

void sdb_buf_fini(sdb_buf *buf)
{
    sdb_free(buf->at);
    *buf = (sdb_buf){0};
}

/* ---------------------------------------------------------------- faults */

int64_t sdb_mem_inject(int64_t n, bool persistent)
{
    atomic_store(&is_injecting, false);
    atomic_store(&mem_due, n);
    atomic_store(&is_persistent, persistent);
    int64_t raised = atomic_exchange(&mem_raised, 0);
    atomic_store(&is_injecting, n > 0);
    return raised;
}

bool sdb_mem_injecting(void)
{
    return atomic_load_explicit(&is_injecting, memory_order_relaxed);
}

bool sdb_mem_fault(void)
{
    if (!atomic_load_explicit(&is_injecting, memory_order_relaxed))
        return false;
    int64_t due = atomic_fetch_sub(&mem_due, 1);
    if (due > 1 || (due < 1 && !atomic_load(&is_persistent)))
        return false;
    atomic_fetch_add(&mem_raised, 1);
    return true;
}
