/* rows.h - what bench_statedb.c, bench_radix.c and bench_lpm.c share: a row, its measuring, its answer.
**
**     PROGRAM                   all rows, once
**     PROGRAM - NANOSECONDS     rows named on standard input, so long a turn (peers/main.go)
**
** Answers: name, nanoseconds an object by CPU and by wall clock, bytes allocated an object: heap,
** rows and nodes, counted where the linker lets us stand between core/ and its allocators (--wrap).
** A row that the program does not have answers "-". */
#ifndef ROWS_H
#define ROWS_H

#include "bench.h"

#include "../core/arena.h"
#include "../core/mem.h"

#include <string.h>

enum { FEW = 1000, MANY = 100000 };

typedef struct row row;
struct row {
    const char *name;
    size_t per;                 /* objects in one iteration */
    void (*make)(const row *r); /* untimed */
    void (*run)(const row *r, size_t n);
    int arg, what; /* for make and run */
    bool is_random;
    size_t fixed; /* iterations, where the cost depends on them */
};

static _Thread_local uint64_t allocated; /* threads started by work add theirs to that of who did */

#define COUNTED(result, name, bytes, parameters, arguments) \
    result __real_##name parameters;                        \
    result __wrap_##name parameters;                        \
    result __wrap_##name parameters                         \
    {                                                       \
        allocated += (bytes);                               \
        return __real_##name arguments;                     \
    }
COUNTED(void *, sdb_malloc, n, (size_t n), (n))
COUNTED(void *, sdb_zalloc, n, (size_t n), (n))
COUNTED(void *, sdb_realloc, n, (void *p, size_t n), (p, n))
COUNTED(sdb_link, sdb_arena_node, size, (sdb_arena * a, size_t size), (a, size))
COUNTED(int, sdb_arena_alloc, size, (sdb_arena * a, size_t size, sdb_link *out), (a, size, out))

typedef struct figures {
    double cpu, wall, bytes;
} figures;

static figures spent;
static double bytes_kept; /* an object: work that sets it has it told in place of those allocated */
static size_t handled;    /* objects, where only the work knows how many */

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void clock_start(void)
{
    spent.bytes -= (double)allocated;
    spent.wall -= wall();
    spent.cpu -= now();
}

/* Work stops and starts the clocks around what is not to be counted. */
static void clock_stop(void)
{
    spent.cpu += now();
    spent.wall += wall();
    spent.bytes += (double)allocated;
}

static void must(bool ok)
{
    if (!ok) {
        fprintf(stderr, "wrong result\n");
        exit(1);
    }
}

static int64_t order[MANY];

static inline void order_fill(size_t n, bool is_random)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (int64_t)i;
    if (is_random)
        shuffle(order, n);
}

static figures measure(const row *r, size_t n)
{
    spent = (figures){0};
    bytes_kept = 0;
    handled = 0;
    clock_start();
    r->run(r, n);
    clock_stop();
    double objects = handled ? (double)handled : (double)n * (double)r->per;
    return (figures){spent.cpu / objects, spent.wall / objects,
                     bytes_kept > 0 ? bytes_kept : spent.bytes / objects};
}

/* How many iterations take about so many nanoseconds. */
static size_t calibrate(const row *r, double span)
{
    for (size_t n = 1;;) {
        measure(r, n);
        if (spent.cpu >= span / 2)
            return (size_t)((double)n * span / spent.cpu) + 1;
        double more = span / 2 / (spent.cpu + 1);
        n *= more < 2 ? 2 : more > 100 ? 100 : (size_t)more;
    }
}

static size_t row_make(const row *r, double span)
{
    r->make(r);
    return r->fixed ? r->fixed : calibrate(r, span);
}

static void answer(const row *r, size_t n)
{
    figures f = measure(r, n);
    printf("%s %.2f %.2f %.1f\n", r->name, f.cpu, f.wall, f.bytes);
}

/* A row named again is measured again as it stands. */
static void rows_serve(const row *rows, size_t n_rows, double span, void (*end)(void))
{
    const row *at = NULL;
    size_t n = 0;
    char name[80];
    while (scanf("%79s", name) == 1) {
        const row *r = rows;
        while (r < rows + n_rows && strcmp(r->name, name) != 0)
            r++;
        if (r < rows + n_rows) {
            if (r != at) {
                end();
                n = row_make(r, span);
                at = r;
            }
            answer(r, n);
        } else {
            printf("%s -\n", name);
        }
        fflush(stdout);
    }
    end();
}

/* `end` undoes whatever a row has made. */
static int rows_main(int argc, char **argv, const row *rows, size_t n_rows, void (*end)(void))
{
    double span = argc > 2 ? atof(argv[2]) : 40e6;
    if (argc > 1) {
        rows_serve(rows, n_rows, span, end);
        return 0;
    }
    for (size_t i = 0; i < n_rows; i++) {
        answer(&rows[i], row_make(&rows[i], span));
        end();
    }
    return 0;
}

#endif
