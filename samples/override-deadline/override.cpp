// overrider/deadline, in C++: a request header becomes the timeout of the call, and calls that ask
// for more than the option allows are refused. Exceptions stay inside.
#include <fn/override.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

struct Conf {
    const char *header;
    int64_t longest_ns;
};

class Deadline {
public:
    Deadline(const fn_host *host, const Conf &conf)
        : edit(static_cast<const fn_edit_if *>(host->get(host, "fn.edit", 1))),
          header(conf.header), longest(conf.longest_ns / 1000000000)
    {
    }

    int apply(fn_edit *e) const
    {
        const char *value = edit->header(e, header.c_str());

        if (!value) {
            return FN_PASS;
        }
        const int seconds = std::stoi(value); // throws
        if (seconds < 1 || seconds > longest) {
            throw std::out_of_range(header + ", got " + value + "; expected 1 to " +
                                    std::to_string(longest) + " seconds");
        }
        if (edit->set_u64(e, FN_FIELD_TIMEOUT_S, static_cast<uint64_t>(seconds)) < 0) {
            throw std::runtime_error("the timeout was not taken");
        }
        return FN_CHANGED;
    }

private:
    const fn_edit_if *edit;
    std::string header;
    int64_t longest;
};

int refuse(fn_error *reterr, int code, const char *text) noexcept
{
    if (reterr) {
        reterr->http_status = code == FN_E_INVALID ? 400 : 500;
        reterr->blame = code == FN_E_INVALID ? FN_BLAME_USER : FN_BLAME_PLUGIN;
        std::strncpy(reterr->msg, text, sizeof(reterr->msg) - 1);
        reterr->msg[sizeof(reterr->msg) - 1] = '\0';
    }
    return code;
}

int create(const fn_host *host, const void *conf, void **ret_inst, fn_error *reterr) noexcept
{
    try {
        *ret_inst = new Deadline(host, *static_cast<const Conf *>(conf));
        return 0;
    } catch (const std::exception &e) {
        return refuse(reterr, FN_E_EXHAUSTED, e.what());
    }
}

void destroy(void *inst) noexcept
{
    delete static_cast<Deadline *>(inst);
}

int apply(void *inst, fn_edit *edit, fn_error *reterr) noexcept
{
    try {
        return static_cast<const Deadline *>(inst)->apply(edit);
    } catch (const std::logic_error &e) { // stoi's, and ours
        return refuse(reterr, FN_E_INVALID, e.what());
    } catch (const std::exception &e) {
        return refuse(reterr, FN_E_INTERNAL, e.what());
    }
}

const fn_override_ops ops = { FN_HDR(fn_override_ops, FN_MAGIC_OVERRIDE), apply };
const fn_need needs[] = { { "fn.edit", 1, 0, 0 }, {} };
const fn_opt opts[] = {
    { .key = "header", .doc = "Request header with the seconds that the call may take.",
      .dflt = "Fn-Deadline-S", .min = 1, .max = 64, .type = FN_OPT_STR,
      .offset = offsetof(Conf, header) },
    { .key = "longest", .doc = "Longest time that a call may ask for.", .dflt = "2m",
      .min = 1000000000, .max = 300000000000, .type = FN_OPT_DURATION,
      .offset = offsetof(Conf, longest_ns) },
    {},
};
const fn_factory factory = {
    .hdr = FN_HDR(fn_factory, FN_MAGIC_FACTORY), .kind = FN_KIND_OVERRIDER, .name = "deadline",
    .summary = "A header becomes the timeout of a call.", .kind_major = FN_OVERRIDE_MAJOR,
    .conf_size = sizeof(Conf), .needs = needs, .opts = opts, .ops = &ops, .create = create,
    .destroy = destroy,
};
const fn_factory *const factories[] = { &factory, nullptr };
const fn_manifest manifest = {
    .hdr = FN_HDR(fn_manifest, FN_MAGIC_MANIFEST), .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN, .name = "override-deadline",
    .version = "1.0", .license = "Apache-2.0", .build_tag = FN_BUILD_TAG, .factories = factories,
};

} // namespace

FN_PLUGIN_DEFINE(override_deadline, manifest)
