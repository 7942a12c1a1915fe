/* Private to fnd-oci, which fills the image store of driver-oci (plugins/common/store.h).
 *
 * A process of its own, because what it reads are strangers' archives: the node starts it with a
 * deadline, and what unpacks a layer is a child that sees nothing but the layer's folder. Functions
 * that fail say why on stderr, once, and return -1. */
#ifndef FND_OCI_H
#define FND_OCI_H

#include "store.h"

#include <jansson.h>
#include <stdint.h>

#define ENTRIES_MAX   1000000 /* of a layer */
#define BLOBS_MAX     4096    /* files of an archive */
#define LAYER_MAX     (8LL * 1024 * 1024 * 1024)
#define ARCHIVE_MAX   (16LL * 1024 * 1024 * 1024)
#define LOCK_WAIT_MS  600000
#define COPY_CHUNK    262144
#define PATH_BYTES    4096

int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* -1 */

/* ---- archive.c: the files of an archive or of a folder --------------------------------------- */

struct archive_files;

/* path: a tar file, "-" for one at stdin, or the folder of an OCI layout. Its files are copied to
 * `tmp`, an open folder, unless they are in a folder already. NULL: complained. */
struct archive_files *files_open(const char *path, int tmp);
void files_close(struct archive_files *f);
/* A descriptor to be closed; -1 with errno when there is no such file. */
int files_get(struct archive_files *f, const char *name);
/* A file of JSON; NULL: it is not there, too long or no JSON. *ret_hash: of its bytes, may be
 * NULL. */
json_t *files_json(struct archive_files *f, const char *name, char ret_hash[STORE_HEX + 1]);

/* ---- unpack.c -------------------------------------------------------------------------------- */

/* Unpacks the layer that fd reads, compressed or not, into the new folder `name` of `tmp`.
 * Its bytes, uncompressed, must have the SHA-256 `diff_id`. On the disk when it returns 0. */
int unpack_layer(int fd, int tmp, const char *name, const char *diff_id);

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Loads every image of an archive into the store; `name` instead of the names that it has, or
 * NULL. Prints a line for each name. */
int load(const char *store, const char *path, const char *name);
int list(const char *store);

#endif
