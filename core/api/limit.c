/* Limits: how often one may ask, and how often one may guess a token.
 *
 * A bucket is one time, that at which it is full again: whoever takes from it moves that time on by
 * what one costs, and may not when it would lie farther ahead than the whole bucket costs (GCRA).
 * What a bucket refuses takes nothing from it, and rates are at least one a second: there is room
 * again within a second, which is what Retry-After says.
 *
 *     requests, changes   of a token, or of an address where none is sent or asked for
 *     failures            of an address: tokens that were wrong
 *     proven              of an address with a token that was right: until when that is remembered
 *
 * While an address has no failures left, nobody's token is looked at there, right or wrong, but for
 * those that have been right from there: whoever guesses behind a proxy locks out none who works.
 *
 * All of them are entries of one table that never grows. An entry is the time from which it says
 * nothing any more, and in a full set the one for which that comes first makes room. So whoever has
 * very many addresses makes the table forget buckets, which then are full: his own and others'. He
 * locks nobody out by that, and right tokens, which are remembered longest, are forgotten only for
 * others of their kind. The hash has a secret key, so that nobody chooses whose set he is in. */
#include <api/api_int.h>

#include <base/log.h>
#include <openssl/sha.h>
#include <string.h>

#define PROVEN_NS  (3600 * ENV_S)
#define FAILURE_NS ENV_S /* after which one more is let pass */

enum limit_kind { KIND_REQUESTS, KIND_CHANGES, KIND_FAILURES, KIND_PROVEN };

/* What is hashed; without padding. */
struct limit_key {
    unsigned char secret[LIMIT_SECRET_BYTES];
    unsigned char kind;
    unsigned char address[API_ADDRESS_BYTES]; /* zero in the buckets of a token */
    unsigned char token[TOKEN_HASH_BYTES];    /* zero in those of an address */
};

/* ---- the table ------------------------------------------------------------------------------- */

static uint64_t limit_tag(const struct api_call *c, enum limit_kind kind, bool address,
                          const unsigned char *token)
{
    struct limit_key key = { .kind = (unsigned char)kind };
    unsigned char hash[SHA256_DIGEST_LENGTH];
    uint64_t tag;

    memcpy(key.secret, c->api->limits.secret, sizeof(key.secret));
    if (address && c->rq->client) {
        memcpy(key.address, c->rq->client, sizeof(key.address));
    }
    if (token) {
        memcpy(key.token, token, sizeof(key.token));
    }
    SHA256((const unsigned char *)&key, sizeof(key), hash);
    memcpy(&tag, hash, sizeof(tag));
    return tag;
}

/* Its entry, or the one that makes room for it. */
static struct limit_entry *limit_find(struct limits *l, uint64_t tag)
{
    struct limit_entry *set = l->entries[tag % LIMIT_SETS];
    struct limit_entry *first = set;

    for (uint32_t i = 0; i < LIMIT_WAYS; i++) {
        if (set[i].tag == tag) {
            return &set[i];
        }
        first = set[i].until_ns < first->until_ns ? &set[i] : first;
    }
    return first;
}

static int64_t limit_until(struct limits *l, uint64_t tag)
{
    const struct limit_entry *e = limit_find(l, tag);

    return e->tag == tag ? e->until_ns : 0;
}

static void limit_put(struct limits *l, uint64_t tag, int64_t until_ns)
{
    *limit_find(l, tag) = (struct limit_entry){ tag, until_ns };
}

/* ---- buckets --------------------------------------------------------------------------------- */

static bool bucket_has(int64_t full_ns, int64_t now, uint32_t burst, int64_t each_ns)
{
    return full_ns - now <= (int64_t)(burst - 1) * each_ns;
}

