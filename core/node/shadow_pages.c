/* The shadow placer on the admin socket. */
#include <node/node.h>

#include <jansson.h>
#include <string.h>

static json_t *counts_json(const char *const *names, const uint64_t *n, uint32_t count)
{
    json_t *o = json_object();

    for (uint32_t i = 0; i < count; i++) {
        json_object_set_new(o, names[i], json_integer((json_int_t)n[i]));
    }
    return o;
}

/* Only pairs that were seen. */
static json_t *answers_json(const struct place_shadow_counts *n)
{
    static const char *const verdicts[] = { "try", "wait", "give-up" };
    json_t *list = json_array();

    for (uint32_t a = 0; a < PLACE_VERDICTS_N; a++) {
        for (uint32_t b = 0; b < PLACE_VERDICTS_N; b++) {
            if (n->answers[a][b]) {
                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:I}", "serving", verdicts[a], "shadow",
                                                verdicts[b], "n", (json_int_t)n->answers[a][b]));
            }
        }
    }
    return list;
}

static double mean_ms(int64_t sum_ns, uint64_t n)
{
    return n ? (double)sum_ns / (double)n / 1e6 : 0;
}

/* Means in milliseconds, over how many. */
static json_t *waits_json(const struct place_shadow_counts *n)
{
    return json_pack("{s:I, s:f, s:f, s:I, s:f}", "predicted", (json_int_t)n->predicted,
                     "serving_ms", mean_ms(n->wait_ns[PLACE_SERVING], n->predicted), "shadow_ms",
                     mean_ms(n->wait_ns[PLACE_SHADOW], n->predicted), "measured",
                     (json_int_t)n->measured, "measured_ms", mean_ms(n->measured_ns, n->measured));
}

static json_t *role_json(const struct place_shadow_counts *n, enum place_role role)
{
    static const char *const picks[] = { "free", "refused", "down" };
    static const char *const homes[] = { "new", "same", "moved" };

    return json_pack("{s:o, s:I, s:o}", "picks", counts_json(picks, n->picks[role], PLACE_PICKS_N),
                     "inflight", (json_int_t)n->inflight[role], "homes",
                     counts_json(homes, n->homes[role], PLACE_HOMES_N));
}

static json_t *shadow_json(const struct node *n)
{
    struct place_shadow_status s;

    place_shadow_status(n->place, &s);
    return json_pack("{s:s, s:s*, s:s, s:s*, s:b, s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
                     "serving", s.serving, "shadow", s.shadow, "state",
                     !s.shadow   ? "none"
                     : s.off_why ? "off"
                                 : "on",
                     "off_why", s.off_why, "swapped", s.swapped, "permille", (int)s.permille,
                     "for_s", (json_int_t)(s.for_ns / ENV_S), "asked", (json_int_t)s.n.asked,
                     "agree", (json_int_t)s.n.agree, "disagree", (json_int_t)s.n.disagree,
                     "answers", answers_json(&s.n), "serving_role", role_json(&s.n, PLACE_SERVING),
                     "shadow_role", role_json(&s.n, PLACE_SHADOW), "waits", waits_json(&s.n));
}

json_t *node_shadow_json(const struct node *n)
{
    struct place_shadow_status s;

    if (!n->place) {
        return NULL;
    }
    place_shadow_status(n->place, &s);
    return s.shadow ? shadow_json(n) : NULL;
}

void node_shadow_status(void *ud, struct admin_request *rq)
{
    admin_answer(rq, 200, shadow_json(ud));
}

void node_shadow_swap(void *ud, struct admin_request *rq)
{
    struct fn_error e = ERR_INIT;
    const struct node *n = ud;

    if (place_shadow_swap(n->place, strcmp(rq->path, "/shadow/back") == 0, &e) < 0) {
        admin_refuse(rq, e.code == FN_E_NOT_FOUND ? 404 : 409, "%s", e.msg);
        return;
    }
    node_shadow_status(ud, rq);
}
