/* fnd-oci load, with archives as strangers may make them: what it takes is in the store whole, and
 * nothing is ever written anywhere else. Root only: a layer is unpacked below a root of its own. */
#include "store.h"

#include <archive.h>
#include <archive_entry.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ARCHIVE_BYTES (1024 * 1024)

static char dir[64];
static char output[4096]; /* of the last load */

#define HARD_LINK (AE_IFLNK + 1)

struct entry {
    const char *path;
    mode_t type;
    const char *what; /* text of a file, target of a link */
};

struct bytes {
    char data[ARCHIVE_BYTES];
    size_t len;
};

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/fnd-unpack-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct archive *begin_tar(struct bytes *b)
{
    struct archive *a = archive_write_new();

    archive_write_set_format_pax_restricted(a);
    ck_assert_int_eq(archive_write_open_memory(a, b->data, sizeof(b->data), &b->len), ARCHIVE_OK);
    return a;
}

static void add(struct archive *a, const char *path, mode_t type, const void *data, size_t len)
{
    struct archive_entry *e = archive_entry_new();

    archive_entry_set_pathname(e, path);
    archive_entry_set_filetype(e, type == HARD_LINK ? AE_IFREG : type);
    archive_entry_set_perm(e, type == AE_IFDIR ? 0755 : 0644);
    if (type == AE_IFLNK) {
        archive_entry_set_symlink(e, data);
    } else if (type == HARD_LINK) {
        archive_entry_set_hardlink(e, data);
    } else if (type == AE_IFCHR) {
        archive_entry_set_rdev(e, makedev(1, 3));
    }
    archive_entry_set_size(e, type == AE_IFREG ? (int64_t)len : 0);
    ck_assert_int_eq(archive_write_header(a, e), ARCHIVE_OK);
    if (type == AE_IFREG) {
        ck_assert_int_eq(archive_write_data(a, data, len), (la_ssize_t)len);
    }
    archive_entry_free(e);
}

static void add_text(struct archive *a, const char *path, const char *text)
{
    add(a, path, AE_IFREG, text, strlen(text));
}

static void make_layer(struct bytes *b, const struct entry *entries, size_t n)
{
    struct archive *a = begin_tar(b);

    for (size_t i = 0; i < n; i++) {
        add(a, entries[i].path, entries[i].type, entries[i].what,
            entries[i].what ? strlen(entries[i].what) : 0);
    }
    archive_write_close(a);
    archive_write_free(a);
}

static int run_load(const struct bytes *b)
{
    char path[128], command[512];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/archive.tar", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(b->data, 1, b->len, f), b->len);
    fclose(f);
    snprintf(command, sizeof(command), "%s load --store %s/store %s 2>&1", getenv("FND_OCI"), dir,
             path);
    f = popen(command, "r");
    n = fread(output, 1, sizeof(output) - 1, f);
    output[n] = '\0';
    return WEXITSTATUS(pclose(f));
}

/* An image of one layer; diff_id NULL: the layer's own. Returns the exit code. */
static int load_layer(const struct entry *entries, size_t n, const char *diff_id, char hash[65])
{
    static struct bytes layer, all;
    char config[512];
    struct archive *a;

    make_layer(&layer, entries, n);
    store_hash(layer.data, layer.len, hash);
    snprintf(config, sizeof(config), "{\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
             diff_id ? diff_id : hash);
    a = begin_tar(&all);
    add_text(a, "config.json", config);
    add(a, "layer.tar", AE_IFREG, layer.data, layer.len);
    add_text(a, "manifest.json",
             "[{\"Config\":\"config.json\",\"RepoTags\":[\"t/x:1\"],\"Layers\":[\"layer.tar\"]}]");
    archive_write_close(a);
    archive_write_free(a);
    return run_load(&all);
}

static bool in_layer(const char *hash, const char *path, struct stat *st)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/store/layers/%s/%s", dir, hash, path);
    return lstat(full, st) == 0;
}

#define LOAD(entries, hash) load_layer((entries), sizeof(entries) / sizeof((entries)[0]), NULL, hash)

