/* What fn.yaml says of the operator's socket and page. */
#include <admin/admin.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct admin_options, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("socket", STR, AT(socket), 1, 107,
               "Absolute path of the admin socket, which `fnd status` and other commands use; "
               "off = none. When absent: a file named after http.listen in /run/fnd (root), "
               "$XDG_RUNTIME_DIR/fnd or /tmp/fnd-<uid>."),
    OPT("page", STR, AT(page), ADMIN_PAGE_DEFAULT, 1, 256,
        "Address of the operator's page (operator-page.md): host:port or [ipv6]:port; `fnd page` "
        "prints where to open it. Port 0 = one that is free. Other addresses than those of this "
        "machine's loopback need page_tls. off = none."),
    OPT_ABSENT("page_tls", STR, AT(page_tls), 1, 64,
               "Name of the entry of `tls:` for the operator's page: its certificate, and the ca "
               "that has signed those of the operators. When absent: plain HTTP, on the loopback "
               "only."),
    { .key = NULL },
};

const struct opt_table admin_opt_table = { rows, sizeof(struct admin_options) };
