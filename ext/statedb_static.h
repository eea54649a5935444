/* statedb_static.h - the entry point for programs that have the extension linked in:
**
**     sqlite3_auto_extension((void (*)(void))sqlite3_statedb_static_init);    every connection
**     sqlite3_statedb_static_init(db, &message, NULL);                        this one
**
** Compile with SQLITE_CORE defined. Returns SQLITE_OK, or an error code and a message to be freed
** with sqlite3_free(). For a shared library there is sqlite3_statedb_init, by load_extension(). */
#ifndef STATEDB_STATIC_H
#define STATEDB_STATIC_H

#include <sqlite3ext.h>

#ifdef __cplusplus
extern "C" {
#endif

int sqlite3_statedb_static_init(sqlite3 *db, char **err, const sqlite3_api_routines *api);

#ifdef __cplusplus
}
#endif
#endif
