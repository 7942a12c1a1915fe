/* Placer kit: one placer plugin, compiled into the test, on a host of the test.
 *
 * Goes in through the plugin's manifest, so that options, create(), index and session are used as a
 * node uses them. Chance comes from a fixed seed, time stands still unless the test moves it. */
#ifndef TESTS_PLACER_KIT_H
#define TESTS_PLACER_KIT_H

#include <conf/conf.h>
#include <fn/view.h>

#define KIT_RUNNERS_MAX 10000

struct kit {
    struct fn_host host;
    uint64_t seed;
    int64_t now_ns;
    const struct fn_factory *factory;
    const struct fn_placer_ops *ops;
    struct conf_values *conf;
    void *inst;
    /* the list */
    struct fn_runner *runners;
    uint32_t *inflight;
    struct fn_snapshot snap;
    /* the call */
    struct fn_call call;
    struct fn_ask ask;
    struct fn_answer answer;
    _Alignas(16) unsigned char session[FN_PLACER_SESSION_MAX];
    /* what stands in for "fn.placer" */
    const struct fn_placer_ops *inner_ops;
    void *inner;
    const char *annotation; /* what "fn.view" says, whatever it is asked for */
    /* who refuses; observe() is told of runners alone */
    enum { KIT_RUNNER, KIT_HOST, KIT_WRAPPER } refuser;
    /* the timer that is set, if any: kit_tick() */
    void (*timer)(void *ud);
    void *timer_ud;
};

/* options: "key=value" ..., NULL ends. 0 or what create() said (k is closed then). */
int kit_open(struct kit *k, const struct fn_placer_ops *inner_ops, void *inner,
             const char *const *options, struct fn_error *reterr);
/* The same for another plugin than the one of this test. */
int kit_open_plugin(struct kit *k, const struct fn_manifest *plugin,
                    const struct fn_placer_ops *inner_ops, void *inner, const char *const *options,
                    struct fn_error *reterr);
void kit_close(struct kit *k);
/* The timer fires; 0: none is set. */
int kit_tick(struct kit *k);
#define KIT_OPEN(k, ...) kit_open((k), NULL, NULL, (const char *const[]){ __VA_ARGS__, NULL }, NULL)

/* A list of n runners with ids of their own, weight 1, no calls; a new epoch. */
void kit_list(struct kit *k, uint32_t n);
/* After changes to k->runners and k->snap.n: a new epoch with a new index. */
void kit_publish(struct kit *k);
/* Begins a call of that function: session zeroed, nothing attempted. */
void kit_call(struct kit *k, const char *fn_id);
/* Asks; FN_WHY_BUSY and FN_WHY_UNREACHABLE stand for a refused attempt at the last answer. Checks
 * what holds for every answer. Returns the verdict. */
uint32_t kit_ask(struct kit *k, uint32_t why);
/* Begins a call and takes the first choice: FN_TRY, its index counted in inflight. */
uint32_t kit_place(struct kit *k, const char *fn_id);
/* The call at this runner ended. */
void kit_end(struct kit *k, const char *fn_id, uint32_t index, uint32_t outcome);
/* A call that is refused by all but `willing` (or by all: UINT32_MAX): rounds until it is placed,
 * or 0 when it was not within `rounds_max`. No runner is named twice in a round. */
uint32_t kit_rounds(struct kit *k, const char *fn_id, uint32_t willing, uint32_t rounds_max);
uint64_t kit_random(uint64_t *seed);

/* What every placer must keep; `all`: names each runner that may be named once per round, for lists
 * of up to 16. Each opens its own instance with the default options and `options`. */
void kit_check_contract(const struct fn_placer_ops *inner_ops, void *inner,
                        const char *const *options, int all);
/* Of a placer that builds one: without memory for an index calls are placed, with less thought. */
void kit_check_no_index(void);

#endif
