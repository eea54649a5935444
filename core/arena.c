/* arena.c - pages, size classes and runs: the memory of one table (see arena.h).
**
** Blocks of a page are handed out last-freed first, from a list threaded through the free blocks,
** and before any was freed in order of address, so that a page's untouched part costs no memory.
** A page whose blocks are all free goes back among the free runs and may serve another class or a
** large object: a table that shrinks gives its memory back. Free runs are merged with their
** neighbours at once (boundary tags: a free run's first and last page know its length). */
#define _DEFAULT_SOURCE
#include "arena.h"

#include "count.h"
#include "mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SDB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SDB_ASAN 1
#endif
#endif
#ifdef SDB_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum {
    PAGE_NONE = 0,  /* at or above top, or inside a run */
    PAGE_FREE = 254, /* first or last page of a free run */
    PAGE_RUN = 255,  /* first page of a large object; other values: size class + 1 */
    PAGE_FROZEN = 2, /* see sdb_arena_freeze */
    NO_BLOCK = 0xffff
};

struct sdb_page {
    union {
        struct {
            uint16_t used;  /* blocks in use */
            uint16_t fresh; /* blocks from this one on were never used */
        };
        uint32_t length; /* of a run or free run, in pages */
    };
    uint16_t free; /* first free block, in 8-byte units from the page's start, or NO_BLOCK */
    uint8_t kind;
    uint8_t linked;      /* 1: is in its class's list of pages with a free block; or PAGE_FROZEN */
    uint32_t next, prev; /* in that list, or in a list of free runs; 0 ends */
};

static const uint64_t REGION_MAX = (uint64_t)1 << 34; /* 31 bits of 8 bytes */
static const uint64_t REGION_MIN = (uint64_t)1 << 26;
static const uint64_t STEP = (uint64_t)1 << 20; /* smallest growth of the writable part */
static const uint64_t HUGE_PAGE = (uint64_t)1 << 21;

/* ---------------------------------------------------------------- size classes */

/* The large classes: a page divided by 14 .. 1, each rounded down to 8. */
static const uint16_t LARGE[] = {1088, 1168, 1256, 1360, 1488, 1632, 1816, 2048,
                                 2336, 2728, 3272, 4096, 5456, 8192, 16384};

static unsigned class_of(size_t size)
{
    assert(size >= 16 && size <= SDB_PAGE);
    if (size <= 128)
        return (unsigned)((size + 7) / 8 - 2); /* 0..14 */
    if (size <= 256)
        return (unsigned)((size - 128 + 15) / 16 + 14); /* 15..22 */
    if (size <= 512)
        return (unsigned)((size - 256 + 31) / 32 + 22); /* 23..30 */
    if (size <= 1024)
        return (unsigned)((size - 512 + 63) / 64 + 30); /* 31..38 */
    unsigned c = 0;
    while (LARGE[c] < size)
        c++;
    return c + 39;
}

static unsigned class_size(unsigned c)
{
    if (c <= 14)
        return (c + 2) * 8;
    if (c <= 22)
        return 128 + (c - 14) * 16;
    if (c <= 30)
        return 256 + (c - 22) * 32;
    if (c <= 38)
        return 512 + (c - 30) * 64;
    return LARGE[c - 39];
}

static_assert(39 + sizeof LARGE / sizeof *LARGE <= SDB_CLASSES, "a slot for each class");

/* ---------------------------------------------------------------- counters */

static void pages_add(sdb_arena *a, int64_t n)
{
    sdb_count(&a->pages, (uint64_t)n);
    atomic_fetch_add_explicit(&a->budget->used, (uint64_t)(n * SDB_PAGE), memory_order_relaxed);
}

static void idle_add(sdb_arena *a, int64_t n)
{
    a->n_idle = (uint32_t)((int64_t)a->n_idle + n);
    atomic_store_explicit(&a->idle, a->n_idle, memory_order_relaxed);
}

/* ---------------------------------------------------------------- the region */

