/* OpenSSL takes its chance from the seed of the world, so that a run repeats with its
 * handshakes. */
#include "tls.h"

#include <certs.h>
#include <openssl/rand.h>
#include <sim/sim.h>
#include <string.h>

#define NODE "node"

static struct sim_rng rng;

static int chance_bytes(unsigned char *to, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = (unsigned char)sim_rng_u64(&rng);
    }
    return 1;
}

static int chance_seed(const void *from, int n)
{
    (void)from;
    (void)n;
    return 1;
}

static int chance_add(const void *from, int n, double entropy)
{
    (void)from;
    (void)n;
    (void)entropy;
    return 1;
}

static int chance_status(void)
{
    return 1;
}

static void take_chance_from(uint64_t seed)
{
    static const RAND_METHOD method = { .seed = chance_seed,
                                        .bytes = chance_bytes,
                                        .add = chance_add,
                                        .pseudorand = chance_bytes,
                                        .status = chance_status };

    rng = sim_rng_make(seed, 109);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* a provider would be a library more */
    RAND_set_rand_method(&method);
#pragma GCC diagnostic pop
}

struct net_tls tls_begin(uint64_t seed)
{
    static struct authority authority;
    static struct pair pair;

    if (!authority.pem) {
        take_chance_from(0);
        authority_make(&authority, "the world");
        pair = pair_make(&authority, NODE, "DNS:" NODE, -1, 365);
    }
    take_chance_from(seed);
    return (struct net_tls){ .cert_pem = pair.cert,
                             .key_pem = pair.key,
                             .ca_pem = authority.pem,
                             .server_name = NODE };
}
