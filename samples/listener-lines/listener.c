/* listener/lines: a line of JSON for each call that ended, added to a file. A disk may be slow, so
 * it hears of ends on a worker: calls do not wait for it. */
#define FN_HOST_MINOR_MIN 1 /* after_worker() and fn.view */
#include <fn/listener.h>
#include <fn/view.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

struct conf {
    const char *path;
};
struct lines {
    const struct fn_view_if *view;
    int fd;
};
struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const char *path = ((const struct conf *)conf)->path;
    struct lines *l = calloc(1, sizeof(*l));

    if (!l) {
        return FN_E_EXHAUSTED;
    }
    l->view = host->get(host, "fn.view", FN_VIEW_MAJOR);
    l->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (l->fd < 0) {
        if (reterr) {
            snprintf(reterr->msg, sizeof(reterr->msg), "%.100s: %s", path, strerror(errno));
        }
        free(l);
        return FN_E_PRECONDITION;
    }
    *ret_inst = l;
    return 0;
}

static void destroy(void *inst)
{
    struct lines *l = inst;

    if (l) {
        close(l->fd);
        free(l);
    }
}

/* As much as there is room for; the end of the line always is. */
static void add(struct line *to, char c)
{
    if (to->len < sizeof(to->text) - 4) {
        to->text[to->len++] = c;
    }
}

static void add_member(struct line *to, const char *key, const char *text)
{
    char code[8];

    to->len += (size_t)snprintf(to->text + to->len, 32, "%c\"%.20s\":\"", to->len ? ',' : '{', key);
    for (; *text && to->len < sizeof(to->text) - 512; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20) {
            snprintf(code, sizeof(code), "\\u%04x", (unsigned char)*text);
            for (const char *c = code; *c; c++) {
                add(to, *c);
            }
        } else {
            add(to, *text);
        }
    }
    add(to, '"');
}

static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    const struct lines *l = inst;
    struct line line = { .len = 0 };
    ssize_t n;

    (void)op;
    add_member(&line, "call", call->id);
    add_member(&line, "outcome", end->outcome);
    add_member(&line, "app", l->view->text(call, FN_TEXT_APP_NAME));
    add_member(&line, "fn", call->fn_id);
    add_member(&line, "image", l->view->text(call, FN_TEXT_IMAGE));
    line.len += (size_t)snprintf(line.text + line.len, 96, ",\"status\":%u,\"mb\":%llu,\"us\":%lld}\n",
                                 end->http_status, (unsigned long long)call->mem_mb,
                                 (long long)((end->ended_ns - end->started_ns) / 1000));
    do {
        n = write(l->fd, line.text, line.len);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)line.len) {
        return 0;
    }
    if (reterr) {
        snprintf(reterr->msg, sizeof(reterr->msg), "%s", n < 0 ? strerror(errno) : "half a line");
    }
    return FN_E_UNAVAILABLE;
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER), .after_worker = after_worker,
};
static const struct fn_need needs[] = { { "fn.view", 1, 0, 0 }, { NULL, 0, 0, 0 } };
static const struct fn_opt opts[] = {
    { .key = "path", .doc = "File that the lines are added to.", .dflt = "/dev/null",
      .type = FN_OPT_STR, .min = 1, .max = 1024, .offset = offsetof(struct conf, path) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER, .name = "lines", .summary = "Writes a line for each call that ended.",
    .kind_major = FN_LISTENER_MAJOR, .kind_minor = FN_LISTENER_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts,
    .ops = &ops, .create = create, .destroy = destroy,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "listener-lines", .version = "1.0", .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG, .factories = factories,
};
FN_PLUGIN_DEFINE(listener_lines, manifest)
