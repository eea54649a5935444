/* bench.h - what the benchmarks share: a clock, random numbers, the median. Include it first. */
#ifndef BENCH_H
#define BENCH_H

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call)                                                                      \
    do {                                                                                \
        int rc_ = (call);                                                               \
        if (rc_ != 0) {                                                                 \
            fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, rc_); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* CPU time of the process, in nanoseconds. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The same numbers in every run of a program. */
static inline uint64_t rnd(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

static inline void shuffle(int64_t *at, size_t n)
{
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = rnd() % (i + 1);
        int64_t v = at[i];
        at[i] = at[j];
        at[j] = v;
    }
}

static inline int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *at, int n)
{
    qsort(at, (size_t)n, sizeof *at, compare_double);
    return at[n / 2];
}

#endif
