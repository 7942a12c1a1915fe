/* What a container engine answers. The first byte says what the rest is:
 *
 *   l e o   its list, its events, its output: the second byte says in which pieces (fuzz_pieces())
 *   c v i m u s   what was made, its version, its facts, an image, what it stores, a state
 *   p   a pull's progress     x   an error        a   a file of credentials for registries
 *
 * What comes in pieces is understood as if it came whole. */
#include "fuzz.h"

#include "auth.h"
#include "docker_api.h"

#include <base/err.h>

/* ---- in pieces ------------------------------------------------------------------------------- */

/* What was told, as a sum: that of two ways to tell the same is the same. */
struct told {
    uint64_t sum;
    uint32_t n;
};

static void add_bytes(struct told *t, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        t->sum = (t->sum ^ p[i]) * 1099511628211u;
    }
}

static void add_text(struct told *t, const char *text)
{
    add_bytes(t, text, strlen(text) + 1);
}

static int on_listed(void *ud, const struct api_listed *c)
{
    struct told *t = ud;

    t->n++;
    fuzz_expect(api_is_id(c->id), "id %s", c->id);
    add_text(t, c->id);
    add_text(t, c->name);
    add_text(t, c->owner);
    add_text(t, c->instance);
    add_text(t, c->lock);
    add_bytes(t, &c->running, sizeof(c->running));
    return 0;
}

static void on_event(void *ud, const struct api_event *ev)
{
    struct told *t = ud;

    t->n++;
    if (ev) {
        add_text(t, ev->name);
        add_bytes(t, &ev->type, sizeof(ev->type));
        add_bytes(t, &ev->exit_code, sizeof(ev->exit_code));
    }
}

static void on_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct told *t = ud;

    fuzz_expect(fd == 1 || fd == 2, "descriptor %u", fd);
    t->n += (uint32_t)len;
    add_bytes(t, data, len);
}

union reader {
    struct api_list list;
    struct api_events events;
    struct api_frames frames;
};

/* How it ended, 0 for what has no end. */
static int feed(char mode, struct fuzz_pieces pieces, struct fuzz_in in, struct told *t)
{
    union reader r;

    memset(&r, 0, sizeof(r));
    if (mode == 'l') {
        r.list = (struct api_list){ .each = on_listed, .ud = t };
    } else if (mode == 'e') {
        r.events = (struct api_events){ .each = on_event, .ud = t };
    }
    for (size_t at = 0; at < in.len;) {
        size_t n = fuzz_piece(&pieces, in.len - at);
        char *copy = fuzz_copy(in.at + at, n);

        if (mode == 'l') {
            api_list_feed(&r.list, copy, n);
        } else if (mode == 'e') {
            api_events_feed(&r.events, copy, n);
        } else {
            api_frames_feed(&r.frames, copy, n, on_output, t);
        }
        free(copy);
        at += n;
    }
    return mode == 'l' ? api_list_end(&r.list, NULL) : 0;
}

static void read_pieces(char mode, struct fuzz_in in)
{
    struct fuzz_pieces pieces = fuzz_pieces(&in), one = { .fixed = SIZE_MAX };
    struct told whole = { 0 }, cut = { 0 };
    int r = feed(mode, one, in, &whole);

    fuzz_expect(r == feed(mode, pieces, in, &cut), "%d in one piece", r);
    fuzz_expect(whole.n == cut.n && whole.sum == cut.sum, "%u told in one piece, %u in several",
                whole.n, cut.n);
    fuzz_expect(mode != 'o' || whole.n <= in.len, "%u bytes", whole.n);
}

/* ---- whole ----------------------------------------------------------------------------------- */

static void read_usage(struct fuzz_in in, struct fn_error *e)
{
    struct api_usage u = { 0 };

    if (api_parse_usage(in.at, in.len, &u, e) == 0) {
        for (size_t i = 0; i < u.n; i++) {
            size_t names = api_stored_names(&u.images[i]);

            for (size_t k = 0; k < names; k++) {
                fuzz_expect(api_stored_name(&u.images[i], k), "name %zu", k);
            }
            fuzz_expect(u.images[i].own_bytes >= 0, "image %zu", i);
        }
        api_usage_finish(&u);
    }
}

static void read_credentials(struct fuzz_in in)
{
    static const char *const registries[] = { "reg.example:5000", "docker.io", "" };
    char *text = fuzz_text(in.at, in.len);
    struct fn_error e = ERR_INIT;
    struct auth *a = NULL;

    if (auth_parse(text, &a, &e) == 0) {
        for (size_t i = 0; i < sizeof(registries) / sizeof(registries[0]); i++) {
            char *header = NULL;

            auth_header(a, registries[i], NULL, &header);
            free(header);
        }
    }
    auth_destroy(a);
    free(text);
}

static int read_answer(char mode, struct fuzz_in in, struct fn_error *e)
{
    char id[API_ID_MAX + 1];
    struct api_version version;
    struct api_info info;
    struct api_image image;
    struct api_state state;

    switch (mode) {
    case 'c': return api_parse_created(in.at, in.len, id, e);
    case 'v': return api_parse_version(in.at, in.len, &version, e);
    case 'i': return api_parse_info(in.at, in.len, &info, e);
    case 'm': return api_parse_image(in.at, in.len, &image, e);
    case 's': return api_parse_state(in.at, in.len, &state, e);
    case 'p': return api_parse_pull("a/b:1", in.at, in.len, e);
    default: return api_failure("create", 400 + (uint32_t)(in.len % 200), in.at, in.len, e);
    }
}

static void read_whole(char mode, struct fuzz_in in)
{
    struct fn_error e = ERR_INIT;
    char *copy = fuzz_copy(in.at, in.len);

    in.at = copy;
    if (mode == 'a') {
        read_credentials(in);
    } else if (mode == 'u') {
        read_usage(in, &e);
    } else if (read_answer(mode, in, &e) < 0) {
        fuzz_expect(e.msg[0] && !strpbrk(e.msg, "\r\n"), "\"%s\" is no sentence", e.msg);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "leocvimuspxa");

    if (mode == 'l' || mode == 'e' || mode == 'o') {
        read_pieces(mode, in);
    } else {
        read_whole(mode, in);
    }
    return 0;
}
