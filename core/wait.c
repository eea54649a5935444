/* wait.c - condition variables with deadlines, and descriptors for event loops (see wait.h). */
#define _GNU_SOURCE
#include "wait.h"

#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#else
#include <fcntl.h>
#endif

#ifdef __APPLE__
#define WAIT_CLOCK CLOCK_REALTIME
#else
#define WAIT_CLOCK CLOCK_MONOTONIC
#endif

int sdb_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
#ifndef __APPLE__
    pthread_condattr_setclock(&attr, WAIT_CLOCK);
#endif
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

static int64_t clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t sdb_now(void)
{
    return clock_read(WAIT_CLOCK);
}

int64_t sdb_now_roughly(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    return clock_read(CLOCK_MONOTONIC_COARSE);
#else
    return clock_read(WAIT_CLOCK);
#endif
}

int64_t sdb_deadline(int64_t ms)
{
    int64_t now = sdb_now();
    return ms < 0 || ms > (SDB_FOREVER - now) / 1000000 ? SDB_FOREVER : now + ms * 1000000;
}

bool sdb_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline)
{
    if (deadline == SDB_FOREVER)
        return pthread_cond_wait(cond, mutex) == 0;
    struct timespec t = {deadline / 1000000000, (long)(deadline % 1000000000)};
    return pthread_cond_timedwait(cond, mutex, &t) == 0;
}

bool sdb_fd_open(int fd[2])
{
#ifdef __linux__
    fd[0] = fd[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
#else
    if (pipe(fd) == 0) {
        for (int i = 0; i < 2; i++) {
            fcntl(fd[i], F_SETFL, O_NONBLOCK);
            fcntl(fd[i], F_SETFD, FD_CLOEXEC);
        }
    } else {
        fd[0] = fd[1] = -1;
    }
#endif
    return fd[0] >= 0;
}

void sdb_fd_close(int fd[2])
{
    if (fd[0] >= 0)
        close(fd[0]);
    if (fd[1] >= 0 && fd[1] != fd[0])
        close(fd[1]);
    fd[0] = fd[1] = -1;
}

void sdb_fd_raise(int to)
{
    uint64_t one = 1; /* eight bytes are what an eventfd wants, and do no harm in a pipe */
    if (to >= 0) {
        ssize_t n = write(to, &one, sizeof one);
        (void)n; /* where it is full it is readable */
    }
}

void sdb_fd_clear(const int fd[2])
{
    uint64_t n;
    while (fd[0] >= 0 && read(fd[0], &n, sizeof n) > 0)
        ;
}
