/* statedb.h - the whole C interface of StateDB: stores, tables, snapshots, transactions, cursors.
**
** A STORE (sdb_db) is a multi-version database in the memory of this process: a set of tables and
** one atomic root. A TABLE keeps each row once, under a 64-bit rowid, and any number of indexes on
** it; every index is a persistent adaptive radix tree (Leis et al., ICDE 2013) whose leaves are the
** rows themselves. A SNAPSHOT is one moment of all tables of a store: taking it copies nothing, it
** never waits, it never makes anybody wait, and it holds only what it can see. A TRANSACTION
** (sdb_txn) changes any number of tables and publishes them all at once, or not at all.
**
**     sdb_open(&db)
**     sdb_txn_begin(db, &txn) -> sdb_txn_create_table, sdb_put, sdb_delete, ... -> sdb_txn_commit
**     sdb_snapshot_new(db, &s) -> sdb_snapshot_take -> sdb_cursor_* -> sdb_snapshot_drop
**
** THREADS. A store may be used by any number of threads at once. A transaction, a snapshot object
** and a cursor belong to one thread at a time (to the one that uses them; they may be handed on).
** A row may be read by any thread as long as something keeps it (below).
**
** LIFETIME OF ROWS. A row is immutable. A row pointer, and the text and blob pointers taken out of
** it, are valid while a snapshot or an open cursor that can see the row is held. A row read through
** a transaction is valid until that transaction's next change of the same table, unless an open
** cursor can see it.
**
** ERRORS. A function returns SDB_OK (0), an answer (> 0) or a failure (< 0). A failed call has
** changed nothing, unless its own comment says otherwise, and the object it was called on can be
** used further. Text for people comes from sdb_errmsg (for a code). */
#ifndef STATEDB_H
#define STATEDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SDB_MUST __attribute__((warn_unused_result))
#else
#define SDB_MUST
#endif

/* ---------------------------------------------------------------- result codes */

enum {
    SDB_OK = 0,      /* done */
    SDB_DONE = 1,    /* answer: there is no such row, or no further one */
    SDB_EXISTS = 2,  /* answer: another row, table or index holds that key or name */
    SDB_DUPLICATE = 3, /* answer: two rows hold the same key of an index that is to be unique */
    SDB_CHANGED = 4, /* answer: the row is there, but is not the one that was expected */
    SDB_NOMEM = -1,  /* the system gave no memory */
    SDB_FULL = -2,   /* the store's memory limit, or a table's address region, is used up */
    SDB_BUSY = -3,   /* another transaction is writing the table */
    SDB_STALE = -4,  /* the table has changed since this transaction's snapshot */
    SDB_TOOBIG = -5, /* a row, key or name is longer than can be stored */
    SDB_MISUSE = -6, /* the call does not fit the state of its object (the comment says which) */
    SDB_DEADLOCK = -7,   /* waiting for the table would close a circle of waiting transactions */
    SDB_INTERRUPTED = -8, /* sdb_txn_interrupt ended the wait, or an sdb_stop the work */
    SDB_NOTPREFIX = -9,  /* the value of a column with a prefix index is no prefix */
    SDB_NOTSET = -10     /* the value of a column with a multi index is none that has keys */
};

/* One English sentence for a result code. Static; never NULL. */
const char *sdb_errmsg(int rc);

/* ---------------------------------------------------------------- values and rows */

typedef enum { SDB_NULL = 0, SDB_INTEGER, SDB_REAL, SDB_TEXT, SDB_BLOB } sdb_type;

/* A value on its way in or out. For SDB_TEXT and SDB_BLOB, p points to n bytes that the caller owns
** (in) or the row owns (out). Text handed out of a row is followed by a NUL byte that n does not
** count. A REAL that is not a number is stored as NULL. */
typedef struct sdb_value {
    sdb_type type;
    uint32_t n; /* bytes of text or blob */
    union {
        int64_t i;
        double r;
        const void *p;
    } u;
} sdb_value;

/* The longest row, in bytes as stored; a longer one is SDB_TOOBIG. SQLite's own limit on a row is
** below it. */
#define SDB_MAX_ROW 0x7fff0000u

typedef struct sdb_row sdb_row;     /* one immutable record */
typedef struct sdb_table sdb_table; /* one table, from its creation until its last reader has gone */

int64_t sdb_row_rowid(const sdb_row *row);

/* The table's revision that wrote this row: each put or delete adds one to the table's revision. */
uint64_t sdb_row_revision(const sdb_row *row);

/* Whether this is what a feed shows of a row that was deleted: its last content, with the revision
** that deleted it. */
bool sdb_row_is_deleted(const sdb_row *row);

/* The value of column `column` (0 .. n_columns-1; of another NULL) of a row of that very table. O(1);
** text and blob are not copied. */
sdb_value sdb_row_value(const sdb_table *table, const sdb_row *row, int column);

/* ---------------------------------------------------------------- definitions */

#define SDB_MAX_COLUMNS 32767
#define SDB_MAX_INDEXES 64
#define SDB_MAX_NAME 65535 /* bytes of a table's or index's name */

/* How text is ordered in an index: by its bytes; with ASCII letters folded; with trailing spaces
** dropped. These are SQLite's three built-in collations. */
typedef enum { SDB_BINARY = 0, SDB_NOCASE, SDB_RTRIM } sdb_collation;

/* What an index finds: keys and ranges of them, or the prefixes that cover an address and those within
** a prefix (of IPv4 and IPv6 networks, MAC addresses, bit strings; core/prefix.h says what they look
** like). A prefix index has one column, text or blob; a row with NULL there is not in it, and a value
** that is no prefix is refused (SDB_NOTPREFIX).
**
** A multi index has one column, and a row is in it under any number of keys, tags for instance: those
** that its extractor takes out of the column's value. A row without keys is not in it. */
typedef enum { SDB_RADIX = 0, SDB_LPM, SDB_MULTI } sdb_index_kind;

