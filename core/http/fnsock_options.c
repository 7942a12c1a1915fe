/* Sockets of functions and what comes through them: part of `runner:`. */
#include <http/fnsock.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct fnsock_config, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("iofs_path", STR, AT(iofs_path), 1, 1024,
               "Directory in which each container gets a directory for the unix socket of its "
               "function. Keep it on a local disk or a tmpfs. When absent: a new directory below "
               "TMPDIR."),
    OPT_ABSENT("iofs_engine_path", STR, AT(engine_path), 1, 1024,
               "Path of iofs_path as the container engine sees it, if the runner itself runs in "
               "a container. When absent: the same path."),
    OPT_CHOICE("iofs_tmpfs", AT(tmpfs_word), "auto", "auto|true|false",
               "Mount a small tmpfs on each container's socket directory, so that a function "
               "cannot fill the disk through it. auto = if the node may mount and the function "
               "sees the mount; without a mount, a container that writes more than iofs_size is "
               "killed. false = never mount."),
    OPT("iofs_size", BYTES, AT(dir_bytes_max), "1MiB", 64 * KIB, 1 * GIB,
        "Bytes that a function may write into its socket directory. Beyond them, its writes fail "
        "(on a tmpfs) or its container is killed."),
    OPT("iofs_inodes", INT, AT(dir_inodes_max), "64", 16, 1000000,
        "Number of files that a function may create in its socket directory. Beyond it, creating "
        "a file fails (on a tmpfs) or the container is killed."),
    OPT_ABSENT("iofs_opts", STR, AT(tmpfs_opts), 1, 1024,
               "Further mount options of that tmpfs, such as size=2m. They override iofs_size "
               "and iofs_inodes."),
    LIVE("max_response_header_size", BYTES, AT(limits.answer_header_bytes_max), "64KiB", 1 * KIB,
         10 * MIB,
         "Maximum size of all headers of a function's response together; beyond it, the call "
         "fails with 502. Go Fn allows 10 MiB."),
    { .key = NULL },
};

const struct opt_table fnsock_opt_table = { rows, sizeof(struct fnsock_config) };
