/* t_store_model.c - fuzz_store.c with random bytes, for those who run the tests without the fuzzer. */
#include "random.h"

#include "fuzz_store.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_random(void **state)
{
    (void)state;
    static uint8_t script[900];
    for (int i = 0; i < 600; i++) {
        for (size_t k = 0; k < sizeof script; k++)
            script[k] = (uint8_t)rnd(rnd(4) ? 256 : 32);
        LLVMFuzzerTestOneInput(script, sizeof script);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