static void *region_reserve(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

int sdb_arena_init(sdb_arena *a, sdb_budget *budget)
{
    memset(a, 0, sizeof *a);
    if (sdb_mem_fault())
        return SDB_NOMEM;
    for (uint64_t size = REGION_MAX; size >= REGION_MIN; size /= 2) {
        uint64_t tables = size / SDB_PAGE * sizeof(sdb_page);
        a->base = region_reserve(size);
        a->page = a->base ? region_reserve(tables) : NULL;
        if (a->page) {
            a->reserved = size;
            a->budget = budget;
            a->top = a->touched = 1;
            return SDB_OK;
        }
        if (a->base)
            munmap(a->base, size);
    }
    a->base = NULL;
    return SDB_NOMEM;
}

void sdb_arena_fini(sdb_arena *a)
{
    if (!a->base)
        return;
    UNPOISON(a->base, a->writable);
    pages_add(a, -(int64_t)atomic_load_explicit(&a->pages, memory_order_relaxed));
    munmap(a->page, a->reserved / SDB_PAGE * sizeof(sdb_page));
    munmap(a->base, a->reserved);
    a->base = NULL;
}

/* Behind its first 2 MiB, a table that has come so far is given pages of that size where the system has
** them: the first use of memory costs an eighth, and look-ups in a large table miss the TLB less often.
** Should the system refuse, nothing is lost. */
static void region_enlarge_pages(const sdb_arena *a, uint64_t end)
{
#ifdef MADV_HUGEPAGE
    uint64_t from = a->writable > HUGE_PAGE ? a->writable : HUGE_PAGE;
    if (end > from)
        (void)madvise(a->base + from, end - from, MADV_HUGEPAGE);
#else
    (void)a, (void)end;
#endif
}

/* Make the region writable up to `bytes`, and more where it is growing fast. */
static int region_grow(sdb_arena *a, uint64_t bytes)
{
    uint64_t want = a->writable + a->writable / 8;
    if (want < bytes)
        want = bytes;
    uint64_t step = want > HUGE_PAGE ? HUGE_PAGE : STEP;
    want = (want + step - 1) / step * step;
    if (want > a->reserved)
        want = a->reserved;
    if (want < bytes)
        return SDB_FULL;
    uint64_t tables = want / SDB_PAGE * sizeof(sdb_page); /* a STEP of pages fills 1 KiB of them */
    tables = (tables + SDB_PAGE - 1) / SDB_PAGE * SDB_PAGE;
    if (mprotect(a->page, tables, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(a->base + a->writable, want - a->writable, PROT_READ | PROT_WRITE) != 0)
        return SDB_NOMEM;
    region_enlarge_pages(a, want);
    POISON(a->base + a->writable, want - a->writable);
    a->writable = want;
    return SDB_OK;
}

/* ---------------------------------------------------------------- runs of pages */

static unsigned run_list(uint32_t length)
{
    return 31u - (unsigned)__builtin_clz(length);
}

static void run_unlink(sdb_arena *a, uint32_t first)
{
    sdb_page *p = &a->page[first];
    if (p->prev)
        a->page[p->prev].next = p->next;
    else
        a->free_run[run_list(p->length)] = p->next;
    if (p->next)
        a->page[p->next].prev = p->prev;
    a->n_free -= p->length;
    a->page[first + p->length - 1].kind = PAGE_NONE;
    p->kind = PAGE_NONE;
}

static void run_link(sdb_arena *a, uint32_t first, uint32_t length)
{
    sdb_page *p = &a->page[first], *last = &a->page[first + length - 1];
    uint32_t *head = &a->free_run[run_list(length)];
    last->length = p->length = length;
    last->kind = p->kind = PAGE_FREE;
    p->prev = 0;
    p->next = *head;
    if (*head)
        a->page[*head].prev = first;
    *head = first;
    a->n_free += length;
}

/* Whether `length` pages in a row can be had without making more of the region writable. */
static uint32_t run_find(const sdb_arena *a, uint32_t length)
{
    unsigned list = run_list(length);
    for (uint32_t p = a->free_run[list]; p; p = a->page[p].next)
        if (a->page[p].length >= length)
            return p;
    for (list++; list < SDB_RUN_LISTS; list++)
        if (a->free_run[list])
            return a->free_run[list];
    return 0;
}

/* Take `length` pages; a free run or writable pages above top are known to be there. */
static uint32_t run_take(sdb_arena *a, uint32_t length)
{
    uint32_t first = run_find(a, length);
    if (first) {
        uint32_t whole = a->page[first].length;
        run_unlink(a, first);
        if (whole > length)
            run_link(a, first + length, whole - length);
        /* Which of a free run's pages have memory behind them is not known; counted as if all. */
        idle_add(a, -(int64_t)(a->n_idle < length ? a->n_idle : length));
    } else {
        first = a->top;
        assert((uint64_t)(first + length) * SDB_PAGE <= a->writable);
        a->top += length;
        if (a->top > a->touched) {
            uint32_t idle = a->touched - first; /* pages that came back and are used again */
            idle_add(a, -(int64_t)(a->n_idle < idle ? a->n_idle : idle));
            a->touched = a->top;
        } else {
            idle_add(a, -(int64_t)(a->n_idle < length ? a->n_idle : length));
        }
    }
    pages_add(a, length);
    return first;
}

static void run_give(sdb_arena *a, uint32_t first, uint32_t length)
{
    pages_add(a, -(int64_t)length);
    idle_add(a, length);
    a->page[first].kind = PAGE_NONE;
    if (a->page[first - 1].kind == PAGE_FREE) { /* page 0 is PAGE_NONE */
        uint32_t before = a->page[first - 1].length;
        run_unlink(a, first - before);
        first -= before;
        length += before;
    }
    if (first + length < a->top && a->page[first + length].kind == PAGE_FREE) {
        uint32_t after = a->page[first + length].length;
        run_unlink(a, first + length);
        length += after;
    }
    if (first + length == a->top)
        a->top = first;
    else
        run_link(a, first, length);
}

/* The system's pages may be larger than ours (64 KiB on some ARM machines), and it would round up the
** length: only those that lie wholly in the run go. */
static void run_release(const sdb_arena *a, uint32_t first, uint32_t length, uint64_t size)
{
    uint64_t from = ((uint64_t)first * SDB_PAGE + size - 1) / size * size;
    uint64_t to = (uint64_t)(first + length) * SDB_PAGE / size * size;
#ifdef __APPLE__
    int advice = MADV_FREE;
#else
    int advice = MADV_DONTNEED;
#endif
    if (from < to)
        madvise(a->base + from, to - from, advice);
}

void sdb_arena_trim(sdb_arena *a)
{
    uint64_t size = (uint64_t)getpagesize();
    uint64_t pages = atomic_load_explicit(&a->pages, memory_order_relaxed);
    if ((uint64_t)a->n_idle * SDB_PAGE <= STEP || a->n_idle <= pages / 4)
        return;
    for (unsigned list = 0; list < SDB_RUN_LISTS; list++)
        for (uint32_t p = a->free_run[list]; p; p = a->page[p].next)
            run_release(a, p, a->page[p].length, size);
    if (a->touched > a->top)
        run_release(a, a->top, a->touched - a->top, size);
    a->touched = a->top;
    idle_add(a, -(int64_t)a->n_idle);
}

/* ---------------------------------------------------------------- blocks */

static void partial_link(sdb_arena *a, uint32_t n, unsigned c)
{
    sdb_page *p = &a->page[n];
    p->linked = 1;
    p->prev = 0;
    p->next = a->partial[c];
    if (p->next)
        a->page[p->next].prev = n;
    a->partial[c] = n;
}

static void partial_unlink(sdb_arena *a, uint32_t n, unsigned c)
{
    sdb_page *p = &a->page[n];
    p->linked = 0;
    if (p->prev)
        a->page[p->prev].next = p->next;
    else
        a->partial[c] = p->next;
    if (p->next)
        a->page[p->next].prev = p->prev;
}

static sdb_link block_take(sdb_arena *a, unsigned c)
{
    uint32_t n = a->partial[c], size = class_size(c);
    if (!n) {
        n = run_take(a, 1);
        a->page[n] = (sdb_page){.free = NO_BLOCK, .kind = (uint8_t)(c + 1)};
        partial_link(a, n, c);
    }
    sdb_page *p = &a->page[n];
    uint8_t *page = a->base + (uint64_t)n * SDB_PAGE;
    uint32_t offset; /* in the page, in units of 8 */
    if (p->free != NO_BLOCK) {
        offset = p->free;
        UNPOISON(page + offset * 8, size);
        memcpy(&p->free, page + offset * 8, sizeof p->free);
        if (p->free != NO_BLOCK) /* the next time its link is wanted, and soon all of it */
            __builtin_prefetch(page + p->free * 8, 1);
    } else {
        offset = p->fresh++ * (size / 8);
        UNPOISON(page + offset * 8, size);
    }
    p->used++;
    bool is_full = p->free == NO_BLOCK && (p->fresh + 1u) * size > SDB_PAGE; /* without a division */
    assert(is_full == (p->used == SDB_PAGE / size));
    if (is_full)
        partial_unlink(a, n, c);
    sdb_count(&a->live, size);
    return (sdb_link)((n * (SDB_PAGE / 8) + offset) << 1);
}

#ifdef SDB_FREEZE
/* Where the system has no more mappings a page just stays writable; back it must come. */
static void pages_protect(sdb_arena *a, uint32_t first, uint32_t length, int protection)
{
    int rc = mprotect(a->base + (uint64_t)first * SDB_PAGE, (uint64_t)length * SDB_PAGE, protection);
    if (rc != 0 && protection != PROT_READ)
        abort();
}

void sdb_arena_freeze(sdb_arena *a)
{
    uint32_t length;
    memset(a->partial, 0, sizeof a->partial);
    for (uint32_t n = 1; n < a->top; n += length) {
        sdb_page *p = &a->page[n];
        bool is_cut = p->kind != PAGE_FREE && p->kind != PAGE_RUN;
        length = is_cut ? 1 : p->length;
        if (is_cut && p->used == 0) {
            partial_link(a, n, p->kind - 1u);
        } else if (p->kind != PAGE_FREE && p->linked != PAGE_FROZEN) {
            p->linked = PAGE_FROZEN;
            pages_protect(a, n, length, PROT_READ);
        }
    }
}

void sdb_arena_thaw(sdb_arena *a, sdb_link ref)
{
    pages_protect(a, (ref >> 1) / (SDB_PAGE / 8), 1, PROT_READ | PROT_WRITE);
}

static void pages_give(sdb_arena *a, uint32_t first, uint32_t length)
{
    pages_protect(a, first, length, PROT_READ | PROT_WRITE);
    run_give(a, first, length);
}
#else
#define pages_give run_give
#endif

static void block_give(sdb_arena *a, sdb_link ref, unsigned c)
{
    uint32_t at = ref >> 1, n = at / (SDB_PAGE / 8), size = class_size(c);
    sdb_page *p = &a->page[n];
    uint16_t *link = sdb_at(a->base, ref);
    assert(p->kind == c + 1 && p->used > 0 && at % (SDB_PAGE / 8) * 8 % size == 0);
    sdb_count(&a->live, -(uint64_t)size);
    if (p->linked == PAGE_FROZEN) {
        POISON(link, size);
        if (--p->used == 0)
            pages_give(a, n, 1);
        return;
    }
    *link = p->free;
    POISON(link, size);
    p->free = (uint16_t)(at % (SDB_PAGE / 8));
    p->used--;
    if (!p->linked)
        partial_link(a, n, c);
    /* An empty page goes back, but for the last one of its class: it would only be fetched again. */
    if (p->used == 0 && (p->next || p->prev)) {
        partial_unlink(a, n, c);
        run_give(a, n, 1);
    }
}

/* ---------------------------------------------------------------- the interface */

int sdb_arena_reserve(sdb_arena *a, size_t bytes, bool limited)
{
    if (sdb_mem_fault())
        return SDB_NOMEM;
    if (limited) {
        uint64_t limit = atomic_load_explicit(&a->budget->limit, memory_order_relaxed);
        if (limit && atomic_load_explicit(&a->budget->used, memory_order_relaxed) + bytes > limit)
            return SDB_FULL;
    }
    /* Each of the six node classes may waste the rest of a page. */
    uint64_t pages = bytes / SDB_PAGE + 1 + 6;
    uint64_t have = a->n_free + a->writable / SDB_PAGE - a->top;
    if (a->writable && have >= pages)
        return SDB_OK;
    return region_grow(a, (a->top + pages) * SDB_PAGE);
}

sdb_link sdb_arena_node(sdb_arena *a, size_t size)
{
    return block_take(a, class_of(size));
}

int sdb_arena_alloc(sdb_arena *a, size_t size, sdb_link *out)
{
    assert(size >= 16);
    int rc = SDB_OK;
    uint64_t pages = (size + SDB_PAGE - 1) / SDB_PAGE;
    if (sdb_mem_fault())
        return SDB_NOMEM;
    uint64_t limit = atomic_load_explicit(&a->budget->limit, memory_order_relaxed);
    if (limit && atomic_load_explicit(&a->budget->used, memory_order_relaxed) + size > limit)
        return SDB_FULL;
    if (size <= SDB_PAGE && a->partial[class_of(size)]) {
        *out = block_take(a, class_of(size)) | SDB_LEAF;
        return SDB_OK;
    }
    if ((a->top + pages) * SDB_PAGE > a->writable && !run_find(a, (uint32_t)pages))
        rc = region_grow(a, (a->top + pages) * SDB_PAGE);
    if (rc != SDB_OK)
        return rc;
    if (size <= SDB_PAGE) {
        *out = block_take(a, class_of(size)) | SDB_LEAF;
        return SDB_OK;
    }
    uint32_t first = run_take(a, (uint32_t)pages);
    a->page[first] = (sdb_page){.length = (uint32_t)pages, .kind = PAGE_RUN};
    UNPOISON(a->base + (uint64_t)first * SDB_PAGE, pages * SDB_PAGE);
    sdb_count(&a->live, pages * SDB_PAGE);
    *out = (first * (SDB_PAGE / 8)) << 1 | SDB_LEAF;
    return SDB_OK;
}

void sdb_arena_free(sdb_arena *a, sdb_link ref, size_t size)
{
    if (size <= SDB_PAGE) {
        block_give(a, ref, class_of(size));
        return;
    }
    uint32_t first = (ref >> 1) / (SDB_PAGE / 8), pages = (uint32_t)((size + SDB_PAGE - 1) / SDB_PAGE);
    assert(a->page[first].kind == PAGE_RUN && a->page[first].length == pages);
    POISON(a->base + (uint64_t)first * SDB_PAGE, (uint64_t)pages * SDB_PAGE);
    sdb_count(&a->live, -(uint64_t)pages * SDB_PAGE);
    pages_give(a, first, pages);
}

const char *sdb_arena_check(const sdb_arena *a)
{
    uint64_t live = 0, used = 0, n_free = 0;
    for (uint32_t n = 1; n < a->top;) {
        const sdb_page *p = &a->page[n];
        if (p->kind == PAGE_NONE)
            return "a page below the top belongs to nothing";
        if (p->kind == PAGE_FREE || p->kind == PAGE_RUN) {
            if (p->length == 0 || n + p->length > a->top)
                return "a run of pages passes the top";
            if (p->kind == PAGE_FREE) {
                if (a->page[n + p->length - 1].kind != PAGE_FREE ||
                    a->page[n + p->length - 1].length != p->length)
                    return "a free run's ends disagree";
                n_free += p->length;
            } else {
                used += p->length;
                live += (uint64_t)p->length * SDB_PAGE;
            }
            n += p->length;
            continue;
        }
        unsigned c = p->kind - 1u, size = class_size(c);
        if (p->used > SDB_PAGE / size || p->fresh > SDB_PAGE / size || p->used > p->fresh)
            return "a page holds more blocks than it has";
        if (p->linked != PAGE_FROZEN && p->linked != (p->used < SDB_PAGE / size))
            return "a page with a free block is not listed, or a full one is";
        used++;
        live += (uint64_t)p->used * size;
        n++;
    }
    if (n_free != a->n_free)
        return "the count of free pages is wrong";
    if (used != atomic_load_explicit(&a->pages, memory_order_relaxed))
        return "the count of used pages is wrong";
    if (live != atomic_load_explicit(&a->live, memory_order_relaxed))
        return "the count of live bytes is wrong";
    return NULL;
}