START_TEST(a_layer_becomes_a_folder_with_whiteouts_as_an_overlay_has_them)
{
    static const struct entry entries[] = {
        { "./", AE_IFDIR, NULL },       { "./d", AE_IFDIR, NULL },
        { "./d/f", AE_IFREG, "text" },  { "./d/.wh.gone", AE_IFREG, "" },
        { "o/.wh..wh..opq", AE_IFREG, "" }, { "o/kept", AE_IFREG, "k" },
        { "h", HARD_LINK, "d/f" },      { ".wh..wh.plnk", AE_IFREG, "" },
    };
    char hash[65], path[512], value[8] = "";
    struct stat st, other;

    ck_assert_msg(LOAD(entries, hash) == 0, "%s", output);
    ck_assert(in_layer(hash, "d/gone", &st) && S_ISCHR(st.st_mode) && st.st_rdev == 0);
    ck_assert(in_layer(hash, "d/f", &st) && in_layer(hash, "h", &other));
    ck_assert_uint_eq(st.st_ino, other.st_ino);
    ck_assert(!in_layer(hash, "d/.wh.gone", &st) && !in_layer(hash, ".wh..wh.plnk", &st));
    snprintf(path, sizeof(path), "%s/store/layers/%s/o", dir, hash);
    ck_assert_int_eq(getxattr(path, "trusted.overlay.opaque", value, sizeof(value)), 1);
    ck_assert_str_eq(value, "y");
    snprintf(path, sizeof(path), "%s/store/tmp", dir);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* Links of a layer lead into its own folder, wherever they say. */
START_TEST(no_path_leads_out_of_the_folder)
{
    char outside[160], absolute[192], through[] = "l/in";
    const struct entry entries[] = {
        { absolute, AE_IFREG, "a" },
        { "l", AE_IFLNK, dir },
        { through, AE_IFREG, "b" },
        { "up", AE_IFLNK, "../../../../../../../../tmp" },
        { "etc", AE_IFLNK, "/etc" },
        { "etc/fnd-unpack-was-here", AE_IFREG, "c" },
    };
    char hash[65];
    struct stat st;

    snprintf(outside, sizeof(outside), "%s/outside", dir);
    snprintf(absolute, sizeof(absolute), "/%s", outside);
    LOAD(entries, hash);
    ck_assert_int_ne(lstat(outside, &st), 0);
    snprintf(outside, sizeof(outside), "%s/in", dir);
    ck_assert_int_ne(lstat(outside, &st), 0);
    ck_assert_int_ne(lstat("/etc/fnd-unpack-was-here", &st), 0);
}
END_TEST

START_TEST(what_names_a_path_above_is_refused)
{
    static const struct entry dots[] = { { "a/../../../x", AE_IFREG, "x" } };
    static const struct entry link[] = { { "x", HARD_LINK, "../../../../etc/passwd" } };
    static const struct entry marker[] = { { "a/.wh...", AE_IFREG, "" } };
    char hash[65];
    struct stat st;

    ck_assert_int_eq(LOAD(dots, hash), 1);
    ck_assert(!in_layer(hash, "", &st));
    ck_assert_int_eq(LOAD(link, hash), 1);
    ck_assert(!in_layer(hash, "", &st));
    ck_assert_int_eq(LOAD(marker, hash), 1);
    ck_assert(!in_layer(hash, "", &st));
}
END_TEST

START_TEST(devices_and_pipes_are_left_out)
{
    static const struct entry entries[] = { { "null", AE_IFCHR, NULL },
                                            { "fifo", AE_IFIFO, NULL },
                                            { "f", AE_IFREG, "x" } };
    char hash[65];
    struct stat st;

    ck_assert_int_eq(LOAD(entries, hash), 0);
    ck_assert_ptr_nonnull(strstr(output, "2 devices, pipes or sockets of a layer were left out"));
    ck_assert(!in_layer(hash, "null", &st) && !in_layer(hash, "fifo", &st));
    ck_assert(in_layer(hash, "f", &st));
}
END_TEST

START_TEST(a_layer_with_another_digest_is_refused)
{
    static const struct entry entries[] = { { "f", AE_IFREG, "x" } };
    char other[65], hash[65];
    struct stat st;

    memset(other, 'a', 64);
    other[64] = '\0';
    ck_assert_int_eq(load_layer(entries, 1, other, hash), 1);
    ck_assert_ptr_nonnull(strstr(output, "a layer has the SHA-256"));
    ck_assert(!in_layer(other, "", &st));
}
END_TEST

/* Within the layer's own root the path is short enough; seen from the store it is too long for any call. */
START_TEST(a_refused_layer_of_long_paths_does_not_stay)
{
    static const struct entry good[] = { { "f", AE_IFREG, "x" } };
    static char path[4064];
    const struct entry deep[] = { { path, AE_IFREG, "x" } };
    char other[65], hash[65];

    memset(path, 'p', sizeof(path) - 1);
    for (size_t i = 253; i < sizeof(path) - 2; i += 254) {
        path[i] = '/';
    }
    memset(other, 'a', 64);
    other[64] = '\0';
    ck_assert_int_eq(load_layer(deep, 1, other, hash), 1);
    ck_assert_msg(strstr(output, "a layer has the SHA-256"), "%s", output);
    ck_assert_msg(LOAD(good, hash) == 0, "%s", output);
}
END_TEST

START_TEST(what_is_no_archive_of_images_is_refused_with_a_sentence)
{
    static struct bytes b;
    struct archive *a;

    b.len = (size_t)snprintf(b.data, sizeof(b.data), "no tar at all");
    ck_assert_int_eq(run_load(&b), 1);
    a = begin_tar(&b);
    add_text(a, "x", "x");
    archive_write_close(a);
    archive_write_free(a);
    ck_assert_int_eq(run_load(&b), 1);
    ck_assert_ptr_nonnull(strstr(output, "no manifest.json and no index.json"));
    a = begin_tar(&b);
    add_text(a, "manifest.json", "[{\"Config\":\"../c\",\"Layers\":[\"l\"]}]");
    archive_write_close(a);
    archive_write_free(a);
    ck_assert_int_eq(run_load(&b), 1);
    ck_assert_ptr_nonnull(strstr(output, "is not in the archive"));
}
END_TEST

static void ck_shut(const char *folder)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof(path), "%s/store%s", dir, folder);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_msg((st.st_mode & 077) == 0, "%s: %o", path, st.st_mode & 07777u);
}

