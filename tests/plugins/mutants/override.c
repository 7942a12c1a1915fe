/* An overrider that copies a header of the call into an extension. Each M(n) makes one mistake
 * of mutants.txt. */
#include <fn/override.h>

#include "mutant.h"

struct tag {
    const struct fn_edit_if *edit;
    const char *kept;
    struct fn_edit *kept_edit;
    uint32_t n;
    const struct fn_host *host;
    struct fn_edit *timer_edit;
};

static inline void late(void *ud)
{
    struct tag *t = ud;

    t->edit->set_extension(t->timer_edit, "late", "yes");
}

#if MUTANT == 14
int tag_helper(void);
__attribute__((visibility("default"))) int tag_helper(void)
{
    return 0;
}
#endif

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct tag *t = calloc(1, sizeof(*t));

    (void)conf;
    if (!t) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    t->host = host;
    t->edit = host->get(host, "fn.edit", 1);
    *ret_inst = t;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    struct tag *t = inst;
    const char *value = t->edit->header(edit, "X-Tag");
    char small[256];
    uint64_t id;
    int r;

    if (M(11) && value) {
        t->timer_edit = edit;
        t->host->timer->arm(t->host, t->host->clock->now_ns(t->host), late, t, &id);
    }
    if (M(8) && t->kept_edit) {
        t->edit->u64(t->kept_edit, FN_FIELD_MEM_MB);
    }
    t->kept_edit = edit;
    if (M(4) && value[0] == '!') {
        return FN_PASS;
    }
    if (!value) {
        return FN_PASS;
    }
    if (M(5)) {
        memcpy(small, value, strlen(value) + 1);
        value = small[0] ? value : "";
    }
    if (M(3)) {
        if (t->kept && t->kept[0] == '!') {
            return FN_PASS;
        }
        t->kept = value;
    }
    if (M(12)) {
        t->edit->set_config(edit, "A=B", value);
    }
    for (uint32_t i = 0; M(13) && i < 500; i++) {
        t->host->log->write(t->host, FN_LOG_INFO, "tagged", 6);
    }
    r = t->edit->set_extension(edit, M(9) ? "" : "tag", value);
    if (r < 0) {
        return M(6) ? r : fail(reterr, r, "the extension was not taken");
    }
    if (M(7) && ++t->n % 2) {
        t->edit->set_extension(edit, "odd", "yes");
    }
    if (M(10)) {
        fail(reterr, FN_E_UNKNOWN, "all went well");
    }
    return M(1) ? FN_PASS : M(2) ? 7 : FN_CHANGED;
}

static const struct fn_override_ops ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static const struct fn_need needs[] = {{"fn.edit", 1, 0, 0}, {NULL, 0, 0, 0}};

MUTANT_PLUGIN(mutant, FN_KIND_OVERRIDER, OVERRIDE, 0, NULL, needs, ops)
