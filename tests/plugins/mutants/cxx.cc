/* C++ with its library in the file, as fn_add_plugin() makes it. */
#include <fn/override.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "mutant.h"

namespace {

struct tag {
    const fn_edit_if *edit;
    std::string last;
};

int create(const fn_host *host, const void *, void **ret_inst, fn_error *reterr)
{
    tag *t = new (std::nothrow) tag();

    if (!t) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    t->edit = static_cast<const fn_edit_if *>(host->get(host, "fn.edit", 1));
    *ret_inst = t;
    return 0;
}

void destroy(void *inst)
{
    delete static_cast<tag *>(inst);
}

int apply(void *inst, fn_edit *edit, fn_error *reterr)
{
    tag *t = static_cast<tag *>(inst);

    try {
        const char *value = t->edit->header(edit, "X-Tag");

        if (M(1)) {
            std::exit(std::system("true"));
        }
        t->last = value ? value : "";
        if (t->last.size() > 1024) {
            throw std::length_error("a tag of more than 1024 bytes");
        }
        return FN_PASS;
    } catch (const std::exception &) {
        return fail(reterr, FN_E_INVALID, "the tag cannot be taken");
    }
}

const fn_need needs[] = {{"fn.edit", 1, 0, 0}, {nullptr, 0, 0, 0}};
const fn_override_ops ops = {FN_HDR(fn_override_ops, FN_MAGIC_OVERRIDE), apply};
const fn_opt *const no_opts = nullptr;

} // namespace

MUTANT_PLUGIN(mutant, FN_KIND_OVERRIDER, OVERRIDE, 0, no_opts, needs, ops)