/* T16d. A layer keeps what is setuid root: nobody else reaches it, nor in an older store. */
START_TEST(the_store_is_closed_to_others)
{
    static const struct entry entries[] = { { "su", AE_IFREG, "x" } };
    static const char *const folders[] = { "/names", "/images", "/layers" };
    char hash[65], path[160];

    for (int older = 0; older < 2; older++) {
        ck_assert_msg(LOAD(entries, hash) == 0, "%s", output);
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
            ck_shut(folders[i]);
            snprintf(path, sizeof(path), "%s/store%s", dir, folders[i]);
            ck_assert_int_eq(chmod(path, 0755), 0);
        }
    }
    ck_shut("");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unpack");
    TCase *t = tcase_create("archives");
    SRunner *runner;
    int failed;

    if (geteuid() != 0 || !getenv("FND_OCI")) {
        printf("skipped: not root, or FND_OCI names no program\n");
        return 77;
    }
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_layer_becomes_a_folder_with_whiteouts_as_an_overlay_has_them);
    tcase_add_test(t, no_path_leads_out_of_the_folder);
    tcase_add_test(t, what_names_a_path_above_is_refused);
    tcase_add_test(t, devices_and_pipes_are_left_out);
    tcase_add_test(t, a_layer_with_another_digest_is_refused);
    tcase_add_test(t, a_refused_layer_of_long_paths_does_not_stay);
    tcase_add_test(t, the_store_is_closed_to_others);
    tcase_add_test(t, what_is_no_archive_of_images_is_refused_with_a_sentence);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
