/* From an archive's files to images of the store: what is in it, then its layers, then its
 * configuration, then its names, so that a name never leads to something that is not whole. */
#include "oci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_STEP_MS  100
#define INDEX_DEPTH   2 /* an index of indexes, as of images for several machines */
#define MANIFESTS_MAX 64

#if defined(__x86_64__)
#define MACHINE "amd64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#else
#define MACHINE ""
#endif

struct store {
    int dir, tmp, lock;
    struct archive_files *files;
    const char *name; /* instead of the archive's names, or NULL */
    int loaded;
};

/* An image as an archive has it: names of files, lowest layer first. */
struct found {
    const char *config, *config_digest; /* digest: 64 digits, or NULL */
    json_t *layers;                     /* texts */
};

/* ---- the store ------------------------------------------------------------------------------- */

static int take_lock(struct store *s)
{
    const struct timespec step = { 0, LOCK_STEP_MS * 1000000L };

    s->lock = openat(s->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int waited_ms = 0; s->lock >= 0 && waited_ms < LOCK_WAIT_MS; waited_ms += LOCK_STEP_MS) {
        if (flock(s->lock, LOCK_EX | LOCK_NB) == 0) {
            return 0;
        }
        nanosleep(&step, NULL);
    }
    return s->lock < 0 ? complain("the store cannot be locked: %s", strerror(errno))
                       : complain("another load has held the store for %d s", LOCK_WAIT_MS / 1000);
}

static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (!d && fd >= 0) {
        close(fd);
    }
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool remove_simple(int parent, const char *name)
{
    return unlinkat(parent, name, 0) == 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

/* Moves what the folder `name` of `top` has into `top`. True: some of it. */
static bool move_up(int top, const char *name, unsigned long *moves)
{
    DIR *d = open_folder(top, name);
    char moved[32];
    struct dirent *e;
    bool any = false;

    while (d && (e = readdir(d))) {
        if (!is_dots(e->d_name) && !remove_simple(dirfd(d), e->d_name)) {
            snprintf(moved, sizeof(moved), "gone-%lu", (*moves)++);
            any |= renameat(dirfd(d), e->d_name, top, moved) == 0;
        }
    }
    if (d) {
        closedir(d);
    }
    return any;
}

/* The lock is ours, so nobody is making anything. A layer may be deeper than any path is long: what
 * is in a folder is moved up before that is removed. */
static int remove_tmp(struct store *s, const char *path)
{
    DIR *top = open_folder(s->dir, "tmp");
    unsigned long moves = 0;
    struct dirent *e;
    bool again = top != NULL;

    while (again) {
        again = false;
        rewinddir(top);
        while ((e = readdir(top))) {
            if (!is_dots(e->d_name) && !remove_simple(dirfd(top), e->d_name)) {
                again |= move_up(dirfd(top), e->d_name, &moves);
                again |= remove_simple(dirfd(top), e->d_name);
            }
        }
    }
    if (top) {
        closedir(top);
    }
    return unlinkat(s->dir, "tmp", AT_REMOVEDIR) < 0 && errno != ENOENT
               ? complain("%s/tmp cannot be removed: %s", path, strerror(errno))
               : 0;
}

static int make_tmp(struct store *s, const char *path)
{
    if (remove_tmp(s, path) < 0) { /* of a load that was killed */
        return -1;
    }
    if (mkdirat(s->dir, "tmp", 0700) < 0) {
        return complain("%s/tmp: %s", path, strerror(errno));
    }
    s->tmp = openat(s->dir, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->tmp < 0 ? complain("%s/tmp: %s", path, strerror(errno)) : 0;
}

static int store_open(struct store *s, const char *path)
{
    static const char *const folders[] = { "names", "images", "layers" };

    *s = (struct store){ -1, -1, -1, NULL, NULL, 0 };
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return complain("%s: %s", path, strerror(errno));
    }
    s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir < 0) {
        return complain("%s: %s", path, strerror(errno));
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (mkdirat(s->dir, folders[i], 0700) < 0 && errno != EEXIST) {
            return complain("%s/%s: %s", path, folders[i], strerror(errno));
        }
    }
    if (store_shut(s->dir) < 0) { /* older versions made them 0755 */
        return complain("%s cannot be closed to other users: %s", path, strerror(errno));
    }
    return take_lock(s) < 0 || make_tmp(s, path) < 0 ? -1 : 0;
}

