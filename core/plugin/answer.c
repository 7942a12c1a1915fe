/* One rule for all: a wrong number is refused, a wrong text left out, and the plugin is named. The
 * weight of a runner only says how much: the nearest right one counts, the runner is not lost. */
#include <plugin/answer.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of ABI 1.0. */
#define RUNNER_SIZE_MIN  (offsetof(struct fn_runner, since_ns) + sizeof(int64_t))
#define MACHINE_SIZE_MIN (offsetof(struct fn_machine, capacity_mb) + sizeof(uint64_t))
#define EXIT_SIZE_MIN    (offsetof(struct fn_exit, status) + sizeof(int32_t))
#define LINE_SIZE_MIN    (offsetof(struct fn_log_line, lost) + sizeof(uint64_t)) /* of 1.1 */
#define FLAGS_KNOWN      FN_ERR_RETRY
#define STATUS_MIN       300 /* of a failure: a redirection may be one */
#define STATUS_MAX       599
#define LINE_ID_MAX      255 /* fn/operator.h */
#define WEIGHT_MAX       65535u /* of a runner, fn/placer.h */

static void bad(struct plugin *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void bad(struct plugin *p, const char *fmt, ...)
{
    char what[PLUGIN_ANSWER_WHAT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    plugin_bad_answer(p, what);
}

int64_t plugin_answer_duration(int64_t ns)
{
    ns = ns > 0 ? ns : 0;
    return ns < PLUGIN_ANSWER_DURATION_MAX ? ns : PLUGIN_ANSWER_DURATION_MAX;
}

/* ---- results and errors ---------------------------------------------------------------------- */

static void whole_text(struct plugin *p, const char *method, struct fn_error *said)
{
    if (!memchr(said->msg, '\0', sizeof(said->msg))) {
        bad(p, "%s: the text of its error has no end within %zu bytes", method, sizeof(said->msg));
        said->msg[sizeof(said->msg) - 1] = '\0';
    }
}

void plugin_answer_error(struct plugin *p, const char *method, struct fn_error *said)
{
    whole_text(p, method, said);
    if (said->http_status != 0 &&
        (said->http_status < STATUS_MIN || said->http_status > STATUS_MAX)) {
        bad(p, "%s: HTTP status of its error, got %d; expected 0 or %d to %d", method,
            said->http_status, STATUS_MIN, STATUS_MAX);
        said->http_status = 0;
    }
    if (said->blame > FN_BLAME_PLUGIN) {
        bad(p, "%s: blame of its error, got %u; expected FN_BLAME_*", method, said->blame);
        said->blame = FN_BLAME_PLUGIN;
    }
    if (said->retry_after_ns < 0) {
        bad(p, "%s: retry_after_ns of its error is negative", method);
    }
    said->retry_after_ns = plugin_answer_duration(said->retry_after_ns);
    said->flags &= FLAGS_KNOWN;
    said->size = sizeof(*said);
}

struct fn_error plugin_answer_error_copy(struct plugin *p, const char *method,
                                         const struct fn_error *borrowed)
{
    struct fn_error copy = ERR_INIT;

    if (borrowed) {
        memcpy(&copy, borrowed, sizeof(copy));
        plugin_answer_error(p, method, &copy);
    }
    return copy;
}

int plugin_answer_result(struct plugin *p, const char *method, int r, int most,
                         struct fn_error *said)
{
    if (r > most || r < FN_E_UNAUTHENTICATED) {
        bad(p, "%s: result, got %d; expected 0%s or FN_E_*", method, r,
            most > 0 ? ", a documented outcome" : "");
        return err_set_http(said, FN_E_INTERNAL, 500, FN_BLAME_PLUGIN,
                            "a plugin gave an answer that cannot be used");
    }
    if (r < 0 && said) {
        plugin_answer_error(p, method, said);
        said->code = r; /* a status that is not given follows from it */
    } else if (r > 0 && said) {
        whole_text(p, method, said);
    }
    return r;
}

bool plugin_answer_text(struct plugin *p, const char *method, char *text, size_t cap)
{
    if (memchr(text, '\0', cap)) {
        return true;
    }
    bad(p, "%s: its text has no end within %zu bytes", method, cap);
    text[0] = '\0';
    return false;
}

/* Printable, without spaces; not read further than it may be long. */
static bool is_word(const char *s)
{
    size_t n = 0;

    while (s && n <= PLUGIN_ANSWER_WORD_MAX && s[n] > ' ' && s[n] < 0x7f) {
        n++;
    }
    return n > 0 && n <= PLUGIN_ANSWER_WORD_MAX && s[n] == '\0';
}

/* They stay with whoever said them; NULL: there are none that can be used. */
static const char *labels_or_none(struct plugin *p, const char *method, const char *labels)
{
    const char *fault = fn_labels_fault(labels);

    if (fault) {
        bad(p, "%s: labels, got \"%.64s\"; expected %s", method, labels, fault);
    }
    return fault || !labels || !labels[0] ? NULL : labels;
}

/* ---- placers --------------------------------------------------------------------------------- */

static bool refuse_decision(char *ret, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse_decision(char *ret, size_t cap, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(ret, cap, fmt, ap);
    va_end(ap);
    return false;
}

static bool is_wait(const char *method, const struct fn_answer *a, char *ret, size_t cap)
{
    if (a->wake_mask & ~(FN_WAKE_POOL | FN_WAKE_CAPACITY | FN_WAKE_PLUGIN)) {
        return refuse_decision(ret, cap, "%s: wake_mask, got 0x%x; expected bits of FN_WAKE_*",
                               method, a->wake_mask);
    }
    return a->wait_ns >= 0 ||
           refuse_decision(ret, cap, "%s: wait_ns, got %lld; expected no negative time", method,
                           (long long)a->wait_ns);
}

static bool is_try(const char *method, const struct fn_answer *a, uint32_t n, char *ret,
                   size_t cap)
{
    if (n == 0) {
        return refuse_decision(ret, cap, "%s: FN_TRY, got index %u of a snapshot without runners; "
                               "expected FN_WAIT or FN_GIVE_UP", method, a->index);
    }
    return a->index < n ||
           refuse_decision(ret, cap, "%s: index, got %u; expected less than %u, the runners of the "
                           "snapshot", method, a->index, n);
}

bool plugin_answer_decision(const char *method, int r, const struct fn_answer *a, uint32_t n,
                            char *ret, size_t cap)
{
    if (r > 0 || r < FN_E_UNAUTHENTICATED) {
        return refuse_decision(ret, cap, "%s: result, got %d; expected 0 or FN_E_*", method, r);
    }
    if (r < 0) {
        return true;
    }
    switch (a->verdict) {
    case FN_GIVE_UP:
        return (a->code <= 0 && a->code >= FN_E_UNAUTHENTICATED) ||
               refuse_decision(ret, cap, "%s: code, got %d; expected 0 or FN_E_*", method, a->code);
    case FN_TRY:
        return is_try(method, a, n, ret, cap);
    case FN_WAIT:
        return is_wait(method, a, ret, cap);
    default:
        return refuse_decision(ret, cap, "%s: verdict, got %u; expected FN_TRY, FN_WAIT or "
                               "FN_GIVE_UP", method, a->verdict);
    }
}

/* ---- pools ----------------------------------------------------------------------------------- */

int plugin_answer_runner(struct plugin *p, const struct fn_runner *said, uint32_t size,
                         struct fn_runner *ret)
{
    *ret = (struct fn_runner){ 0 };
    if (!said || size < RUNNER_SIZE_MIN) {
        bad(p, "fn.snap.add: not a runner of ABI 1.0");
        return FN_E_INVALID;
    }
    memcpy(ret, said, size < sizeof(*ret) ? size : sizeof(*ret));
    if (!is_word(ret->address) || (ret->tls_name && !is_word(ret->tls_name))) {
        bad(p, "fn.snap.add: address or tls_name is not 1 to %u printable characters without "
               "spaces", PLUGIN_ANSWER_WORD_MAX);
        return FN_E_INVALID;
    }
    if (ret->flags & ~FN_RUNNER_DRAINING) {
        bad(p, "fn.snap.add: unknown bits in flags");
        return FN_E_INVALID;
    }
    if (ret->weight < 1 || ret->weight > WEIGHT_MAX) {
        bad(p, "fn.snap.add: weight, got %u; expected 1 to %u", ret->weight, WEIGHT_MAX);
        ret->weight = ret->weight < 1 ? 1 : WEIGHT_MAX;
    }
    ret->labels = labels_or_none(p, "fn.snap.add", ret->labels);
    return 0;
}

bool plugin_answer_group(struct plugin *p, const char *method, const char *group)
{
    size_t len = group ? strnlen(group, FN_GROUP_NAME_MAX + 1) : 0;

    if (len == 0 || len > FN_GROUP_NAME_MAX) {
        bad(p, "%s: no group name", method);
        return false;
    }
    return true;
}

/* ---- control planes -------------------------------------------------------------------------- */

int plugin_answer_machine(struct plugin *p, const struct fn_machine *said, struct fn_machine *ret)
{
    *ret = (struct fn_machine){ 0 };
    if (!said || said->size < MACHINE_SIZE_MIN) {
        bad(p, "list: not a machine of ABI 1.0");
        return FN_E_INVALID;
    }
    memcpy(ret, said, said->size < sizeof(*ret) ? said->size : sizeof(*ret));
    if (!is_word(ret->id)) {
        bad(p, "list: id is not 1 to %u printable characters without spaces",
            PLUGIN_ANSWER_WORD_MAX);
        ret->id = NULL;
    }
    if (ret->address && !is_word(ret->address)) {
        bad(p, "list: address is not 1 to %u printable characters without spaces",
            PLUGIN_ANSWER_WORD_MAX);
        ret->address = NULL;
    } else if (!ret->address && ret->state == FN_MACHINE_READY) {
        bad(p, "list: a machine that is ready has no address");
    }
    if (ret->state < FN_MACHINE_STARTING || ret->state > FN_MACHINE_GONE) {
        bad(p, "list: state, got %u; expected FN_MACHINE_*", ret->state);
    }
    ret->labels = labels_or_none(p, "list", ret->labels);
    if (ret->capacity_mb > PLUGIN_ANSWER_MB_MAX) {
        bad(p, "list: capacity_mb, got %llu; expected at most %llu",
            (unsigned long long)ret->capacity_mb, PLUGIN_ANSWER_MB_MAX);
    }
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void count_twice(struct plugin *p, const char *what, const char **texts, uint32_t n)
{
    qsort(texts, n, sizeof(*texts), by_text);
    for (uint32_t i = 1; i < n; i++) {
        if (strcmp(texts[i - 1], texts[i]) == 0) {
            bad(p, "list: %s %.64s stands in it twice", what, texts[i]);
        }
    }
}

void plugin_answer_machines(struct plugin *p, const struct fn_machine *list, uint32_t n,
                            const char **scratch)
{
    uint32_t ids = 0;
    uint32_t addresses = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (list[i].id && list[i].state != FN_MACHINE_GONE) {
            scratch[ids++] = list[i].id;
        }
    }
    count_twice(p, "id", scratch, ids);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].address && list[i].state != FN_MACHINE_GONE) {
            scratch[addresses++] = list[i].address;
        }
    }
    count_twice(p, "address", scratch, addresses);
}

