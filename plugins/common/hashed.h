/* What the placers that hash functions share: the context of SipHash, and the hash of a call. */
#ifndef PLACER_HASHED_H
#define PLACER_HASHED_H

#include "sip.h"

#include <fn/placer.h>
#include <stdio.h>
#include <string.h>

/* [init] FN_E_UNIMPLEMENTED: the OpenSSL of this machine has none. sip_destroy() frees it. */
static inline int hashed_open(uint64_t k0, uint64_t k1, struct sip **ret, struct fn_error *reterr)
{
    *ret = sip_create(k0, k1);
    if (*ret) {
        return 0;
    }
    if (reterr) {
        snprintf(reterr->msg, sizeof(reterr->msg), "the OpenSSL of this machine has no SipHash");
    }
    return FN_E_UNIMPLEMENTED;
}

/* [loop] The hash of the call's function, made once for all rounds of the call: `hashed` and `hash`
 * are of its session, zeroed before the first. */
static inline int hashed_fn(struct sip *s, const struct fn_ask *ask, uint32_t *hashed,
                            uint64_t *hash)
{
    const char *key = ask->call->fn_id ? ask->call->fn_id : "";

    if (!*hashed) {
        if (sip_hash(s, key, strlen(key), hash) < 0) {
            return FN_E_INTERNAL;
        }
        *hashed = 1;
    }
    return 0;
}

#endif
