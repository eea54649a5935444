/* wait.h - waiting for a condition until a point in time, or in an event loop, the same on all systems.
**
** Time is the monotonic clock's where a condition variable can go by it. */
#ifndef SDB_WAIT_H
#define SDB_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SDB_FOREVER INT64_MAX

/* 0, or an errno. */
int sdb_cond_init(pthread_cond_t *cond);

/* Now, in nanoseconds since some moment. */
int64_t sdb_now(void);

/* The same where a few milliseconds do not matter: ten times as cheap on Linux. */
int64_t sdb_now_roughly(void);

/* The point in time so many milliseconds from now; < 0: SDB_FOREVER. */
int64_t sdb_deadline(int64_t ms);

/* pthread_cond_wait until then; false when it has come. */
bool sdb_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline);

/* A descriptor that is readable once it has been raised until it is cleared, for event loops: fd[0], of an
** eventfd on Linux, of a pipe elsewhere; fd[1] is to be written to. Both < 0: there is none, which raise,
** clear and close accept. open: false where the system gives none. */
bool sdb_fd_open(int fd[2]);
void sdb_fd_close(int fd[2]);
void sdb_fd_raise(int to); /* fd[1] */
void sdb_fd_clear(const int fd[2]);

#endif
