/* A ring of seconds, two averages over it, and which of the two counts at the moment. */
#include "window.h"

#define S 1000000000LL

/* Brings the second of `now` to the front; seconds without a word hold what was said last. */
static void advance(struct window_state *s, int64_t now_s, uint64_t mb)
{
    uint64_t held = s->mb[s->last_s % WINDOW_SECONDS_MAX];

    if (s->first_s == 0 || now_s < s->last_s) {
        s->first_s = s->last_s = now_s;
        s->mb[now_s % WINDOW_SECONDS_MAX] = mb;
        return;
    }
    if (now_s - s->last_s > WINDOW_SECONDS_MAX) {
        s->last_s = now_s - WINDOW_SECONDS_MAX;
    }
    while (s->last_s < now_s) {
        s->last_s++;
        s->mb[s->last_s % WINDOW_SECONDS_MAX] = s->last_s == now_s ? mb : held;
    }
    if (mb > s->mb[now_s % WINDOW_SECONDS_MAX]) {
        s->mb[now_s % WINDOW_SECONDS_MAX] = mb;
    }
}

/* Rounded up: a little demand is demand. Values are clamped by the host, the sum cannot wrap. */
static uint64_t average(const struct window_state *s, int64_t seconds)
{
    int64_t known = s->last_s - s->first_s + 1;
    int64_t n = seconds < known ? seconds : known;
    uint64_t sum = 0;

    n = n < 1 ? 1 : n > WINDOW_SECONDS_MAX ? WINDOW_SECONDS_MAX : n;
    for (int64_t i = 0; i < n; i++) {
        sum += s->mb[(s->last_s - i) % WINDOW_SECONDS_MAX];
    }
    return (sum + (uint64_t)n - 1) / (uint64_t)n;
}

uint64_t window_predict(const struct window_conf *c, struct window_state *s,
                        const struct fn_load *load)
{
    int64_t stable_s = c->stable_ns / S;
    int64_t panic_s = stable_s * c->panic_percent / 100;
    uint64_t panic_mb, desired_mb;

    advance(s, load->now_ns / S + 1, load->wanted_mb);
    desired_mb = average(s, stable_s);
    panic_mb = average(s, panic_s > 0 ? panic_s : 1);
    if (panic_mb > 0 && panic_mb * 100 >= load->capacity_mb * (uint64_t)c->threshold_percent) {
        s->panic_until_ns = load->now_ns + c->stable_ns;
    }
    if (load->now_ns < s->panic_until_ns) {
        s->panic_mb = panic_mb > s->panic_mb ? panic_mb : s->panic_mb;
        desired_mb = s->panic_mb > desired_mb ? s->panic_mb : desired_mb;
    } else {
        s->panic_mb = 0;
    }
    return (desired_mb * 100 + (uint64_t)c->utilisation_percent - 1) /
           (uint64_t)c->utilisation_percent;
}