/* The keys of one row, while its extractor is running: add copies a value into them. A key added twice
** is there once; NULL and empty text are keys like others. SDB_NOMEM, SDB_TOOBIG; the extractor need
** not look at them, a set that has failed stays so. */
typedef struct sdb_key_set sdb_key_set;
int sdb_key_set_add(sdb_key_set *keys, const sdb_value *value);

/* Add the keys that a row with this value in the index's column has. SDB_OK, or a failure (< 0), with
** which the row is refused: sdb_stage returns it, and sdb_txn_create_index. SDB_NOTSET is made for that.
**
** It depends on nothing but the value, for it is called again on stored rows: when they change, by
** sdb_check, and by cursors (of any thread, at the same time) that may meet a row at several keys. It
** may not call into the store. Text in the value is not always followed by a NUL. */
typedef int sdb_extract_fn(void *ctx, const sdb_value *value, sdb_key_set *keys);

/* One column of an index: of the table's, or, in a radix index that is not unique, the row's revision
** (sdb_row_revision), by which what was written since is found, behind other columns too. Every write of a row
** changes its revision, and its place in such an index. */
enum { SDB_REVISION_COLUMN = 0xffff };
typedef struct sdb_part {
    uint16_t column;   /* position in the table, or SDB_REVISION_COLUMN */
    uint8_t collation; /* sdb_collation */
    bool desc;         /* descending */
} sdb_part;

/* One index. Values order as NULL < numbers < text < blob; integers and reals interleave exactly.
** In a unique index at most one row may hold a given key; keys with a NULL in them do not count
** (as in SQL). Equal keys of a non-unique index are ordered by rowid. In a unique multi index no two
** rows may share a key. */
typedef struct sdb_index_def {
    const char *name; /* unique in the table, without regard to ASCII case */
    bool unique;
    uint16_t n_parts; /* at least 1 */
    const sdb_part *parts;
    uint8_t kind; /* sdb_index_kind */
    sdb_extract_fn *extract; /* of a multi index; else it is not looked at */
    void *extract_ctx;       /* handed to it; it outlives the store */
} sdb_index_def;

/* One table. Everything is copied; nothing but an extractor's ctx need outlive the call. */
typedef struct sdb_table_def {
    const char *name;      /* unique in the store, without regard to ASCII case */
    const char *sql;       /* a note the table carries for its owner, or NULL (sdb_table_sql) */
    uint16_t n_columns;    /* at least 1 */
    int32_t rowid_column;  /* the column that *is* the rowid and is not stored twice, or -1 */
    uint16_t n_indexes;    /* besides the one on rowid, which every table has */
    const sdb_index_def *indexes;
} sdb_table_def;

/* Index numbers: 0 is the tree of rows by rowid; i in 1..n_indexes is indexes[i-1] of the
** definition. */
#define SDB_BY_ROWID 0

/* For cursors, of a table that has a feed (below): its rows by the revision that wrote them, an index of
** one integer column. */
#define SDB_BY_REVISION (SDB_MAX_INDEXES + 1)

const char *sdb_table_name(const sdb_table *table); /* as given at creation */
const char *sdb_table_sql(const sdb_table *table); /* as given at creation; never NULL */
uint64_t sdb_table_id(const sdb_table *table);     /* differs for every table ever made here */
int sdb_table_columns(const sdb_table *table);

/* The indexes the table was made with, 1 .. sdb_table_indexes (of another number NULL). Those it has
** later are asked of a snapshot or a transaction. */
int sdb_table_indexes(const sdb_table *table);
const sdb_index_def *sdb_table_index(const sdb_table *table, int index);

/* A counted reference keeps the table object (not its rows: those belong to snapshots) beyond a
** drop. unref accepts NULL. Thread safe. */
sdb_table *sdb_table_ref(sdb_table *table);
void sdb_table_unref(sdb_table *table);

/* ---------------------------------------------------------------- stores */

typedef struct sdb_db sdb_db;
typedef struct sdb_snapshot sdb_snapshot;
typedef struct sdb_txn sdb_txn;
typedef struct sdb_cursor sdb_cursor;

/* Asked now and then by calls that may take long; once it says true the call ends with
** SDB_INTERRUPTED, nothing changed. It must not call into the store. */
typedef struct sdb_stop {
    bool (*is_due)(void *ctx);
    void *ctx;
} sdb_stop;

/* A new, empty store, counted once. SDB_NOMEM. */
SDB_MUST int sdb_open(sdb_db **out);

/* Counted references; unref accepts NULL. The snapshots, cursors, watches and sets made from a store
** count too, and so do open transactions: with the last of all these the store is freed, with its
** tables. */
sdb_db *sdb_ref(sdb_db *db);
void sdb_unref(sdb_db *db);

/* At most so many bytes for rows and trees of all tables together; 0: no limit (the start). Takes
** effect at the next allocation; a change that would pass it returns SDB_FULL. */
void sdb_set_limit(sdb_db *db, uint64_t bytes);

typedef struct sdb_memory {
    uint64_t live;     /* bytes in rows and nodes: the newest version and all that is held */
    uint64_t retired;  /* of these, bytes replaced or deleted and kept only by older snapshots */
    uint64_t mapped;   /* bytes of memory taken from the system for them (a table that has passed 2 MiB
                       ** takes pages of that size where there are any: up to one more each) */
    uint64_t reserved; /* bytes of address space set aside (costs nothing until used) */
} sdb_memory;

/* Sums over all tables, those that were dropped and are still held too. O(tables). Thread safe. */
void sdb_memory_used(sdb_db *db, sdb_memory *out);

/* Walk every structure of the newest version of every table and compare them with each other.
** Returns NULL when all is well (or there is no memory to say otherwise), else a sentence saying
** what is wrong and where, to be freed with free(). O(everything). */
char *sdb_check(sdb_db *db);

/* ---------------------------------------------------------------- snapshots */

/* A snapshot object, holding nothing yet. Make it once and use it again and again: only making it
** can fail (SDB_NOMEM). free accepts NULL and drops first. */
SDB_MUST int sdb_snapshot_new(sdb_db *db, sdb_snapshot **out);
void sdb_snapshot_free(sdb_snapshot *snap);

