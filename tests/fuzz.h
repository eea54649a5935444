/* fuzz.h - what the libFuzzer targets share. With FUZZ_MAIN each is a program that reads the files it is
** given, without libFuzzer: to look at a finding in a debugger. Included by one file of each program. */
#ifndef STATEDB_FUZZ_H
#define STATEDB_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is left of the input; behind its end there are zeros. */
typedef struct input {
    const uint8_t *at;
    size_t n;
} input;

static inline uint8_t input_byte(input *in)
{
    if (!in->n)
        return 0;
    in->n--;
    return *in->at++;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static uint8_t data[1 << 20];

    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof data, file));
        fclose(file);
    }
    return 0;
}
#endif

#endif
