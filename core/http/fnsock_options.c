/* Sockets of functions and what comes through them: part of `runner:`. */
#include <http/fnsock.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct fnsock_config, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("iofs_path", STR, AT(iofs_path), 1, 1024,
               "Directory for the sockets of functions; when absent one of its own below TMPDIR."),
    OPT_ABSENT("iofs_engine_path", STR, AT(engine_path), 1, 1024,
               "The same directory as the container engine sees it."),
    OPT_CHOICE("iofs_tmpfs", AT(tmpfs_word), "auto", "auto|true|false",
               "Mount a tmpfs for the socket of each container; auto: where the node may mount and "
               "functions see it. Elsewhere a container that fills its directory is ended."),
    OPT("iofs_size", BYTES, AT(dir_bytes_max), "1MiB", 64 * KIB, 1 * GIB,
        "What a function may write into the directory of its socket."),
    OPT("iofs_inodes", INT, AT(dir_inodes_max), "64", 16, 1000000,
        "Files that a function may make there."),
    OPT_ABSENT("iofs_opts", STR, AT(tmpfs_opts), 1, 1024,
               "Further mount data of that tmpfs, such as size=1m, which wins over iofs_size."),
    LIVE("max_response_header_size", BYTES, AT(limits.answer_header_bytes_max), "64KiB", 1 * KIB,
         10 * MIB, "Size of an answer's headers; upstream allows 10 MiB."),
    { .key = NULL },
};

const struct opt_table fnsock_opt_table = { rows, sizeof(struct fnsock_config) };