int plugin_answer_accepted(struct plugin *p, uint32_t asked, uint32_t accepted,
                           struct fn_error *reterr)
{
    if (accepted <= asked) {
        return 0;
    }
    bad(p, "provision: accepted, got %u; expected at most the %u asked for", accepted, asked);
    return err_set(reterr, FN_E_INTERNAL, "accepted %u of %u machines", accepted, asked);
}

/* ---- drivers --------------------------------------------------------------------------------- */

struct fn_exit plugin_answer_exit(struct plugin *p, const struct fn_exit *said)
{
    struct fn_exit e = { .size = sizeof(e), .reason = FN_EXIT_CODE, .status = -1 };

    if (!said || said->size < EXIT_SIZE_MIN) {
        bad(p, "fn.driver.exited: not an exit of ABI 1.0");
    } else if (said->reason < FN_EXIT_CODE || said->reason > FN_EXIT_REMOVED) {
        bad(p, "fn.driver.exited: reason, got %u; expected FN_EXIT_*", said->reason);
    } else {
        e.reason = said->reason;
        e.status = said->status;
    }
    return e;
}

bool plugin_answer_output(struct plugin *p, uint32_t fd, const void *data, size_t len)
{
    if (fd != 1 && fd != 2) {
        bad(p, "fn.driver.output: fd, got %u; expected 1 or 2", fd);
    } else if (len > PLUGIN_ANSWER_OUTPUT_MAX) {
        bad(p, "fn.driver.output: length, got %zu; expected at most %u", len,
            PLUGIN_ANSWER_OUTPUT_MAX);
    } else if (!data && len > 0) {
        bad(p, "fn.driver.output: %zu bytes at NULL", len);
    } else {
        return len > 0;
    }
    return false;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* A text of at most that many bytes. */
static bool fits(const char *text, size_t max)
{
    return text && strnlen(text, max + 1) <= max;
}

int plugin_answer_pairs(struct plugin *p, const char *method, const struct fn_kv *pairs,
                        uint32_t n)
{
    if (n > FN_OPERATOR_PAIRS_MAX || (n > 0 && !pairs)) {
        bad(p, "%s: got %u pairs%s; expected at most %u", method, n, pairs ? "" : " at NULL",
            FN_OPERATOR_PAIRS_MAX);
        return FN_E_INTERNAL;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!fits(pairs[i].key, FN_OPERATOR_TEXT_MAX) ||
            !fits(pairs[i].value, FN_OPERATOR_TEXT_MAX) || !pairs[i].key[0]) {
            bad(p, "%s: pair %u; expected a key and a value of at most %u bytes", method, i,
                FN_OPERATOR_TEXT_MAX);
            return FN_E_INTERNAL;
        }
    }
    return 0;
}

