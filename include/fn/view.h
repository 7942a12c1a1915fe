/* View: all that is known of a call, for whoever is shown a struct fn_call: placers, pools and
 * listeners. What fn.edit tells overriders, without the editing. Since ABI 1.1.
 *
 * Nothing is copied or made ready for those who do not ask. Go Fn: RunnerCall.Model(),
 * SlotHashId() and Extensions() of api/runnerpool. */
#ifndef FN_VIEW_H
#define FN_VIEW_H

#include <fn/override.h>
#include <fn/placer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_VIEW_MAJOR 1
#define FN_VIEW_MINOR 0
#define FN_MAGIC_VIEW 0x464e1801u

/* "fn.view"; in the method that was given the call, in its context. Strings are borrowed until the
 * method returns. Overriders of this node have had their say. What cannot be told, for want of
 * memory or because the view has no `more`, reads as not set. */
struct fn_view_if {
    struct fn_hdr hdr; /* FN_MAGIC_VIEW */
    const char *(*text)(const struct fn_call *, uint32_t text_id); /* FN_TEXT_*; "" if not set */
    uint64_t (*u64)(const struct fn_call *, uint32_t field); /* FN_FIELD_*; 0 for an unknown one */
    /* The first value or NULL; by the client's name also for a trigger, where the function has it as
     * Fn-Http-H-<name>. */
    const char *(*header)(const struct fn_call *, const char *name);
    const char *(*config)(const struct fn_call *, const char *key);     /* or NULL */
    const char *(*annotation)(const struct fn_call *, const char *key); /* JSON text or NULL */
    const char *(*extension)(const struct fn_call *, const char *key);  /* or NULL */
    /* The i-th pair of FN_PAIRS_*, from 0: 0, or FN_E_RANGE behind the last one. In no promised
     * order. */
    int (*pair)(const struct fn_call *, uint32_t pairs, uint32_t i, struct fn_kv *ret_borrowed);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_VIEW_H */