/* Hold the newest committed version of the whole store. Wait-free but for a retry when a commit
** happens at the same instant; no allocation; a few tens of nanoseconds. Dropping lets go of it
** (and does nothing when nothing is held; taking drops first); what only it could see becomes free
** memory at once or with the next commit. A snapshot that holds nothing has no tables: functions that
** give a count or a pointer give 0 and NULL. */
void sdb_snapshot_take(sdb_snapshot *snap);
void sdb_snapshot_drop(sdb_snapshot *snap);
bool sdb_snapshot_held(const sdb_snapshot *snap);

/* The number of the newest commit it sees; 0 when it holds nothing. Two snapshots of one number are of the
** same moment: a cursor on one that was dropped can be used again while another holds it. O(1). */
uint64_t sdb_snapshot_commit(const sdb_snapshot *snap);

/* The table of that name in the held version, or NULL; and the other way: its name there, or NULL for a
** table that is not there. Borrowed: valid while the snapshot is held. O(tables), O(1). */
sdb_table *sdb_snapshot_table(const sdb_snapshot *snap, const char *name);
const char *sdb_snapshot_name(const sdb_snapshot *snap, const sdb_table *table);

/* Number of rows, and the revision, of a table in the held version. O(1). 0 for a table that is not
** in it. */
uint64_t sdb_snapshot_count(const sdb_snapshot *snap, const sdb_table *table);
uint64_t sdb_snapshot_revision(const sdb_snapshot *snap, const sdb_table *table);

/* The indexes of a table in the held version: how many besides index 0, and each by its number
** (1 .. that; NULL for another). Borrowed: valid while the snapshot is held. */
int sdb_snapshot_indexes(const sdb_snapshot *snap, const sdb_table *table);
const sdb_index_def *sdb_snapshot_index(const sdb_snapshot *snap, const sdb_table *table, int index);

/* A number that differs for every set of indexes a table has ever had, 0 for the one it was made with:
** who keeps index numbers for longer, a query plan for instance, can see by it whether they still mean
** the same. 0 also for a table that is not in the version. */
uint64_t sdb_snapshot_indexes_id(const sdb_snapshot *snap, const sdb_table *table);

/* Rows of the held version by their rowids: out[i] is the row of rowids[i], or NULL. Borrowed: valid
** while the snapshot is held. Many at once overlap their cache misses: in a table larger than the cache
** they are five times as fast as one by one. No allocation; cannot fail. O(n). */
void sdb_snapshot_get_many(const sdb_snapshot *snap, const sdb_table *table, const int64_t *rowids,
                           size_t n, const sdb_row **out);

/* The same through a unique index: `keys` are n keys, one after the other, of one value for each of the
** index's columns. A key with a NULL in it finds nothing. SDB_MISUSE: the snapshot has no such index,
** or it is not unique, or one of prefixes or a multi index; SDB_NOMEM. */
SDB_MUST int sdb_snapshot_find_many(const sdb_snapshot *snap, const sdb_table *table, int index,
                                    const sdb_value *keys, size_t n, const sdb_row **out);

/* The store can keep a snapshot by name: the newest version, or the one that `of` holds. It costs
** nothing to make and holds what has changed since. save: SDB_EXISTS, SDB_TOOBIG, SDB_NOMEM,
** SDB_MISUSE when `of` holds nothing. load lets `snap` hold what that name stands for (and drops what
** it held before); load and forget: SDB_DONE when there is none. Thread safe. */
SDB_MUST int sdb_snapshot_save(sdb_db *db, const char *name, const sdb_snapshot *of);
SDB_MUST int sdb_snapshot_load(sdb_snapshot *snap, const char *name);
SDB_MUST int sdb_snapshot_forget(sdb_db *db, const char *name);

/* Something that holds a moment of the store: a snapshot, the one that a transaction began from, or a
** cursor that has outlived its transaction. */
typedef struct sdb_snapshot_info {
    const char *name; /* of a named one, else NULL; valid during the call */
    uint64_t txn;     /* sdb_txn_id of the open transaction it belongs to, or 0 */
    uint64_t commit;  /* the number of the newest commit it sees; later commits have larger ones */
    int64_t age_ms;
    uint64_t bytes; /* kept for it: rows and nodes replaced or deleted since and that no newer one sees,
                    ** and tables dropped since */
} sdb_snapshot_info;

/* Call `each` for everything that is held, when the list of it has been made: it may use the store as
** it likes. SDB_NOMEM. */
SDB_MUST int sdb_snapshot_each(sdb_db *db, void (*each)(void *ctx, const sdb_snapshot_info *info),
                               void *ctx);

/* What differs between two held snapshots of a store in the rows of a table, in order of rowid. Rows
** that both have are passed over by whole subtrees: O(differences × depth). open: SDB_MISUSE when one
** of them holds nothing, SDB_NOMEM; a table that is not in one of them has no rows there. next: SDB_OK,
** or SDB_DONE after the last. before and after: the row as it was and as it is, NULL where it was not
** or is not. Both stay held meanwhile. */
typedef struct sdb_diff sdb_diff;
SDB_MUST int sdb_diff_new(sdb_db *db, sdb_diff **out);
void sdb_diff_free(sdb_diff *diff);
SDB_MUST int sdb_diff_open(sdb_diff *diff, const sdb_snapshot *before, const sdb_snapshot *after,
                           sdb_table *table);
SDB_MUST int sdb_diff_next(sdb_diff *diff);
const sdb_row *sdb_diff_before(const sdb_diff *diff);
const sdb_row *sdb_diff_after(const sdb_diff *diff);

/* ---------------------------------------------------------------- transactions */

/* Begin: takes a snapshot of the store, locks nothing. SDB_NOMEM. */
SDB_MUST int sdb_txn_begin(sdb_db *db, sdb_txn **out);

/* Begin with what a snapshot of the store holds, to read that, and to write the tables that have not
** changed since (the others are SDB_STALE). SDB_MISUSE when it holds nothing or is of another store;
** SDB_NOMEM. */
SDB_MUST int sdb_txn_begin_at(sdb_db *db, const sdb_snapshot *at, sdb_txn **out);

