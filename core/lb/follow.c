/* A question is out, or a timer is set for the next one, as long as there is a source:
 *
 *     question --answer--> (told to the catalog) --> timer, a moment --> question
 *     question --404, failed, several nodes by turns--> timer, longer --> question
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
#define BY_TURNS_NS  (5 * ENV_S)   /* beyond the pause: another one so soon is one of several */
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
    int64_t another_ns; /* when another process answered last; 0 = never */
    int64_t pause_ns;   /* of several that answer by turns; 0 = one answers */
    bool owed;          /* an answer meant all, and was taken for one of several by turns */
    struct question *question;
    struct env_timer timer;
};

/* What an answer means. */
enum told { TOLD_IDS, TOLD_ALL, TOLD_ALL_BY_ANOTHER };

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

/* A cursor is "<process>-<number>". */
static bool is_of_another(const struct follow *f, const char *cursor)
{
    const char *dash = strrchr(f->cursor, '-'), *end = strrchr(cursor, '-');
    size_t len = dash ? (size_t)(dash - f->cursor) : strlen(f->cursor);

    return f->cursor[0] && (end != cursor + len || memcmp(cursor, f->cursor, len) != 0);
}

/* enum told; FN_E_INVALID: it is not understood. */
static int tell_answer(struct follow *f, struct jr *r)
{
    const char *key, *cursor = "";
    bool named = false, another;
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
    another = is_of_another(f, cursor);
    memcpy(f->cursor, cursor, strlen(cursor) + 1);
    return named ? TOLD_IDS : another ? TOLD_ALL_BY_ANOTHER : TOLD_ALL;
}

/* A node that was started again does not know the cursor, once. Of several that answer by turns
 * none knows the others': nothing that is cached would ever be used, and they would be asked
 * without a pause. */
static bool is_by_turns(struct follow *f)
{
    int64_t now_ns = env_now_ns(f->env), ttl_ns = catalog_ttl_ns(f->catalog);
    bool soon = f->another_ns > 0 && now_ns - f->another_ns < f->pause_ns + BY_TURNS_NS;
    int64_t longest_ns = ttl_ns / 2 < UNKNOWN_NS ? ttl_ns / 2 : UNKNOWN_NS;

    f->another_ns = now_ns;
    if (soon) {
        f->pause_ns = 2 * f->pause_ns < longest_ns ? 2 * f->pause_ns : longest_ns;
        f->pause_ns = f->pause_ns > RETRY_NS ? f->pause_ns : RETRY_NS;
    }
    return soon;
}

/* What is not understood, and what names no ids, may be about anything. So may what was taken for
 * a turn, if the same one answers then: it was a node that was started once more. Returns the
 * pause. */
static int64_t follow_tell(struct follow *f, const char *body, size_t len)
{
    struct arena arena;
    struct jr reader;
    bool by_turns;
    int r;

    arena_init(&arena, ANSWER_BYTES_MAX);
    jr_init(&reader, body, len, &arena);
    r = tell_answer(f, &reader);
    by_turns = r == TOLD_ALL_BY_ANOTHER && is_by_turns(f);
    if (!by_turns) {
        if (r != TOLD_IDS || f->owed) {
            catalog_expire(f->catalog);
        }
        f->pause_ns = 0;
    }
    f->owed = by_turns;
    arena_finish(&arena);
    return r < 0 ? RETRY_NS : by_turns ? f->pause_ns : PAUSE_NS;
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
    follow_later(f, follow_tell(f, body, len));
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
    f->another_ns = f->pause_ns = 0;
    f->owed = false;
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
