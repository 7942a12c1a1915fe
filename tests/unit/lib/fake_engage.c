/* The tables of a client over two lists: links, and attempts in the order of their start, with
 * what each was given. */
#include "fake_engage.h"

#include <assert.h>
#include <base/buf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct engage_link *link_open(struct engage_client *c, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct fake_engage *fe = (struct fake_engage *)(void *)c;
    struct engage_link *l = fe->no_links ? NULL : calloc(1, sizeof(*l));

    (void)tls_name;
    if (!l) {
        return NULL;
    }
    snprintf(l->address, sizeof(l->address), "%s", address);
    l->fe = fe;
    l->cb = cb;
    l->ud = ud;
    l->up = fe->up_at_once;
    TAILQ_INSERT_TAIL(&fe->links, l, link);
    fe->links_open++;
    return l;
}

static void link_close(struct engage_link *l)
{
    TAILQ_REMOVE(&l->fe->links, l, link);
    l->fe->links_open--;
    free(l);
}

static bool link_is_up(const struct engage_link *l)
{
    return l->up;
}

static struct engage_attempt *attempt(struct engage_link *l, const struct engage_try *t,
                                      struct body *body, int64_t deadline_ns,
                                      const struct engage_client_cb *cb, void *ud)
{
    struct engage_attempt *a;
    struct buf b = BUF_INIT(0);

    if (l->fe->no_memory) {
        return NULL;
    }
    a = calloc(1, sizeof(*a));
    assert(a);
    a->fe = l->fe;
    memcpy(a->address, l->address, sizeof(a->address));
    a->json = strndup(t->call_json, t->call_json_len);
    for (uint32_t i = 0; i < t->n_extensions; i++) {
        buf_printf(&b, "%s=%s,", t->extensions[i].key, t->extensions[i].value);
    }
    a->extensions = strdup(buf_text(&b));
    a->slot_hash_id = strdup(t->slot_hash_id);
    buf_finish(&b);
    a->body = body ? body_ref(body) : NULL;
    a->deadline_ns = deadline_ns;
    a->cb = cb;
    a->ud = ud;
    TAILQ_INSERT_TAIL(&l->fe->attempts, a, link);
    a->number = ++l->fe->attempts_made;
    l->fe->attempts_open++;
    return a;
}

static void attempt_pause(struct engage_attempt *a, bool paused)
{
    assert(!a->ended);
    a->paused = paused;
}

static void attempt_close(struct engage_attempt *a)
{
    TAILQ_REMOVE(&a->fe->attempts, a, link);
    a->fe->attempts_open--;
    body_unref(a->body);
    free(a->json);
    free(a->extensions);
    free(a->slot_hash_id);
    free(a);
}

void fake_engage_init(struct fake_engage *fe)
{
    *fe = (struct fake_engage){ .up_at_once = true };
    fe->client = (struct engage_client){
        .link_open = link_open,
        .link_close = link_close,
        .link_is_up = link_is_up,
        .attempt = attempt,
        .attempt_pause = attempt_pause,
        .attempt_close = attempt_close,
    };
    TAILQ_INIT(&fe->links);
    TAILQ_INIT(&fe->attempts);
}

void fake_engage_finish(struct fake_engage *fe)
{
    assert(fe->attempts_open == 0);
    assert(fe->links_open == 0);
}

struct engage_link *fake_engage_link(struct fake_engage *fe, const char *address)
{
    struct engage_link *l;

    TAILQ_FOREACH(l, &fe->links, link) {
        if (strcmp(l->address, address) == 0) {
            return l;
        }
    }
    return NULL;
}

void fake_engage_up(struct fake_engage *fe, const char *address, bool up)
{
    struct engage_link *l = fake_engage_link(fe, address);

    assert(l);
    if (l->up != up) {
        l->up = up;
        l->cb->on_state(l->ud, up);
    }
}

void fake_engage_health(struct fake_engage *fe, const char *address, bool failing, int32_t code)
{
    struct engage_link *l = fake_engage_link(fe, address);

    assert(l);
    l->cb->on_health(l->ud, &(struct engage_health){ failing, code, failing ? "disk full" : "" });
}

struct engage_attempt *fake_engage_last(struct fake_engage *fe)
{
    struct engage_attempt *a;

    TAILQ_FOREACH(a, &fe->attempts, link) {
        if (!TAILQ_NEXT(a, link)) {
            break;
        }
    }
    return a && !a->ended ? a : NULL;
}

void fake_attempt_start(struct engage_attempt *a, int status, ...)
{
    struct header list[128];
    struct engage_start start = { .status = status, .headers = list };
    va_list ap;
    const char *name;

    va_start(ap, status);
    while ((name = va_arg(ap, const char *))) {
        list[start.n_headers++] = (struct header){ name, va_arg(ap, const char *) };
    }
    va_end(ap);
    a->cb->on_start(a->ud, &start);
}

void fake_attempt_data(struct engage_attempt *a, const char *data, size_t len)
{
    a->cb->on_data(a->ud, data, len);
}

void fake_attempt_finished(struct engage_attempt *a, bool success, int code, bool user,
                           const char *text)
{
    struct engage_finished f = { .success = success, .error_code = code, .error_user = user,
                                 .error_text = text, .scheduler_ns = 5000000,
                                 .execution_ns = code == 503 ? 0 : 3000000 };

    a->cb->on_finished(a->ud, &f);
}

void fake_attempt_end(struct engage_attempt *a, int grpc_status, enum engage_proof proof,
                      bool legal)
{
    a->ended = true;
    a->cb->on_end(a->ud, grpc_status, grpc_status ? "scripted" : "", proof, legal);
}