/* Let a snapshot hold what the transaction reads apart from its own changes. SDB_MISUSE when it is of
** another store. */
SDB_MUST int sdb_txn_snapshot(const sdb_txn *txn, sdb_snapshot *snap);

/* A number that no other transaction of the store has had. */
uint64_t sdb_txn_id(const sdb_txn *txn);

/* Tables as this transaction sees them, its own creations and drops included. NULL: none. Borrowed:
** valid until the transaction ends or the table is dropped in it. */
sdb_table *sdb_txn_table(sdb_txn *txn, const char *name);
const char *sdb_txn_name(const sdb_txn *txn, const sdb_table *table);
uint64_t sdb_txn_count(sdb_txn *txn, const sdb_table *table);
uint64_t sdb_txn_revision(sdb_txn *txn, const sdb_table *table);

/* Create, drop, rename: become visible to others with the commit. create: SDB_EXISTS, SDB_TOOBIG,
** SDB_NOMEM, SDB_MISUSE for a definition that names a column it has not; *out borrowed as above.
** drop and rename lock the table: SDB_BUSY, SDB_STALE. */
SDB_MUST int sdb_txn_create_table(sdb_txn *txn, const sdb_table_def *def, sdb_table **out);
SDB_MUST int sdb_txn_drop_table(sdb_txn *txn, sdb_table *table);
SDB_MUST int sdb_txn_rename_table(sdb_txn *txn, sdb_table *table, const char *name);

/* Create an index over the rows there are, or drop one: part of the transaction like any change,
** undone with it or with a savepoint; readers go on meanwhile. The new index gets the next number;
** dropping one moves those behind it down. Forgets a staged row of the table. create: SDB_EXISTS (the
** name is taken, without regard to ASCII case), SDB_DUPLICATE, SDB_TOOBIG (63 are there), SDB_MISUSE
** (no such column), SDB_NOTPREFIX and what an extractor returns (of the first such row), SDB_NOMEM,
** SDB_FULL, SDB_BUSY, SDB_STALE. O(rows × key length). */
SDB_MUST int sdb_txn_create_index(sdb_txn *txn, sdb_table *table, const sdb_index_def *def);
SDB_MUST int sdb_txn_drop_index(sdb_txn *txn, sdb_table *table, int index);

/* The indexes of a table as the transaction sees it; NULL for a number that is none. find: the number
** of the index of that name without regard to ASCII case, or 0. Borrowed: valid until an index of it is created or dropped. */
int sdb_txn_indexes(const sdb_txn *txn, const sdb_table *table);
const sdb_index_def *sdb_txn_index(const sdb_txn *txn, const sdb_table *table, int index);
uint64_t sdb_txn_indexes_id(const sdb_txn *txn, const sdb_table *table);
int sdb_txn_find_index(const sdb_txn *txn, const sdb_table *table, const char *name);

/* One row by rowid as the transaction sees it, or NULL. O(8). */
const sdb_row *sdb_txn_get(sdb_txn *txn, sdb_table *table, int64_t rowid);

/* The largest rowid in the table: SDB_OK, or SDB_DONE when it is empty. */
SDB_MUST int sdb_txn_last_rowid(sdb_txn *txn, sdb_table *table, int64_t *out);

/* The table's sequence: a number that its owner keeps with it, for keys that are not to be used twice
** though their rows are deleted. 0 at first; no row changes it. What a transaction sets is published,
** undone and kept by savepoints like its rows. get: 0 for a table that is not there. set locks the table:
** SDB_BUSY and the others of sdb_txn_lock. */
int64_t sdb_txn_sequence(sdb_txn *txn, const sdb_table *table);
SDB_MUST int sdb_txn_set_sequence(sdb_txn *txn, sdb_table *table, int64_t value);

/* The first write to a table locks it for this transaction until its end; the writing calls below
** lock by themselves, this one does nothing else. While another transaction holds the lock the call
** waits its turn, first come first served, as long as sdb_txn_set_timeout says (at first not at all),
** then SDB_BUSY. SDB_DEADLOCK at once when those that would have to end first wait for this very
** transaction; SDB_INTERRUPTED; SDB_STALE when the table has changed since this transaction's
** snapshot. In a transaction that has read nothing but tables it has locked the snapshot is taken anew
** instead, unless a table that it had has been dropped: so one that locks before it reads is never stale
** otherwise. */
SDB_MUST int sdb_txn_lock(sdb_txn *txn, sdb_table *table);

/* Whether it has locked the table; whether anybody has, at this moment. */
bool sdb_txn_is_locked(const sdb_txn *txn, const sdb_table *table);
bool sdb_table_is_locked(const sdb_table *table);

/* Lock several tables, in an order that is the same for everybody, so that transactions which take
** all their locks by one such call never wait in a circle. When one cannot be had, those before it
** stay locked. A table may be named twice. */
SDB_MUST int sdb_txn_lock_all(sdb_txn *txn, sdb_table *const *tables, int n);

/* How long a lock is waited for, in milliseconds; < 0: for ever. */
void sdb_txn_set_timeout(sdb_txn *txn, int64_t ms);

/* While a lock is waited for, `stop` is asked every so many milliseconds; while sdb_txn_create_index,
** sdb_delete_all or sdb_txn_check goes over the rows, at every few thousandth. {NULL}: nobody is, as at first. */
void sdb_txn_set_stop(sdb_txn *txn, int64_t ms, sdb_stop stop);

/* What is read between begin and end is looked at for planning only, and does not count as reading;
** nothing of it may be kept. begin returns what end is given. */
bool sdb_txn_peek_begin(const sdb_txn *txn);
void sdb_txn_peek_end(sdb_txn *txn, bool begin);

/* From any thread while the transaction is open: the wait it is in, or the next one, ends. */
void sdb_txn_interrupt(sdb_txn *txn);

