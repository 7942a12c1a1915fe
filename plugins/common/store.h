/* The image store of driver-oci: where things are in it, and what they are called. Shared by the
 * driver, which reads it, and fnd-oci, which fills it. All but store_shut() is pure.
 *
 *   names/<SHA-256 of the name>     first line: digest of the image; second line: the name
 *   images/<digest>.json            its configuration, as the archive had it; the digest is its own
 *   layers/<diff id>/               a layer, unpacked; names it is known by never change
 *   tmp/                            what a load is making; gone when it is over
 *   lock                            held by who writes
 *
 * Everything appears under its name by rename(), whole and on the disk. A layer's files have the
 * owners and modes of their image, setuid root among them: no other user may come near them. */
#ifndef PLUGINS_STORE_H
#define PLUGINS_STORE_H

#include "image.h"

#include <stddef.h>

#define STORE_DEFAULT    "/var/lib/fnd/oci"
#define STORE_HEX        64 /* of a SHA-256 */
#define STORE_CONFIG_MAX (1024 * 1024)
#define STORE_LAYERS_MAX 128
#define STORE_NAME_MAX   (3 * IMAGE_NAME_MAX + 8)

/* One name for an image that may be written in several ways: "docker.io/library/x" is x:latest. */
void store_canonical(const struct image_name *image, char ret[STORE_NAME_MAX]);
/* Name of its file in names/. */
void store_name_file(const struct image_name *image, char ret[STORE_HEX + 1]);
void store_hash(const void *data, size_t len, char ret[STORE_HEX + 1]);
void store_hex(const unsigned char *bytes, char ret[STORE_HEX + 1]);
/* The digits of "sha256:<64 digits>", or NULL. */
const char *store_digits(const char *digest);
/* 64 digits and no more. */
bool store_is_hex(const char *digits);
/* The folders of the store `dir`, an open folder, are its owner's alone; one that is not there need
 * not be. 0, or -1 with errno. No link is followed. */
int store_shut(int dir);

#endif
