/* What VBoxManage says and what it is told. Pure.
 *
 * Formats as of VirtualBox 5 to 7: `list vms` prints `"name" {uuid}` per machine, `guestproperty
 * get` prints `Value: x` or `No value set!`. VBoxManage may end with 0 and an error in its standard
 * error, and `startvm` with 1 although the machine started. */
#ifndef CP_VBOX_VBOX_H
#define CP_VBOX_VBOX_H

#include <fn/host.h>

#define VBOX_PREFIX_MAX 32u
#define VBOX_NAME_MAX   255u
#define VBOX_UUID_LEN   36u

struct vbox_vm {
    const char *name; /* not NUL-terminated: name_len */
    size_t name_len;
    char uuid[VBOX_UUID_LEN + 1];
};

/* "<prefix><group>-<request, hex>-<i>": the same machine for the same request. 0, or
 * FN_E_INVALID with a sentence for a group that a name cannot hold. */
int vbox_name(const char *prefix, const char *group, uint64_t request, uint32_t i,
              char ret[VBOX_NAME_MAX + 1], struct fn_error *reterr);
int vbox_check_group(const char *group, struct fn_error *reterr);
/* 1 and the machine's id when a name of vbox_name() made this name: the whole of it, or what stands
 * before Vagrant's "_<machine>_<ms>_<digits>". Names of other groups and prefixes: 0. */
int vbox_id_of(const char *prefix, const char *group, int vagrant, const char *name, size_t len,
               char ret[VBOX_NAME_MAX + 1]);

/* The next line of `list vms`; *at moves on. 1, 0 at the end, or FN_E_DATA_LOSS with a sentence for
 * anything that is no such list. */
int vbox_next(const char **at, struct vbox_vm *ret, struct fn_error *reterr);
/* 1 when the list names that uuid. Lines must have been checked. */
int vbox_has(const char *list, const char *uuid);

/* "192.168.56.10:9190" of an answer of `guestproperty get`: 1, 0 while there is no address, or
 * FN_E_DATA_LOSS with a sentence. */
int vbox_address(const char *out, int64_t port, char *ret, size_t cap, struct fn_error *reterr);

/* NULL, or what a tool that ended said about its failure, one line, in `ret`. */
const char *vbox_failure(const char *const *argv, const struct fn_exec_result *result, char *ret,
                         size_t cap);

#endif