static void store_close(struct store *s, const char *path)
{
    if (s->tmp >= 0) {
        remove_tmp(s, path);
    }
    if (s->files) {
        files_close(s->files);
    }
    close(s->tmp);
    close(s->lock);
    close(s->dir);
}

static bool is_there(struct store *s, const char *path)
{
    return faccessat(s->dir, path, F_OK, 0) == 0;
}

/* Whole, or not at all. */
static int publish_file(struct store *s, const char *path, const void *data, size_t len)
{
    int fd = openat(s->tmp, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write(fd, data, len) == (ssize_t)len && fsync(fd) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return ok && renameat(s->tmp, "file", s->dir, path) == 0
               ? 0
               : complain("cannot write %s: %s", path, strerror(errno));
}

static int publish_layer(struct store *s, const char *file, const char *diff_id)
{
    char path[STORE_HEX + 16];
    int fd, r;

    snprintf(path, sizeof(path), "layers/%s", diff_id);
    if (is_there(s, path)) {
        return 0;
    }
    fd = files_get(s->files, file);
    if (fd < 0) {
        return complain("layer %.200s is not in the archive: %s", file, strerror(errno));
    }
    r = unpack_layer(fd, s->tmp, diff_id, diff_id);
    close(fd);
    if (r == 0 && renameat(s->tmp, diff_id, s->dir, path) < 0) {
        r = complain("%s: %s", path, strerror(errno));
    }
    return r;
}

/* ---- one image ------------------------------------------------------------------------------- */

/* The diff ids, if there is one for each layer. */
static json_t *diff_ids_of(json_t *config, json_t *layers)
{
    json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    size_t i;
    json_t *id;

    if (json_array_size(ids) != json_array_size(layers) || json_array_size(ids) == 0 ||
        json_array_size(ids) > STORE_LAYERS_MAX) {
        return NULL;
    }
    json_array_foreach(ids, i, id) {
        if (!store_digits(json_string_value(id))) {
            return NULL;
        }
    }
    return ids;
}

static int publish_layers(struct store *s, json_t *layers, json_t *ids)
{
    size_t i;
    json_t *file;

    json_array_foreach(layers, i, file) {
        const char *diff_id = store_digits(json_string_value(json_array_get(ids, i)));
        const char *name = json_string_value(file);

        if (!name || publish_layer(s, name, diff_id) < 0) {
            return name ? -1 : complain("the list of layers is none");
        }
    }
    return 0;
}

/* The bytes as the archive has them: their hash is the image's digest. */
static int publish_config(struct store *s, const char *file, const char *digest)
{
    char path[STORE_HEX + 32];
    char *text = malloc(STORE_CONFIG_MAX);
    int fd = files_get(s->files, file);
    ssize_t n = fd >= 0 && text ? read(fd, text, STORE_CONFIG_MAX) : -1;
    int r;

    snprintf(path, sizeof(path), "images/%s.json", digest);
    r = n < 0 ? complain("%.200s cannot be read", file) : publish_file(s, path, text, (size_t)n);
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return r;
}

static int publish_image(struct store *s, const struct found *f, char ret_digest[STORE_HEX + 1])
{
    json_t *config = files_json(s->files, f->config, ret_digest);
    json_t *ids = diff_ids_of(config, f->layers);
    int r;

    if (!config) {
        r = complain("image configuration %.200s is not in the archive, or no JSON of at most %d "
                     "bytes", f->config, STORE_CONFIG_MAX);
    } else if (f->config_digest && strcmp(f->config_digest, ret_digest) != 0) {
        r = complain("image configuration %.200s has the SHA-256 %s", f->config, ret_digest);
    } else if (!ids) {
        r = complain("image configuration %.200s: diff_ids and layers do not agree, or are not 1 "
                     "to %d", f->config, STORE_LAYERS_MAX);
    } else {
        r = publish_layers(s, f->layers, ids);
    }
    json_decref(config);
    return r == 0 ? publish_config(s, f->config, ret_digest) : r;
}

static int publish_name(struct store *s, const char *name, const char *digest)
{
    struct fn_error why = { .size = sizeof(why) };
    char file[STORE_HEX + 1], path[STORE_HEX + 16], full[STORE_NAME_MAX];
    char text[STORE_HEX + STORE_NAME_MAX + 8];
    struct image_name image;

    if (image_parse(name, &image, &why) < 0) {
        return complain("%s", why.msg);
    }
    store_name_file(&image, file);
    store_canonical(&image, full);
    snprintf(path, sizeof(path), "names/%s", file);
    snprintf(text, sizeof(text), "%s\n%s\n", digest, full);
    if (publish_file(s, path, text, strlen(text)) < 0) {
        return -1;
    }
    printf("%s sha256:%s\n", full, digest);
    s->loaded++;
    return 0;
}

/* ---- docker save ----------------------------------------------------------------------------- */

/* "<digest>.json", or "blobs/sha256/<digest>". */
static const char *digest_in_name(const char *file, char ret[STORE_HEX + 1])
{
    const char *slash = strrchr(file, '/');

    snprintf(ret, STORE_HEX + 1, "%s", slash ? slash + 1 : file);
    return store_is_hex(ret) ? ret : NULL;
}

static int load_docker_image(struct store *s, json_t *image)
{
    char in_name[STORE_HEX + 1], digest[STORE_HEX + 1];
    struct found f = { .config = json_string_value(json_object_get(image, "Config")),
                       .layers = json_object_get(image, "Layers") };
    json_t *tags = json_object_get(image, "RepoTags");
    json_t *tag;
    size_t i;

    if (!f.config || !json_is_array(f.layers)) {
        return complain("manifest.json: expected Config and Layers for each image");
    }
    f.config_digest = digest_in_name(f.config, in_name);
    if (publish_image(s, &f, digest) < 0) {
        return -1;
    }
    if (s->name) {
        return publish_name(s, s->name, digest);
    }
    json_array_foreach(tags, i, tag) {
        if (json_is_string(tag) && publish_name(s, json_string_value(tag), digest) < 0) {
            return -1;
        }
    }
    return 0;
}

static int load_docker(struct store *s, json_t *manifest)
{
    json_t *image;
    size_t i;

    if (s->name && json_array_size(manifest) != 1) {
        return complain("--name: the archive has %zu images; expected one",
                        json_array_size(manifest));
    }
    json_array_foreach(manifest, i, image) {
        if (load_docker_image(s, image) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- OCI layout ------------------------------------------------------------------------------ */

static bool blob_path(json_t *descriptor, char *ret, size_t cap)
{
    const char *digits = store_digits(json_string_value(json_object_get(descriptor, "digest")));

    return digits && snprintf(ret, cap, "blobs/sha256/%s", digits) < (int)cap;
}

/* Tools write a whole name, or a tag alone, which names nothing. */
static const char *oci_name(struct store *s, json_t *descriptor)
{
    json_t *notes = json_object_get(descriptor, "annotations");
    const char *name = json_string_value(json_object_get(notes, "io.containerd.image.name"));

    if (s->name) {
        return s->name;
    }
    if (!name) {
        name = json_string_value(json_object_get(notes, "org.opencontainers.image.ref.name"));
    }
    return name && (strchr(name, '/') || strchr(name, ':')) ? name : NULL;
}

static int load_oci_image(struct store *s, json_t *manifest, const char *name)
{
    json_t *config = json_object_get(manifest, "config");
    char path[STORE_HEX + 32], layer[STORE_HEX + 32], digest[STORE_HEX + 1];
    struct found f = { .config = path, .layers = json_array() };
    json_t *entry;
    size_t i;
    int r = 0;

    if (!blob_path(config, path, sizeof(path))) {
        r = complain("a manifest has no config with a SHA-256");
    }
    json_array_foreach(json_object_get(manifest, "layers"), i, entry) {
        if (r == 0 && !blob_path(entry, layer, sizeof(layer))) {
            r = complain("a layer of a manifest has no SHA-256");
        }
        json_array_append_new(f.layers, json_string(layer));
    }
    f.config_digest = path + strlen("blobs/sha256/");
    if (r == 0 && !name) {
        r = complain("the layout has no name for an image; name it with --name");
    }
    if (r == 0) {
        r = publish_image(s, &f, digest);
    }
    json_decref(f.layers);
    return r == 0 ? publish_name(s, name, digest) : r;
}

static bool is_for_us(json_t *descriptor)
{
    json_t *platform = json_object_get(descriptor, "platform");
    const char *machine = json_string_value(json_object_get(platform, "architecture"));
    const char *system = json_string_value(json_object_get(platform, "os"));

    return (!machine || strcmp(machine, MACHINE) == 0) && (!system || strcmp(system, "linux") == 0);
}

static int load_index(struct store *s, json_t *index, const char *name, int depth)
{
    json_t *list = json_object_get(index, "manifests");
    json_t *descriptor;
    size_t i;

    if (json_array_size(list) > MANIFESTS_MAX || depth > INDEX_DEPTH) {
        return complain("an index of more than %d manifests, or of indexes of indexes",
                        MANIFESTS_MAX);
    }
    json_array_foreach(list, i, descriptor) {
        char path[STORE_HEX + 32], hash[STORE_HEX + 1];
        const char *own = name ? name : oci_name(s, descriptor);
        json_t *blob = NULL;
        int r;

        if (!is_for_us(descriptor)) {
            continue;
        }
        if (blob_path(descriptor, path, sizeof(path))) {
            blob = files_json(s->files, path, hash);
        }
        if (!blob || strcmp(hash, path + strlen("blobs/sha256/")) != 0) {
            r = complain("a manifest is not in the layout, or has another SHA-256");
        } else if (json_object_get(blob, "manifests")) {
            r = load_index(s, blob, own, depth + 1);
        } else {
            r = load_oci_image(s, blob, own);
        }
        json_decref(blob);
        if (r < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int load_files(struct store *s)
{
    json_t *docker = files_json(s->files, "manifest.json", NULL);
    json_t *oci = docker ? NULL : files_json(s->files, "index.json", NULL);
    int r = docker ? load_docker(s, docker)
            : oci  ? load_index(s, oci, NULL, 0)
                   : complain("no manifest.json and no index.json; expected what docker save "
                              "writes, or an OCI layout");

    json_decref(docker);
    json_decref(oci);
    return r == 0 && s->loaded == 0 ? complain("no image with a name for this machine; "
                                               "name it with --name")
                                    : r;
}

int load(const char *store, const char *path, const char *name)
{
    struct store s;
    int r = store_open(&s, store);

    if (r == 0) {
        s.name = name;
        s.files = files_open(path, s.tmp);
        r = s.files ? load_files(&s) : -1;
    }
    if (r == 0 && syncfs(s.dir) < 0) {
        r = complain("%s: %s", store, strerror(errno));
    }
    store_close(&s, store);
    return r;
}

int list(const char *store)
{
    char path[PATH_BYTES];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "%s/names", store);
    d = opendir(path);
    if (!d) {
        return complain("%s: %s", path, strerror(errno));
    }
    while ((e = readdir(d))) {
        char text[STORE_HEX + STORE_NAME_MAX + 8] = "";
        int fd = store_is_hex(e->d_name) ? openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

        if (n > STORE_HEX) {
            text[strcspn(text + STORE_HEX + 1, "\n") + STORE_HEX + 1] = '\0';
            printf("%s sha256:%.*s\n", text + STORE_HEX + 1, STORE_HEX, text);
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    closedir(d);
    return 0;
}