/* Writing a row goes in steps, so that a caller can find out about every conflict before anything
** changes, and remove it:
**
**     sdb_stage(txn, table, rowid, values)   builds the row and its keys, changes nothing
**     sdb_stage_put(txn, old)                puts it in, in place of `old` where that is not NULL
**     sdb_stage_clash(txn, i, except)        the row that index i does not allow beside it
**
** One row is staged at a time; staging again, sdb_stage_drop and the end of the transaction forget
** the staged one. sdb_delete may be called while a row is staged (REPLACE does).
**
** sdb_stage: `values` has the table's n_columns entries; the rowid column's entry is not looked at.
** SDB_NOMEM, SDB_FULL, SDB_TOOBIG, SDB_BUSY, SDB_STALE, SDB_NOTPREFIX, what an extractor returns.
** O(bytes of the row and keys).
**
** sdb_stage_clash: index 0 is rowid; a non-unique index gives NULL always. The row `except` (the
** one to be replaced, or NULL) does not clash. In a unique multi index there may be several such rows;
** when the one that is given has been deleted, the next is.
**
** sdb_stage_put: the staged row goes into every index, `old` (a row of this table as the
** transaction sees it, with the same or another rowid) leaves every index; one revision. SDB_EXISTS:
** a row is in the way; nothing has changed, and the staged row stays, so that sdb_stage_clash can tell
** which row it is. SDB_NOMEM, SDB_FULL: nothing has changed, the staged row is forgotten.
** O(indexes × key length).
**
** sdb_put_over: sdb_stage and sdb_stage_put in one call, which costs less, least of all where `old` is
** of this very transaction and the new row differs only in columns without an index. */
SDB_MUST int sdb_stage(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values);
const sdb_row *sdb_stage_clash(sdb_txn *txn, int index, const sdb_row *except);
SDB_MUST int sdb_stage_put(sdb_txn *txn, const sdb_row *old);
SDB_MUST int sdb_put_over(sdb_txn *txn, sdb_table *table, const sdb_row *old, int64_t rowid,
                          const sdb_value *values);
void sdb_stage_drop(sdb_txn *txn);

/* Insert, or replace the row of that rowid: stage and put in one call. SDB_EXISTS when a unique
** index holds the key for another row. */
SDB_MUST int sdb_put(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values);

/* Delete a row that this transaction sees. SDB_NOMEM, SDB_FULL, SDB_BUSY, SDB_STALE. */
SDB_MUST int sdb_delete(sdb_txn *txn, sdb_table *table, const sdb_row *row);

/* Put or delete the row of a rowid if it is still the one of that revision; with SDB_ABSENT, put if
** there is none. SDB_DONE: there is no such row. SDB_CHANGED: there is one, of another revision (or,
** with SDB_ABSENT, of any); sdb_txn_get shows it. SDB_EXISTS as sdb_put: another row is in the way,
** and to look again will not help. Otherwise the failures of sdb_put and sdb_delete. The table is
** locked in any case, so the answer holds until the transaction ends; unless it is SDB_OK nothing has
** been written, no revision used and no watch touched. */
#define SDB_ABSENT ((uint64_t)0) /* no row has this revision */
SDB_MUST int sdb_put_if(sdb_txn *txn, sdb_table *table, int64_t rowid, const sdb_value *values,
                        uint64_t revision);
SDB_MUST int sdb_delete_if(sdb_txn *txn, sdb_table *table, int64_t rowid, uint64_t revision);

/* What is to become of a row. `old` is the present one, or NULL; `values` are all of its columns (all
** NULL where there is none), to be changed as wanted; text and blobs put there must live until
** sdb_modify returns, and may lie in `old`. SDB_OK: put them; whatever else is returned ends
** sdb_modify with just that. It may use the transaction as it likes, but not end it: commit is
** SDB_MISUSE then, and abort does nothing. */
typedef int sdb_modify_fn(void *ctx, const sdb_row *old, sdb_value *values);

/* Read a row, let it be changed, and put it: one lock, one look-up. The rowid stays what it is.
** SDB_CHANGED: the function has itself, on the way, put or deleted that very row; what it did
** stands, and its values were not put. Otherwise as sdb_put. */
SDB_MUST int sdb_modify(sdb_txn *txn, sdb_table *table, int64_t rowid, sdb_modify_fn *fn, void *ctx);

/* Delete all rows, each as sdb_delete does; or, where that fails, none. Forgets a staged row.
** O(rows × indexes × key length). */
SDB_MUST int sdb_delete_all(sdb_txn *txn, sdb_table *table);

/* Savepoints are a stack. sdb_txn_savepoint marks the present state and gives its position in the
** stack (0, 1, ...). rollback_to returns to that state, keeps that mark and removes those above it;
** it cannot fail (SDB_MISUSE: there is no such savepoint). release removes that mark and those above it, keeping the changes. O(tables
** written). Cursors open on the transaction go on seeing what they saw. */
SDB_MUST int sdb_txn_savepoint(sdb_txn *txn, int *out);
int sdb_txn_rollback_to(sdb_txn *txn, int savepoint);
int sdb_txn_release(sdb_txn *txn, int savepoint);

/* Prepare does all of a commit that can fail and publishes nothing; more changes, another prepare
** or an abort may follow. Commit publishes every change at once, unlocks and frees the transaction;
** after a successful prepare with no change since it cannot fail, otherwise it prepares first, and
** when that fails (SDB_NOMEM) the transaction stays open. Abort undoes everything and frees it;
** it accepts NULL. (Until the object is used again, which may be at once, calls on an ended
** transaction are SDB_MISUSE.) Open cursors survive both and go on seeing what they saw. */
SDB_MUST int sdb_txn_prepare(sdb_txn *txn);
int sdb_txn_commit(sdb_txn *txn);
void sdb_txn_abort(sdb_txn *txn);

/* As sdb_check, for the tables as this transaction sees them. When its sdb_txn_set_stop ends it, a sentence
** says so. */
char *sdb_txn_check(sdb_txn *txn);

/* ---------------------------------------------------------------- cursors */

