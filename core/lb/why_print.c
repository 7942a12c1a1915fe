/* Entries as JSON. Durations in us, as numbers; what did not happen is left out. */
#include <lb/lb_int.h>

#include <model/json.h>
#include <model/time_text.h>

const char *why_how_name(uint32_t how)
{
    static const char *const words[] = { [TRACE_HOW_OPEN] = "open",
                                         [TRACE_HOW_DOWN] = "down",
                                         [TRACE_HOW_DRAINING] = "draining",
                                         [TRACE_HOW_FAILING] = "failing",
                                         [TRACE_HOW_TOLD] = "told-before" };

    if (how >= TRACE_HOW_OWN && how - TRACE_HOW_OWN < SEEN_N) {
        return outcome_rules[how - TRACE_HOW_OWN].how;
    }
    return words[how <= TRACE_HOW_TOLD ? how : TRACE_HOW_OPEN];
}

static int add_text(struct buf *out, const char *key, const char *raw, size_t size)
{
    char clean[WHY_ERROR_MAX];

    if (!raw[0]) {
        return 0;
    }
    return buf_printf(out, ",\"%s\":", key) |
           jw_string(out, trace_text(raw, size, clean, sizeof(clean)));
}

static int add_us(struct buf *out, const char *key, int64_t from_ns, int64_t to_ns)
{
    if (!from_ns || !to_ns) {
        return 0;
    }
    return buf_printf(out, ",\"%s\":%lld", key, (long long)((to_ns - from_ns) / 1000));
}

static int add_try(const struct why_entry *e, const struct trace_try *y, int64_t now_ns,
                   struct buf *out)
{
    bool open = !y->ended_ns;
    char clean[TRACE_ADDRESS_MAX];
    int r = buf_add_str(out, "{\"runner\":");

    r |= jw_string(out, trace_text(y->address, sizeof(y->address), clean, sizeof(clean)));
    r |= buf_printf(out, ",\"how\":\"%s\",\"round\":%u",
                    open && !e->ended ? "running" : why_how_name(y->how), (unsigned)y->round);
    r |= add_us(out, "after_us", e->created_ns, y->begun_ns);
    r |= add_us(out, "took_us", y->begun_ns, !open ? y->ended_ns : e->ended ? e->ended_ns : now_ns);
    if (y->code) {
        r |= buf_printf(out, ",\"code\":%d", (int)y->code);
    }
    r |= add_text(out, "said", y->text, sizeof(y->text));
    r |= add_text(out, "note", y->note, sizeof(y->note));
    return r | buf_add_str(out, "}");
}

/* When the attempt began that the call ended with; 0 = none was made. */
static int64_t last_begun_ns(const struct why_entry *e)
{
    const struct trace *t = &e->trace;
    uint32_t n = t->tries_n < TRACE_TRIES ? t->tries_n : TRACE_TRIES;

    return n ? t->tries[n - 1].begun_ns : 0;
}

/* What the runner says that it spent: nothing of what it did not come to. */
static int add_runner(const struct why_entry *e, struct buf *out)
{
    static const char *const starts[WHY_START_N] = { "pull", "prepare", "create", "init" };
    int r = 0;

    if (e->scheduler_ns || e->execution_ns) {
        r |= buf_printf(out, ",\"runner_wait\":%lld,\"execution\":%lld",
                        (long long)(e->scheduler_ns / 1000), (long long)(e->execution_ns / 1000));
    }
    for (int i = 0; i < WHY_START_N; i++) {
        if (e->start_ns[i] > 0) {
            r |= buf_printf(out, ",\"%s\":%lld", starts[i], (long long)(e->start_ns[i] / 1000));
        }
    }
    return r;
}

static int add_phases(const struct why_entry *e, int64_t now_ns, struct buf *out)
{
    int64_t end_ns = e->ended ? e->ended_ns : now_ns;
    int64_t last_ns = last_begun_ns(e);
    int r = buf_add_str(out, ",\"phases\":{\"unit\":\"us\"");

    r |= add_us(out, "read", e->received_ns, e->created_ns);
    r |= add_us(out, "lookup", e->created_ns, e->placing_ns ? e->placing_ns : end_ns);
    if (e->placing_ns) {
        r |= add_us(out, "placement", e->placing_ns, last_ns ? last_ns : end_ns);
        r |= buf_printf(out, ",\"queue\":%lld", (long long)(e->trace.parked_ns / 1000));
        r |= add_us(out, "attempt", last_ns, end_ns);
    }
    r |= add_runner(e, out);
    r |= add_us(out, "first_byte", e->received_ns ? e->received_ns : e->created_ns,
                e->first_byte_ns);
    r |= add_us(out, "total", e->received_ns ? e->received_ns : e->created_ns, end_ns);
    return r | buf_add_str(out, "}");
}

static int add_placement(const struct why_entry *e, int64_t now_ns, struct buf *out)
{
    const struct trace *t = &e->trace;
    uint32_t n = t->tries_n < TRACE_TRIES ? t->tries_n : TRACE_TRIES;
    int r = add_text(out, "group", t->group, sizeof(t->group));

    r |= add_text(out, "placer", t->placer, sizeof(t->placer));
    r |= buf_printf(out, ",\"runners\":%u,\"waits\":%u,\"tries_made\":%u", t->runners, t->waits_n,
                    t->tries_n);
    if (t->verdict) {
        r |=
            buf_printf(out, ",\"last_refusal\":\"%s\"", t->verdict == FN_WAIT ? "wait" : "give-up");
        r |= add_text(out, "last_refusal_note", t->note, sizeof(t->note));
    }
    r |= buf_add_str(out, ",\"tries\":[");
    for (uint32_t i = 0; i < n; i++) {
        r |= i ? buf_add_str(out, ",") : 0;
        r |= add_try(e, &t->tries[i], now_ns, out);
    }
    return r | buf_add_str(out, "]");
}

int why_print(const struct why_entry *e, int64_t now_ns, struct buf *out)
{
    char at[TIME_TEXT_MAX];
    int r;

    time_print_ms(e->wall_ns, at);
    r = buf_printf(out, "{\"call_id\":\"%s\",\"at\":\"%s\",\"kind\":\"%s\",\"state\":\"%s\"", e->id,
                   at, e->detached ? "detached" : "sync", e->ended ? "ended" : "running");
    if (e->ended) {
        r |= buf_printf(out, ",\"outcome\":\"%s\",\"status\":%d", outcome_names[e->outcome],
                        (int)e->status);
    }
    r |= add_text(out, "error", e->error, sizeof(e->error));
    r |= add_text(out, "fn_id", e->fn_id, sizeof(e->fn_id));
    r |= add_text(out, "trace_id", e->trace_id, sizeof(e->trace_id));
    r |= buf_printf(out, ",\"generation\":%u", e->generation);
    r |= add_placement(e, now_ns, out);
    r |= add_phases(e, now_ns, out);
    r |= buf_add_str(out, "}");
    return r ? FN_E_EXHAUSTED : 0;
}