/* When it is full after that. */
static int64_t bucket_take(struct limits *l, uint64_t tag, int64_t full_ns, int64_t now,
                           int64_t each_ns)
{
    full_ns = (full_ns > now ? full_ns : now) + each_ns;
    limit_put(l, tag, full_ns);
    return full_ns;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int take_request(struct api_call *c, enum limit_kind kind, uint32_t per_s,
                        const unsigned char *token, struct fn_error *reterr)
{
    struct limits *l = &c->api->limits;
    int64_t now = env_now_ns(c->api->deps.env);
    int64_t each_ns = per_s ? ENV_S / per_s : 0;
    const char *what = kind == KIND_CHANGES ? "changes" : "requests";
    const char *whose = token ? "the token " : "your address";
    uint64_t tag;
    int64_t full_ns;

    if (per_s == 0) {
        return 0;
    }
    tag = limit_tag(c, kind, !token, token);
    full_ns = limit_until(l, tag);
    if (!bucket_has(full_ns, now, per_s, each_ns)) {
        metric_add(l->refused[kind], 1);
        return err_set_http(reterr, FN_E_EXHAUSTED, 429, FN_BLAME_USER,
                            "API1111 too many %s of %s%s; expected at most %u a second "
                            "(api.%s_max)", what, whose, token ? c->who : "", per_s, what);
    }
    bucket_take(l, tag, full_ns, now, each_ns);
    return 0;
}

int limit_request(struct api_call *c, const unsigned char *token, struct fn_error *reterr)
{
    const struct api_options *o = c->api->options;
    bool changes = c->route->needs != ROLE_READ;
    int r = take_request(c, KIND_REQUESTS, o->requests_max, token, reterr);

    return r < 0 || !changes ? r : take_request(c, KIND_CHANGES, o->changes_max, token, reterr);
}

/* ---- guesses --------------------------------------------------------------------------------- */

int limit_guess(struct api_call *c, const unsigned char *token, struct fn_error *reterr)
{
    struct limits *l = &c->api->limits;
    int64_t now = env_now_ns(c->api->deps.env);
    uint32_t max = c->api->options->failures_max;

    if (max == 0 ||
        bucket_has(limit_until(l, limit_tag(c, KIND_FAILURES, true, NULL)), now, max, FAILURE_NS) ||
        limit_until(l, limit_tag(c, KIND_PROVEN, true, token)) > now) {
        return 0;
    }
    metric_add(l->refused[KIND_FAILURES], 1);
    return err_set_http(reterr, FN_E_EXHAUSTED, 429, FN_BLAME_USER,
                        "API1112 too many wrong tokens from your address; expected at most %u, "
                        "then one a second (api.failures_max)", max);
}

void limit_guessed(struct api_call *c, const unsigned char *token, bool right)
{
    struct limits *l = &c->api->limits;
    int64_t now = env_now_ns(c->api->deps.env);
    uint32_t max = c->api->options->failures_max;
    uint64_t tag;
    int64_t full_ns;

    if (max == 0) {
        return;
    }
    if (right) {
        limit_put(l, limit_tag(c, KIND_PROVEN, true, token), now + PROVEN_NS);
        return;
    }
    tag = limit_tag(c, KIND_FAILURES, true, NULL);
    full_ns = limit_until(l, tag);
    if (!bucket_has(full_ns, now, max, FAILURE_NS)) {
        return; /* one that was right before a reload */
    }
    full_ns = bucket_take(l, tag, full_ns, now, FAILURE_NS);
    if (!bucket_has(full_ns, now, max, FAILURE_NS)) {
        log_stranger(FN_LOG_WARN, "too many wrong tokens of the API from one address", "client",
                     c->rq->peer, "fn_request_id", c->request_id);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void limits_init(struct limits *l, struct env *env)
{
    static const char *const labels[] = { "reason", NULL };
    static const char *const reasons[LIMIT_REASONS_N] = { "requests", "changes", "failures" };
    static const struct metric_def def = {
        .name = "fn_api_limited",
        .help = "Requests to the management API that were answered 429, by what was too many.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    struct metric_family *f = metric_declare(&def);
    uint64_t random[] = { env_random_u64(env), env_random_u64(env) };

    _Static_assert(sizeof(random) == sizeof(l->secret), "a key of two words");
    memcpy(l->secret, random, sizeof(random));
    for (uint32_t i = 0; i < LIMIT_REASONS_N; i++) {
        l->refused[i] = metric_series(f, &reasons[i]);
    }
}
