/* SipHash-2-4 with 64 bits, from OpenSSL; one context, used by one thread at a time. */
#ifndef PLACER_SIP_H
#define PLACER_SIP_H

#include <stddef.h>
#include <stdint.h>

struct sip; /* opaque */

struct sip *sip_create(uint64_t k0, uint64_t k1); /* NULL when the library has no SipHash */
void sip_destroy(struct sip *s);                  /* NULL ok */
/* 0 or -1. */
int sip_hash(struct sip *s, const void *data, size_t len, uint64_t *ret);

#endif
