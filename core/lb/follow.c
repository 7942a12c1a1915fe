/* A question is out, or a timer is set for the next one, as long as there is a source:
 *
 *     question --answer--> (told to the catalog) --> timer, a moment --> question
 *     question --404, failed--> timer, longer --> question
 *
 * The moment bounds how often a busy API node makes functions be loaded again. */
#include <lb/follow.h>

#include <base/arena.h>
#include <model/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_NS     (20 * ENV_MS) /* after an answer */
#define RETRY_NS     (1 * ENV_S)   /* after none, or one that is not understood */
#define UNKNOWN_NS   (60 * ENV_S)  /* after 404: it may be another one by then */
#define CURSOR_BYTES 64
#define ANSWER_BYTES_MAX (1u << 20)
#define WAIT_PART    2 /* of a request's time, so that it never ends as a failure */

/* A request under way; its answer cannot be called off. */
struct question {
    struct follow *follow; /* NULL: nobody wants the answer any more */
};

struct follow {
    struct env *env;
    struct catalog *catalog;
    const struct catalog_source *source;
    int64_t timeout_ns;
    char cursor[CURSOR_BYTES]; /* "": it knows nothing */
    struct question *question;
    struct env_timer timer;
};

static void follow_later(struct follow *f, int64_t pause_ns)
{
    env_timer_set(f->env, &f->timer, env_now_ns(f->env) + pause_ns);
}

/* The ids, one by one, as they stand in the answer. */
static int tell_ids(struct follow *f, struct jr *r)
{
    const char *id;
    int more = jr_open(r, JR_ARRAY);

    while (more == 0 && (more = jr_element(r)) == 1) {
        more = jr_string(r, &id);
        if (more == 0) {
            catalog_changed(f->catalog, id);
        }
    }
    return more;
}

/* What it does not understand (FN_E_INVALID), and what names no ids (1), may be about anything. */
static int tell_answer(struct follow *f, struct jr *r)
{
    const char *key, *cursor = "";
    bool named = false;
    int more = jr_open(r, JR_OBJECT);

    while (more == 0 && (more = jr_member(r, &key)) == 1) {
        if (strcmp(key, "cursor") == 0) {
            more = jr_string(r, &cursor);
        } else if (strcmp(key, "ids") == 0) {
            named = true;
            more = tell_ids(f, r);
        } else {
            more = jr_skip(r);
        }
    }
    if (more < 0 || !*cursor || strlen(cursor) >= CURSOR_BYTES || strpbrk(cursor, "&# ")) {
        return FN_E_INVALID;
    }
    memcpy(f->cursor, cursor, strlen(cursor) + 1);
    return named ? 0 : 1;
}

/* < 0: it was not understood. */
static int follow_tell(struct follow *f, const char *body, size_t len)
{
    struct arena arena;
    struct jr reader;
    int r;

    arena_init(&arena, ANSWER_BYTES_MAX);
    jr_init(&reader, body, len, &arena);
    r = tell_answer(f, &reader);
    if (r != 0) {
        catalog_expire(f->catalog);
    }
    arena_finish(&arena);
    return r;
}

static void follow_on_answer(void *ud, uint32_t status, const char *body, size_t len,
                             const struct fn_error *err)
{
    struct question *q = ud;
    struct follow *f = q->follow;

    (void)err; /* the catalog's own lookups tell when the API node is away */
    free(q);
    if (!f) {
        return;
    }
    f->question = NULL;
    if (status != 200) {
        follow_later(f, status == 404 ? UNKNOWN_NS : RETRY_NS);
        return;
    }
    follow_later(f, follow_tell(f, body, len) < 0 ? RETRY_NS : PAUSE_NS);
}

static void follow_ask(struct follow *f)
{
    struct question *q = malloc(sizeof(*q));
    char path[CURSOR_BYTES + 64];

    snprintf(path, sizeof(path), "/v2/runner/changes?after=%s&wait_ms=%lld", f->cursor,
             (long long)(f->timeout_ns / WAIT_PART / ENV_MS));
    if (q) {
        q->follow = f;
        f->question = q;
    }
    if (!q || f->source->get(f->source->impl, path, follow_on_answer, q) < 0) {
        f->question = NULL;
        free(q);
        follow_later(f, RETRY_NS);
    }
}

static void follow_on_timer(struct env_timer *t)
{
    follow_ask(container_of(t, struct follow, timer));
}

/* ---- life ------------------------------------------------------------------------------------ */

int follow_create(struct env *env, struct catalog *catalog, struct follow **ret,
                  struct fn_error *reterr)
{
    struct follow *f = calloc(1, sizeof(*f));

    if (!f) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory for changes of the API node");
    }
    f->env = env;
    f->catalog = catalog;
    f->timer.cb = follow_on_timer;
    *ret = f;
    return 0;
}

static void follow_stop(struct follow *f)
{
    if (env_timer_is_set(&f->timer)) { /* else it may never have seen the loop */
        env_timer_clear(f->env, &f->timer);
    }
    if (f->question) {
        f->question->follow = NULL;
        f->question = NULL;
    }
}

void follow_set_source(struct follow *f, const struct catalog_source *source, int64_t timeout_ns)
{
    follow_stop(f);
    f->source = source;
    f->timeout_ns = timeout_ns;
    f->cursor[0] = '\0';
    if (source) {
        follow_later(f, 0);
    }
}

void follow_destroy(struct follow *f)
{
    if (f) {
        follow_stop(f);
        free(f);
    }
}