/* What a cursor is to visit: the rows of an index whose first n_eq columns equal `eq`, and whose
** next column lies within the bounds given. Bounds are by value: lower is the smaller value in
** SDB_NULL < numbers < text < blob order whether or not the column is descending. Zeroed: all rows,
** forwards. For index 0 the one column is the rowid. A lower bound of NULL with lower_open leaves
** out the NULLs, as every SQL comparison does.
**
** In a multi index the range is one of keys: a row that has several in it is visited once, at the first
** of them in the cursor's direction, and one without keys never. */
typedef struct sdb_range {
    const sdb_value *eq;
    uint16_t n_eq;
    bool reverse;           /* from the index's end to its beginning */
    bool lower_open;        /* > instead of >= */
    bool upper_open;        /* < instead of <= */
    const sdb_value *lower; /* or NULL */
    const sdb_value *upper; /* or NULL */
} sdb_range;

/* A cursor object, open on nothing. Make once, open and close many times; free closes and accepts
** NULL. SDB_NOMEM. */
SDB_MUST int sdb_cursor_new(sdb_db *db, sdb_cursor **out);
void sdb_cursor_free(sdb_cursor *cur);

/* Open on an index of a table as a held snapshot, or a transaction at this moment, sees it. The
** cursor never sees later changes, its own transaction's included. A cursor on a snapshot needs
** that snapshot held until it is closed; a cursor on a transaction stands by itself, beyond the
** transaction's end too, but must be closed by the thread of that transaction. SDB_MISUSE: the
** table is not in that version, or it has no such index. No allocation. */
SDB_MUST int sdb_cursor_open(sdb_cursor *cur, const sdb_snapshot *snap, sdb_table *table, int index);
SDB_MUST int sdb_cursor_open_txn(sdb_cursor *cur, sdb_txn *txn, sdb_table *table, int index);
void sdb_cursor_close(sdb_cursor *cur);

/* Go to the first row of a range: SDB_OK, or SDB_DONE when it has none. May be called again.
** SDB_NOMEM for keys longer than the cursor's own buffers. O(key length). */
SDB_MUST int sdb_cursor_seek(sdb_cursor *cur, const sdb_range *range);

/* The same in a prefix index. An address is the prefix of all its bits.
**
**   SDB_EXACT     the rows with this very prefix
**   SDB_LONGEST   the rows with the longest prefix that covers it
**   SDB_COVERS    the rows with any prefix that covers it, longest first (reverse: shortest first)
**   SDB_WITHIN    the rows with any prefix that it covers, in order of address, a prefix before what is
**                 within it (reverse: the other way)
**
** Rows of one prefix are in order of rowid (with reverse, of SDB_WITHIN, backwards too). NULL: no rows.
** SDB_OK, SDB_DONE, SDB_NOTPREFIX, SDB_MISUSE when the index is of another kind. In a prefix index
** sdb_cursor_seek takes all rows, in the order of SDB_WITHIN, or one equal prefix. */
typedef enum { SDB_EXACT, SDB_LONGEST, SDB_COVERS, SDB_WITHIN } sdb_prefix_op;
SDB_MUST int sdb_cursor_seek_prefix(sdb_cursor *cur, sdb_prefix_op op, const sdb_value *prefix,
                                    bool reverse);

/* Go to the next row: SDB_OK or SDB_DONE; SDB_NOMEM only in trees deeper than 24 nodes. Amortised
** O(1). */
SDB_MUST int sdb_cursor_next(sdb_cursor *cur);

/* Go n rows further at once, as so many calls of sdb_cursor_next; 0 stays. After a seek that is the row
** of that place in the range. O(depth), but O(n) in a prefix index, and in a multi index unless the
** range is one key. */
SDB_MUST int sdb_cursor_skip(sdb_cursor *cur, uint64_t n);

/* The row the cursor is at; NULL before a seek and after SDB_DONE. */
const sdb_row *sdb_cursor_row(const sdb_cursor *cur);

/* Exactly how many rows of the open version lie in a range, without visiting them. O(key length).
** The cursor does not move. SDB_NOMEM as for seek; SDB_MISUSE in a prefix index, and in a multi index
** unless `eq` is one key: in a range of keys a row may lie several times. */
SDB_MUST int sdb_cursor_count(sdb_cursor *cur, const sdb_range *range, uint64_t *out);

/* Fetch what n look-ups are going to read, in no more time than a few of them would wait for it: for who knows
** which come next. values: those of the first n_eq columns of the index that the cursor is open on, n times; in
** a prefix index one, and the look-up is of the longest cover. It changes nothing, and the cursor does not
** move. out, unless NULL: n rows, those of keys that only one row has, else NULL, and NULL too where values are
** none or so long that they are passed over. False: it is of no use, in a small index, a multi index or
** sdb_sorted rows. No allocation. O(n × key length). */
bool sdb_cursor_look_ahead(const sdb_cursor *cur, const sdb_value *values, int n_eq, size_t n,
                           const sdb_row **out);

/* An index that no table has, made for one reader: the rows of a version in the order of any
** definition (of radix kind; it need not be unique where it says so). The version is that of an open
** cursor on an index of its own; the rows must be held by whoever uses them, by that cursor for
** instance. sdb_cursor_read lets a cursor that is open on the same version go through them, instead of
** its index, until it is closed: it seeks, counts and steps as it would in such an index. free accepts
** NULL; no cursor may be reading it then. stop may be NULL. 12 bytes a row, twice that and the keys while
** it is made. SDB_MISUSE, SDB_NOMEM, SDB_INTERRUPTED. O(rows × key length). */
typedef struct sdb_sorted sdb_sorted;
SDB_MUST int sdb_sorted_new(const sdb_cursor *cur, const sdb_index_def *def, const sdb_stop *stop,
                            sdb_sorted **out);
void sdb_sorted_free(sdb_sorted *sorted);
SDB_MUST int sdb_cursor_read(sdb_cursor *cur, const sdb_sorted *sorted);

/* ---------------------------------------------------------------- watches */

/* A watch tells when a range of an index may have changed. It is armed for a snapshot and fires once,
** after the first commit that has put, changed or deleted a row in the range, or dropped the table or
** the index: when it has fired, a snapshot taken then shows the change. It never fires for an abort,
** a change elsewhere does not fire it (but for a transaction that was already writing the table when
** it was armed: that one's commit fires it whatever it has changed), and no change since the
** snapshot is missed. Arming costs O(watches of the index), a commit O(log watches) for each changed
** row, nothing where there are no watches.
**
** A watch belongs to one thread at a time, but any thread's commit may fire it; sdb_watch_fired and
** the waiting calls may be used while others commit. */
typedef struct sdb_watch sdb_watch;
typedef struct sdb_watch_set sdb_watch_set;

