/* mem.h - heap memory for everything that is not a row or a node, and the fault injector.
**
** Every allocation of core/ goes through here or through arena.h, and both ask sdb_mem_fault()
** first, so a test can make the Nth of them fail: SQLite's way (test_malloc.c). */
#ifndef SDB_MEM_H
#define SDB_MEM_H

#include "statedb.h"

/* malloc, zeroed malloc and realloc; NULL when there is no memory or a fault is due. free accepts
** NULL. Thread safe. */
void *sdb_malloc(size_t n);
void *sdb_zalloc(size_t n);
void *sdb_realloc(void *p, size_t n);
void sdb_free(void *p);

/* An array with room for one more than its n members of that size: `at`, or another place it has been
** moved to. NULL: no memory, `at` is as it was. */
void *sdb_grow(void *at, uint32_t *room, uint32_t n, size_t size);

/* Whether work is to stop that has gone over n things; asked of one in four thousand. stop may be NULL,
** and have nobody to ask. */
static inline bool sdb_stop_due(const sdb_stop *stop, uint64_t n)
{
    return stop && stop->is_due && n % 4096 == 0 && stop->is_due(stop->ctx);
}

/* A growable run of bytes. */
typedef struct sdb_buf {
    uint8_t *at;
    size_t n, room;
} sdb_buf;

SDB_MUST int sdb_buf_grow(sdb_buf *buf, size_t more);

/* Room for so many bytes more. SDB_NOMEM. */
SDB_MUST static inline int sdb_buf_reserve(sdb_buf *buf, size_t more)
{
    return buf->room - buf->n >= more ? SDB_OK : sdb_buf_grow(buf, more);
}

/* Byte i of it or its end. Where nothing was ever put there is not even an address to add 0 to. */
static inline uint8_t *sdb_buf_at(const sdb_buf *buf, size_t i)
{
    return buf->at ? buf->at + i : NULL;
}

void sdb_buf_fini(sdb_buf *buf);

/* How many blocks are allocated and not freed; tests compare it before and after. */
int64_t sdb_mem_blocks(void);

/* Make allocation number n from now (1 = the next) fail, and all later ones too if `persistent`.
** n = 0 ends the injection. Returns how many faults the ended injection has raised. */
int64_t sdb_mem_inject(int64_t n, bool persistent);

bool sdb_mem_injecting(void);

/* Whether the allocation about to be made is to fail. */
bool sdb_mem_fault(void);

#endif
