/* What fn.yaml says of the operator's socket. */
#include <admin/admin.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct admin_options, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("socket", STR, AT(socket), 1, 107,
               "Absolute path of the admin socket, which `fnd status` and other commands use; "
               "off = none. When absent: a file named after http.listen in /run/fnd (root), "
               "$XDG_RUNTIME_DIR/fnd or /tmp/fnd-<uid>."),
    { .key = NULL },
};

const struct opt_table admin_opt_table = { rows, sizeof(struct admin_options) };
