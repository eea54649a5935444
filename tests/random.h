/* random.h - random numbers for tests, the same in every run: xorshift64 (Marsaglia 2003). A test may set
** the state, rng, to begin anew; not to 0. */
#ifndef STATEDB_TEST_RANDOM_H
#define STATEDB_TEST_RANDOM_H

#include <stdint.h>

static uint64_t rng = 88172645463325252u;

/* 0 .. n-1 */
static inline uint64_t rnd(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % n;
}

#endif