/* A watch, not armed. SDB_NOMEM. free disarms, takes it out of its set, and accepts NULL. */
SDB_MUST int sdb_watch_new(sdb_db *db, sdb_watch **out);
void sdb_watch_free(sdb_watch *watch);

/* Arm for a range as a cursor on the same snapshot would read it; armed before, it is disarmed first.
** If the table has changed since the snapshot it has fired when this returns. The snapshot need not
** be held any longer. SDB_MISUSE as sdb_cursor_open and sdb_cursor_seek, SDB_NOMEM. */
SDB_MUST int sdb_watch_arm(sdb_watch *watch, const sdb_snapshot *snap, sdb_table *table, int index,
                           const sdb_range *range);

/* The same for what sdb_cursor_seek_prefix finds in a prefix index. It fires for changes of rows with
**
**   SDB_EXACT     this very prefix
**   SDB_LONGEST   a prefix that covers it and is no shorter than the one that was the longest
**   SDB_COVERS    any prefix that covers it
**   SDB_WITHIN    any prefix that it covers
**
** and so for just those that change what is found. A commit's change of a prefix costs O(log watches +
** watches on what that prefix covers). SDB_NOTPREFIX. */
SDB_MUST int sdb_watch_arm_prefix(sdb_watch *watch, const sdb_snapshot *snap, sdb_table *table,
                                  int index, sdb_prefix_op op, const sdb_value *prefix);
void sdb_watch_disarm(sdb_watch *watch);

/* Whether it has fired since it was last armed. */
bool sdb_watch_fired(const sdb_watch *watch);

/* Wait until it has fired: SDB_OK, or SDB_DONE after so many milliseconds (< 0: for ever). SDB_MISUSE:
** it is not armed. */
SDB_MUST int sdb_watch_wait(sdb_watch *watch, int64_t timeout_ms);

/* A file descriptor that is readable from the moment the watch fires until it is armed again, for
** event loops: an eventfd on Linux, a pipe elsewhere. It belongs to the watch. < 0: the system gave
** none. */
int sdb_watch_fd(sdb_watch *watch);

/* When it fires, write eight bytes to this descriptor as well, at once if it has fired: an eventfd, or the
** end of a pipe that does not block. It stays the caller's, and open until the watch is freed or told
** another one; < 0: none. So many watches, of several stores too, are one descriptor to wait for. */
void sdb_watch_tell(sdb_watch *watch, int fd);

/* A set of watches to wait for together; a watch is in one set at most. add moves it there. clear
** takes all out; free clears and accepts NULL. SDB_NOMEM; SDB_MISUSE: they are of two stores. */
SDB_MUST int sdb_watch_set_new(sdb_db *db, sdb_watch_set **out);
void sdb_watch_set_free(sdb_watch_set *set);
int sdb_watch_set_add(sdb_watch_set *set, sdb_watch *watch);
void sdb_watch_set_remove(sdb_watch_set *set, sdb_watch *watch);
void sdb_watch_set_clear(sdb_watch_set *set);
bool sdb_watch_set_has(const sdb_watch_set *set, const sdb_watch *watch);

/* Move all watches of another set into this one. */
int sdb_watch_set_merge(sdb_watch_set *set, sdb_watch_set *from);

/* Wait until one of them has fired, then for settle_ms more to gather others; take those that have
** fired out of the set and put them into out[0..*n), at most `room` of them (with settle_ms 0, just
** one). SDB_OK; SDB_DONE when timeout_ms (< 0: none) went by before any fired; *n is 0 then. When the
** time is over while settling, what has been gathered is given. An empty set waits its time. SDB_MISUSE:
** room for none. */
SDB_MUST int sdb_watch_set_wait(sdb_watch_set *set, int64_t timeout_ms, int64_t settle_ms,
                                sdb_watch **out, int room, int *n);

/* ---------------------------------------------------------------- feeds */

/* A feed is a named reader of a table's changes. It sees first all rows there are, then every
** committed change in the order of commits: of a row that has changed several times the last content
** only, of a deleted row the content it had. It belongs to the table as an index does: it is made,
** moved on and dropped in transactions, undone with them, and seen by snapshots. What it has
** acknowledged it will not see again; what it has not is kept for it, deleted rows too, and freed when
** the slowest feed of the table has acknowledged it. A table without feeds pays nothing for them; with
** them a change costs two tree operations more, a deletion a copy of the row.
**
** create: SDB_EXISTS, SDB_TOOBIG. drop and acknowledge: SDB_DONE when there is no feed of that name.
** acknowledge: all up to and with a revision; never backwards. All: the errors of sdb_txn_lock,
** SDB_NOMEM, SDB_FULL. create O(rows) for the first feed of a table; acknowledge O(deletions freed). Names
** are compared without regard to ASCII case. */
SDB_MUST int sdb_txn_create_feed(sdb_txn *txn, sdb_table *table, const char *name);
SDB_MUST int sdb_txn_drop_feed(sdb_txn *txn, sdb_table *table, const char *name);
SDB_MUST int sdb_txn_acknowledge(sdb_txn *txn, sdb_table *table, const char *name, uint64_t revision);

/* The feeds of a table in a held version or a transaction's, 0 .. n-1; the number of the one of a name, or
** -1; and how far behind each is, in a transaction behind its own changes too. Borrowed. O(feeds); _feed
** O(deletions not acknowledged). */
typedef struct sdb_feed_info {
    const char *name;
    uint64_t acknowledged; /* up to and with this revision */
    uint64_t revision;     /* the table's */
    uint64_t rows;         /* rows it has not acknowledged */
    uint64_t deletions;    /* deleted rows it has not acknowledged, and that are kept for it: */
    uint64_t bytes;        /* in all so long, of which other feeds may wait for some too */
} sdb_feed_info;
int sdb_snapshot_feeds(const sdb_snapshot *snap, const sdb_table *table);
void sdb_snapshot_feed(const sdb_snapshot *snap, const sdb_table *table, int feed, sdb_feed_info *out);
int sdb_snapshot_find_feed(const sdb_snapshot *snap, const sdb_table *table, const char *name);
int sdb_txn_feeds(const sdb_txn *txn, const sdb_table *table);
void sdb_txn_feed(const sdb_txn *txn, const sdb_table *table, int feed, sdb_feed_info *out);
int sdb_txn_find_feed(const sdb_txn *txn, const sdb_table *table, const char *name);

