/* Is there an engine that can be used, and what can it do. */
#include "docker.h"
#include "fail.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

/* What servers written in Go answer to plain HTTP. */
#define WANTS_TLS "HTTP request to an HTTPS server"

/* Sentences for what an operator has to repair. */
static int name_fault(struct docker *d, int r, struct fn_error *reterr)
{
    struct fn_error why;

    if (!reterr) {
        return r;
    }
    why = *reterr;
    if (r == FN_E_PERMISSION && *d->unix_path) {
        fail_platform(reterr, r, "DOC1001 unix://%s: Permission denied (need group docker)",
                      d->unix_path);
    } else if (r == FN_E_NOT_FOUND || r == FN_E_PRECONDITION || r == FN_E_UNAVAILABLE) {
        fail_platform(reterr, r, "DOC1001 %s", why.msg);
    }
    return r < 0 ? fail_retry(reterr, r) : 0;
}

/* slow: an engine that takes its time here is not one that hangs. */
static int get(struct docker *d, struct fn_op *op, const char *path, uint32_t timeout_ms, bool slow,
               struct fn_http_answer *a, struct fn_error *reterr)
{
    struct engine_call c = { .method = "GET", .path = path, .timeout_ms = timeout_ms,
                             .probing = true, .slow = slow };
    int r = engine_call(d, op, &c, a, reterr);

    if (r < 0) {
        return name_fault(d, r, reterr);
    }
    if (a->status == 400 && memmem(a->body, a->body_len, WANTS_TLS, strlen(WANTS_TLS))) {
        fail_platform(reterr, FN_E_PRECONDITION,
                      "DOC1001 %s: the engine speaks TLS; set tls_verify and cert_path", d->base);
        return fail_retry(reterr, FN_E_PRECONDITION);
    }
    return a->status == 200 ? 0 : api_failure(path + 1, a->status, a->body, a->body_len, reterr);
}

/* May everybody on this machine connect? Through all folders that lead there. */
static bool is_open_to_all(const char *path)
{
    char at[PATH_MAX];
    struct stat st;
    char *slash;

    if (!realpath(path, at) || stat(at, &st) < 0 || !S_ISSOCK(st.st_mode) ||
        !(st.st_mode & S_IWOTH)) {
        return false;
    }
    while ((slash = strrchr(at, '/')) && slash > at) {
        *slash = '\0';
        if (stat(at, &st) < 0 || !(st.st_mode & S_IXOTH)) {
            return false;
        }
    }
    return true;
}

/* Once. Whoever uses the engine is root on its machine; that is not for this node to forbid. */
static void tell_open_socket(struct docker *d)
{
    bool told;

    pthread_mutex_lock(&d->lock);
    told = d->socket_told;
    d->socket_told = true;
    pthread_mutex_unlock(&d->lock);
    if (!told && *d->unix_path && is_open_to_all(d->unix_path)) {
        engine_log(d, FN_LOG_WARN,
                   "every user of this machine may use the container engine, and so be root: take "
                   "the others' rights from %s (chmod o-rw)",
                   d->unix_path);
    }
}

/* Asked once for each time the engine is there. */
static int learn_version(struct docker *d, struct fn_op *op, uint32_t timeout_ms,
                         struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct api_version v;
    bool asked;
    int r;

    pthread_mutex_lock(&d->lock);
    asked = d->version_asked;
    pthread_mutex_unlock(&d->lock);
    if (asked) {
        return 0;
    }
    r = get(d, op, "/version", timeout_ms, true, &a, reterr);
    if (r == 0) {
        r = api_parse_version(a.body, a.body_len, &v, reterr);
    }
    d->http->free_answer(&a);
    if (r == 0) {
        tell_open_socket(d);
        pthread_mutex_lock(&d->lock);
        snprintf(d->version, sizeof(d->version), "%s (API %s)", v.version, v.api);
        d->podman = v.podman;
        d->version_asked = true;
        pthread_mutex_unlock(&d->lock);
    }
    return r;
}

static int ask_info(struct docker *d, struct fn_op *op, uint32_t timeout_ms, struct api_info *ret,
                    struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    int r = get(d, op, "/info", timeout_ms, true, &a, reterr);

    if (r == 0) {
        r = api_parse_info(a.body, a.body_len, ret, reterr);
    }
    d->http->free_answer(&a);
    return r;
}

/* What the engine can do; asked once, and not needed for anything to work. */
static void learn_info(struct docker *d, struct fn_op *op, uint32_t timeout_ms)
{
    struct fn_error err = { .size = sizeof(err) };
    struct api_info info = { .cgroup_v1 = false };
    bool known;
    int r;

    pthread_mutex_lock(&d->lock);
    known = d->info_known;
    pthread_mutex_unlock(&d->lock);
    if (known) {
        return;
    }
    r = ask_info(d, op, timeout_ms, &info, &err);
    if (r < 0) {
        if (r != FN_E_DEADLINE || timeout_ms > LEARN_BRIEF_MS) {
            engine_log(d, FN_LOG_WARN, "container engine: %s", err.msg);
        }
        return;
    }
    if (!info.seccomp) {
        engine_log(d, FN_LOG_WARN, "container engine: no seccomp profile is in force; functions "
                                   "may use every system call of the kernel");
    }
    pthread_mutex_lock(&d->lock);
    d->info = info;
    d->info_known = true;
    pthread_mutex_unlock(&d->lock);
}

int64_t engine_count_once(struct docker *d, struct fn_op *op, uint32_t *ret_ours)
{
    struct api_info info = { .containers = -1 };
    bool wanted;

    pthread_mutex_lock(&d->lock);
    wanted = d->info_known && !d->others_told;
    d->others_told = d->others_told || wanted;
    *ret_ours = HASH_COUNT(d->ctrs);
    pthread_mutex_unlock(&d->lock);
    return wanted && ask_info(d, op, LEARN_TIMEOUT_MS, &info, NULL) == 0 ? info.containers : -1;
}

void engine_learn(struct docker *d, struct fn_op *op)
{
    struct fn_error err = { .size = sizeof(err) };

    if (learn_version(d, op, LEARN_TIMEOUT_MS, &err) < 0) {
        engine_log(d, FN_LOG_WARN, "container engine: %s", err.msg);
    }
    learn_info(d, op, LEARN_TIMEOUT_MS);
}

int engine_probe(struct docker *d, struct fn_op *op, char *ret_version, size_t cap,
                 struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct fn_error err = { .size = sizeof(err) };
    int r = get(d, op, "/_ping", PING_TIMEOUT_MS, false, &a, &err);

    d->http->free_answer(&a);
    if (r == 0) {
        r = learn_version(d, op, LEARN_BRIEF_MS, &err);
        r = r == FN_E_DEADLINE ? 0 : r; /* it is there, and is asked again */
    }
    if (r < 0) {
        if (reterr) {
            *reterr = err;
        }
        return r;
    }
    learn_info(d, op, LEARN_BRIEF_MS);
    pthread_mutex_lock(&d->lock);
    snprintf(ret_version, cap, "%s", *d->version ? d->version : "version not told yet");
    pthread_mutex_unlock(&d->lock);
    return 0;
}