static bool is_line(const struct fn_log_line *l)
{
    return l && l->size >= LINE_SIZE_MIN && (l->fd == 1 || l->fd == 2) &&
           fits(l->app_id, LINE_ID_MAX) && fits(l->fn_id, LINE_ID_MAX) &&
           fits(l->container_id, LINE_ID_MAX) && fits(l->call_id, LINE_ID_MAX) && l->data &&
           l->len <= FN_OPERATOR_LINE_MAX;
}

int plugin_answer_lines(struct plugin *p, const char *method,
                        const struct fn_log_line *const *lines, uint32_t n)
{
    if (n > FN_OPERATOR_LINES_MAX || (n > 0 && !lines)) {
        bad(p, "%s: got %u lines%s; expected at most %u", method, n, lines ? "" : " at NULL",
            FN_OPERATOR_LINES_MAX);
        return FN_E_INTERNAL;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!is_line(lines[i])) {
            bad(p, "%s: line %u; expected fd 1 or 2, ids of at most %u bytes and at most %u bytes",
                method, i, LINE_ID_MAX, FN_OPERATOR_LINE_MAX);
            return FN_E_INTERNAL;
        }
    }
    return 0;
}

/* ---- predictors ------------------------------------------------------------------------------ */

int plugin_answer_desired(struct plugin *p, int r, uint64_t mb)
{
    r = plugin_answer_result(p, "predict", r, 0, NULL);
    if (r == 0 && mb > PLUGIN_ANSWER_MB_MAX) {
        bad(p, "predict: got %llu MB; expected at most %llu", (unsigned long long)mb,
            PLUGIN_ANSWER_MB_MAX);
        return FN_E_INTERNAL;
    }
    return r;
}
