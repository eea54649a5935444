/* t_pages.c - memory goes back to a system whose pages are larger than the arena's: 64 KiB. */
#define _DEFAULT_SOURCE
#include "../core/arena.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SYSTEM_PAGE = 65536, N = 20000 };

static sdb_arena a;
static uint64_t n_given_back;

/* The system's own two are not called: these stand before them. As there, the length is rounded up. */
int getpagesize(void)
{
    return SYSTEM_PAGE;
}

#if defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
int madvise(void *p, size_t n, int advice)
{
    volatile uint8_t *to = p;

#ifdef MADV_HUGEPAGE
    if (advice == MADV_HUGEPAGE)
        return 0;
#endif
    (void)advice;
    if ((uint64_t)(to - a.base) % SYSTEM_PAGE)
        return -1;
    n = (n + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
    n_given_back += n;
    for (size_t i = 0; i < n; i++)
        to[i] = 0;
    return 0;
}

typedef struct block {
    sdb_link link;
    uint32_t size;
} block;

static bool is_full_of(const block *b, int value)
{
    const uint8_t *p = sdb_at(a.base, b->link);
    uint32_t i = 0;

    while (i < b->size && p[i] == (uint8_t)value)
        i++;
    return i == b->size;
}

static void test_trim(void **state)
{
    block *b = malloc(N * sizeof *b);
    sdb_budget budget = {0};

    (void)state;
    assert_int_equal(sdb_arena_init(&a, &budget), SDB_OK);
    for (int i = 0; i < N; i++) {
        b[i].size = 16 + (uint32_t)rnd(rnd(5) ? 300 : rnd(3) ? 20000 : 300000);
        assert_int_equal(sdb_arena_alloc(&a, b[i].size, &b[i].link), SDB_OK);
        memset(sdb_at(a.base, b[i].link), i % 255 + 1, b[i].size);
    }
    n_given_back = 0;
    for (int i = 0; i < N; i++)
        if (i % 3)
            sdb_arena_free(&a, b[i].link, b[i].size);
    sdb_arena_trim(&a);
    assert_null(sdb_arena_check(&a));
    assert_true(n_given_back > 64 * SYSTEM_PAGE);
    for (int i = 0; i < N; i += 3) {
        assert_true(is_full_of(&b[i], i % 255 + 1));
        sdb_arena_free(&a, b[i].link, b[i].size);
    }
    sdb_arena_trim(&a);
    assert_null(sdb_arena_check(&a));
    sdb_arena_fini(&a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trim)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