/* The first revision that a feed has to show in a transaction, as sdb_changes_open_txn would: whoever
** acknowledges a later one acknowledges this one too. SDB_OK, SDB_DONE when there is none; SDB_MISUSE,
** SDB_NOMEM. */
SDB_MUST int sdb_txn_next_change(const sdb_txn *txn, sdb_table *table, const char *feed,
                                 uint64_t *revision);

/* Reading: what a feed has not acknowledged in a held snapshot, in order of revision. Make once, open
** many times; the snapshot stays held while it is read. open: SDB_MISUSE when the snapshot has no such
** feed, SDB_NOMEM. seek: what comes next has a larger revision than this one. next: SDB_OK, or SDB_DONE
** after the last; the first call gives the first.
**
** In a transaction the feed shows what was committed when that began, and not what it has itself
** acknowledged; never its own changes, and nothing yet of a feed that it has made. `snap` is let hold
** what is read (sdb_txn_snapshot). */
typedef struct sdb_changes sdb_changes;
SDB_MUST int sdb_changes_new(sdb_db *db, sdb_changes **out);
void sdb_changes_free(sdb_changes *changes);
SDB_MUST int sdb_changes_open(sdb_changes *changes, const sdb_snapshot *snap, sdb_table *table,
                              const char *feed);
SDB_MUST int sdb_changes_open_txn(sdb_changes *changes, const sdb_txn *txn, sdb_snapshot *snap,
                                  sdb_table *table, const char *feed);
SDB_MUST int sdb_changes_seek(sdb_changes *changes, uint64_t behind);
SDB_MUST int sdb_changes_next(sdb_changes *changes);
const sdb_row *sdb_changes_row(const sdb_changes *changes);

/* ---------------------------------------------------------------- what there is, what was done */

/* What is counted, for each table since it was made and for a store since it was opened. A transaction
** counts at the tables it has locked, where nobody else does: so counting costs an addition. */
typedef enum sdb_counter {
    SDB_N_COMMITS,  /* transactions that had locked something, by their end */
    SDB_N_ABORTS,
    SDB_N_INSERTED, /* rows put where there was none, put in place of another, deleted; those that were */
    SDB_N_UPDATED,  /* rolled back too */
    SDB_N_DELETED,
    SDB_N_LOCK_WAITS,    /* times a transaction has waited for the table, */
    SDB_N_LOCK_WAIT_NS,  /* and how long in all */
    SDB_N_BUSY,          /* locks refused, by the code that said so */
    SDB_N_DEADLOCKS,
    SDB_N_INTERRUPTED,
    SDB_N_STALE,
    SDB_N_WATCHES_ARMED, /* and fired; those that had fired when they were armed are in both */
    SDB_N_WATCHES_FIRED,
    SDB_N_SNAPSHOTS,     /* of a store alone: snapshots taken, each transaction's own too */
    SDB_N_COUNTERS
} sdb_counter;

/* Its name, "commits" for instance. Static; NULL for a number that is none. */
const char *sdb_counter_name(int counter);

typedef struct sdb_stats {
    uint64_t count[SDB_N_COUNTERS];
    uint64_t commit; /* the number of the newest commit */
    uint64_t limit;  /* sdb_set_limit; 0: none */
    sdb_memory memory;
    uint32_t tables;       /* in the newest version */
    uint32_t transactions; /* open */
    uint32_t snapshots;    /* held, besides the transactions' own; */
    uint32_t named;        /* of these, named */
    uint32_t cursors;      /* cursor objects */
    uint32_t watches;      /* armed, and not fired */
} sdb_stats;

/* O(tables + snapshots). No allocation. Thread safe. */
void sdb_stats_read(sdb_db *db, sdb_stats *out);

/* The tables of a held snapshot, or those a transaction sees, one after the other in no order: the
** first (after NULL), the next, NULL after the last. Borrowed as from sdb_snapshot_table and
** sdb_txn_table. */
sdb_table *sdb_snapshot_next_table(const sdb_snapshot *snap, const sdb_table *after);
sdb_table *sdb_txn_next_table(const sdb_txn *txn, const sdb_table *after);

typedef struct sdb_table_info {
    const char *name; /* valid as long as the table */
    uint64_t rows, revision;
    int indexes;           /* besides index 0 */
    int feeds;
    uint64_t deletions;    /* deleted rows that are kept for feeds */
    uint64_t acknowledged; /* by the slowest feed; the revision where there is none */

    /* not of that version, but now: */
    uint32_t watches; /* armed, and not fired */
    sdb_memory memory;
    uint64_t count[SDB_N_COUNTERS];
} sdb_table_info;

/* SDB_MISUSE: the table is not in that version. O(feeds). */
SDB_MUST int sdb_snapshot_table_info(const sdb_snapshot *snap, const sdb_table *table,
                                     sdb_table_info *out);
SDB_MUST int sdb_txn_table_info(sdb_txn *txn, const sdb_table *table, sdb_table_info *out);

/* One lock, or one transaction that waits for one. */
typedef struct sdb_lock_info {
    const char *table; /* valid during the call */
    uint64_t txn;      /* sdb_txn_id of who has the lock, or waits for it */
    bool is_waiting;
    int64_t ms; /* since that transaction began, or since it has waited */
} sdb_lock_info;

/* Call `each` for every lock, and behind it for those that wait for it, in their turn; as
** sdb_snapshot_each. */
SDB_MUST int sdb_lock_each(sdb_db *db, void (*each)(void *ctx, const sdb_lock_info *info), void *ctx);

#ifdef __cplusplus
}
#endif
#endif
