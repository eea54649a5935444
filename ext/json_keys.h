/* json_keys.h - the keys that a JSON text stands for in a multi index: the elements of an array, the
** names in an object.
**
** The index takes them where there is no connection to ask for json_each, so they are read here, and
** are the same: a text as it is meant, without quotes and escapes; an integer where it fits 64 bits,
** else the nearest real; true is 1, false is 0, null is NULL; an array or object within is its own
** text without white space. Text that is JSON but neither array nor object is its one element, and so
** is a number that is no text. NULL has none. All of it is JSON as RFC 8259 has it, in UTF-8 that is
** not checked, 1000 levels deep at most. */
#ifndef STATEDB_JSON_KEYS_H
#define STATEDB_JSON_KEYS_H

#include "../core/statedb.h"

/* Call `each` with every key of a value, in the order they stand there; text is valid during the call.
** What it returns other than SDB_OK ends the reading with that. SDB_NOTSET: the value is a blob, or
** text that is not JSON; `each` may have been called before that is found out. SDB_NOMEM. O(bytes). */
typedef int json_each_key(void *ctx, const sdb_value *key);
int json_keys(const sdb_value *json, json_each_key *each, void *ctx);

/* json_keys for core. */
int json_extract(void *ctx, const sdb_value *json, sdb_key_set *keys);

#endif
