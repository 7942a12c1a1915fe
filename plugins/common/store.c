/* What one image is called, however its name was written, and the hexadecimal digits of its
 * files. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUB     "docker.io"
#define LIBRARY "library/"

void store_canonical(const struct image_name *image, char ret[STORE_NAME_MAX])
{
    bool hub = !*image->registry || strcmp(image->registry, HUB) == 0 ||
               strcmp(image->registry, "index." HUB) == 0;
    const char *path = image->path;

    if (hub && strncmp(path, LIBRARY, strlen(LIBRARY)) == 0) {
        path += strlen(LIBRARY);
    }
    snprintf(ret, STORE_NAME_MAX, "%s%s%s%c%s", hub ? "" : image->registry, hub ? "" : "/", path,
             image->by_digest ? '@' : ':', image->tag);
}

void store_hex(const unsigned char *bytes, char ret[STORE_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < STORE_HEX / 2; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[STORE_HEX] = '\0';
}

void store_hash(const void *data, size_t len, char ret[STORE_HEX + 1])
{
    unsigned char bytes[SHA256_DIGEST_LENGTH];

    SHA256(data, len, bytes);
    store_hex(bytes, ret);
}

void store_name_file(const struct image_name *image, char ret[STORE_HEX + 1])
{
    char name[STORE_NAME_MAX];

    store_canonical(image, name);
    store_hash(name, strlen(name), ret);
}

bool store_is_hex(const char *digits)
{
    return digits && strspn(digits, "0123456789abcdef") == STORE_HEX && !digits[STORE_HEX];
}

const char *store_digits(const char *digest)
{
    static const char kind[] = "sha256:";

    return digest && strncmp(digest, kind, strlen(kind)) == 0 && store_is_hex(digest + strlen(kind))
               ? digest + strlen(kind)
               : NULL;
}

int store_shut(int dir)
{
    static const char *const folders[] = { "names", "images", "layers" };
    int r = 0;

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && r == 0; i++) {
        int fd = openat(dir, folders[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        r = fd >= 0 ? fchmod(fd, 0700) : errno == ENOENT ? 0 : -1;
        if (fd >= 0) {
            close(fd); /* leaves errno: nothing was written */
        }
    }
    return r;
}
