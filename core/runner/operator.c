/* Operator: the plugin of a runner's operator, asked on a lane.
 *
 * It is asked before the status image runs. What it answers is copied there and then: its texts are
 * its own again when it is asked the next time. One question at a time. */
#include <runner/internal.h>

#include <string.h>

#define OPERATOR_TIMEOUT_NS (5 * ENV_S)
#define OPERATOR_TEXTS_MAX  (256u << 10) /* bytes of all pairs together */

static const struct fn_operator_ops *ops_of(const struct runner *r)
{
    return r->deps.operator_ ? plugin_ops(r->deps.operator_) : NULL;
}

bool operator_says_status(const struct runner *r)
{
    const struct fn_operator_ops *ops = ops_of(r);

    return ops && ops->status;
}

static int copy_pairs(struct operator_question *q, const struct fn_kv *pairs, uint32_t n)
{
    struct fn_kv *copy = arena_alloc(&q->arena, (n + 1) * sizeof(*copy));

    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i].key = arena_strdup(&q->arena, pairs[i].key);
        copy[i].value = arena_strdup(&q->arena, pairs[i].value);
        if (!copy[i].key || !copy[i].value) {
            return FN_E_EXHAUSTED;
        }
    }
    q->pairs = copy;
    q->n = copy ? n : 0;
    return copy ? 0 : FN_E_EXHAUSTED;
}

static void run_question(struct env_work *w, struct fn_op *op)
{
    struct operator_question *q = container_of(w, struct operator_question, work);
    struct plugin *plugin = q->r->deps.operator_;
    const struct fn_kv *pairs = NULL;
    struct plugin_crumb crumb;
    uint32_t n = 0;

    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "status");
    q->result = ops_of(q->r)->status(plugin_inst(plugin), op, &pairs, &n, &q->error);
    plugin_leave(&crumb);
    q->result = plugin_answer_result(plugin, "status", q->result, 0, &q->error);
    if (q->result == 0) {
        q->result = plugin_answer_pairs(plugin, "status", pairs, n);
        q->result = q->result < 0 ? q->result : copy_pairs(q, pairs, n);
        if (q->result < 0) {
            err_set(&q->error, q->result, "plugin %s: its status cannot be used",
                    plugin_name(plugin));
        }
    }
}

static void question_done(struct env_work *w)
{
    struct operator_question *q = container_of(w, struct operator_question, work);

    if (q->r->abandoned) {
        return;
    }
    q->asking = false;
    status_on_operator(q->r);
    runner_drain_check(q->r);
}

int operator_ask(struct runner *r)
{
    struct operator_question *q = &r->status.question;

    arena_finish(&q->arena);
    arena_init(&q->arena, OPERATOR_TEXTS_MAX);
    q->r = r;
    q->pairs = NULL;
    q->n = 0;
    q->error = ERR_INIT;
    q->work = (struct env_work){ .run = run_question, .done = question_done,
                                 .lane = ENV_LANE_FAST,
                                 .deadline_ns = env_now_ns(r->env) + OPERATOR_TIMEOUT_NS };
    if (env_submit(r->env, &q->work) < 0) {
        return FN_E_EXHAUSTED;
    }
    q->asking = true;
    return 0;
}
