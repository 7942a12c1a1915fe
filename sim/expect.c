/* What a scenario expects of a run, for those who let a build server look at it. */
#include <sim/cluster.h>

#include <string.h>

/* A measured value in thousandths of the key's unit. */
struct measured {
    const char *key;
    uint64_t thousandths;
    bool known;
};

static uint64_t share(uint64_t part, uint64_t whole)
{
    return whole ? (uint64_t)((unsigned __int128)part * 100000 / whole) : 0;
}

/* The limit in the same measure; durations in milliseconds. */
static uint64_t limit_of(const struct conf_values *v, uint32_t i)
{
    int64_t limit = *(const int64_t *)(const void *)((const char *)v->data + v->opts[i].offset);

    return (uint64_t)(v->opts[i].type == FN_OPT_DURATION ? limit / 1000 : limit * 1000);
}

static void tell(const struct conf_values *v, uint32_t i, const struct measured *m, struct buf *out)
{
    const char *unit = v->opts[i].type == FN_OPT_DURATION ? "ms" : v->opts[i].choices;
    unsigned long long limit = limit_of(v, i);
    unsigned long long got = m->thousandths;

    buf_printf(out, "%s: %s, got ", v->source[i], v->opts[i].key);
    if (m->known) {
        buf_printf(out, "%llu.%02llu %s", got / 1000, got % 1000 / 10, unit);
    } else {
        buf_add_str(out, "a placer without homes");
    }
    buf_printf(out, "; expected at most %llu.%02llu %s\n", limit / 1000, limit % 1000 / 10, unit);
}

uint32_t cluster_expect(const struct scenario *sc, const struct cluster_result *r, struct buf *out)
{
    const struct measured all[] = {
        { "wait_p99_max", (uint64_t)r->wait_p99_ns / 1000, true },
        { "slowdown_p99_max", r->slowdown_p99, true },
        { "refused_max", share(r->refused, r->calls), true },
        { "cold_max", share(r->cold, r->placed), true },
        { "lost_max", r->lost * 1000, true },
        { "collateral_max", share(r->collateral, r->unaffected), r->has_homes || !r->changes },
    };
    const struct conf_values *v = sc->expect;
    uint32_t broken = 0;

    for (uint32_t i = 0; i < v->n_opts; i++) {
        for (size_t k = 0; v->source[i] && k < sizeof(all) / sizeof(all[0]); k++) {
            if (strcmp(all[k].key, v->opts[i].key) == 0 &&
                (!all[k].known || all[k].thousandths > limit_of(v, i))) {
                tell(v, i, &all[k], out);
                broken++;
            }
        }
    }
    return broken;
}
