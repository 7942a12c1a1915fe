/* The queue of tasks and their steps. What a step cannot do in this turn of the loop, it goes on
 * with in the next. */
#include "intake.h"

#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum step { STEP_CHECK, STEP_LABELS, STEP_TAKE, STEP_LIST };

struct intake_task {
    struct intake_task *next;
    struct group *group;
    enum step step;
    int begun;
    int has_message; /* else the members are published as they are */
    int fresh;       /* the first list of a stream */
    struct wire_head head; /* group "": of a historic manager */
    struct wire_members at;
    struct fn_snap_builder *list; /* STEP_LIST */
    uint32_t listed;
    size_t len;
    unsigned char message[];
};

/* ---- steps: each takes members from `*portion`; 1 = the step is over, < 0 = the task is ----- */

#define TASK_OVER (-1) /* published, or there is nothing to publish; errors are over as well */

static int is_historic(const struct intake_task *t)
{
    return t->head.group[0] == '\0';
}

static void enter(struct intake_task *t, enum step step)
{
    t->step = step;
    t->at = wire_members(t->message, t->len, is_historic(t));
}

static int check(struct intake *in, struct intake_task *t, uint32_t *portion)
{
    struct wire_member m;

    for (; *portion > 0; (*portion)--) {
        int r = wire_next_member(&t->at, &m);

        if (r < 0) {
            say(in->host, FN_LOG_WARN, "membership", "not readable, it is left out");
            return r;
        }
        if (r == 0) {
            group_list_begin(t->group);
            enter(t, STEP_LABELS);
            return 1;
        }
    }
    return 0;
}

static int lose(const struct intake *in, const char *why)
{
    say(in->host, FN_LOG_WARN, "membership", why);
    in->lost(in->ud);
    return TASK_OVER;
}

/* What is too large stays so. */
static int not_taken(const struct intake *in, int why)
{
    if (why != FN_E_RANGE) {
        return lose(in, "out of memory, it is asked for again");
    }
    say(in->host, FN_LOG_WARN, "membership", "too large, it is left out");
    return TASK_OVER;
}

static int take_labels(struct intake *in, struct intake_task *t, uint32_t *portion)
{
    char labels[FN_LABELS_TEXT_MAX + 1];

    for (; *portion > 0; (*portion)--) {
        int r = wire_next_labels(&t->at, labels);

        if (r <= 0) { /* what is not readable has no labels */
            enter(t, STEP_TAKE);
            return 1;
        }
        r = group_labels(t->group, labels);
        if (r < 0) {
            return not_taken(in, r);
        }
    }
    return 0;
}

static void take_over(struct intake *in, struct intake_task *t)
{
    struct group *g = t->group;
    char text[64];

    if (!is_historic(t)) {
        g->epoch = t->head.epoch;
        g->version = t->head.version;
    }
    if (g->unusable > 0) {
        snprintf(text, sizeof(text), "%u without a usable id or address are left out",
                 (unsigned)g->unusable);
        say(in->host, FN_LOG_WARN, "members of the list", text);
    }
    group_list_end(g, in->host->clock->now_ns(in->host));
}

static int take(struct intake *in, struct intake_task *t, uint32_t *portion)
{
    struct wire_member m;
    int r;

    for (; *portion > 0; (*portion)--) {
        if (wire_next_member(&t->at, &m) == 0) {
            take_over(in, t);
            enter(t, STEP_LIST);
            return 1;
        }
        r = group_member(t->group, &m);
        if (r < 0) {
            return not_taken(in, r);
        }
    }
    return 0;
}

static int add(const struct intake *in, struct intake_task *t)
{
    const struct member *m = &t->group->members[t->listed++];
    const struct fn_runner runner = { .id = m->key,
                                      .address = m->address,
                                      .capacity_mb = m->capacity_mb,
                                      .weight = 1,
                                      .flags = m->draining ? FN_RUNNER_DRAINING : 0,
                                      .labels = m->labels };

    return in->snap->add(t->list, &runner, sizeof(runner));
}

static int list(struct intake *in, struct intake_task *t, uint32_t *portion)
{
    struct fn_snap_builder *done;
    int r = t->list ? 0 : in->snap->begin(in->host, t->group->name, &t->list);

    for (; r == 0 && *portion > 0 && t->listed < t->group->n; (*portion)--) {
        r = add(in, t);
    }
    if (r == 0 && t->listed < t->group->n) {
        return 0;
    }
    done = t->list;
    t->list = NULL;
    if (r < 0) {
        in->snap->discard(done);
    } else {
        r = in->snap->publish(done);
    }
    return r < 0 ? lose(in, "the node did not take it, the last one stays until it is told again")
                 : TASK_OVER;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void task_free(struct intake *in, struct intake_task *t)
{
    in->snap->discard(t->list);
    t->group->held--;
    free(t);
}

/* A list that is known already is published again when it is the first of a stream: the host holds
 * it for stale. 0 or TASK_OVER. */
static int begin(struct intake_task *t)
{
    struct group *g = t->group;
    int known = t->head.epoch == g->epoch && t->head.version == g->version;
    int news;

    t->begun = 1;
    if (!t->has_message || is_historic(t)) {
        enter(t, t->has_message ? STEP_CHECK : STEP_LIST);
        return 0;
    }
    g->fresh = t->fresh;
    news = group_is_news(g, t->head.epoch, t->head.version);
    g->fresh = 0;
    enter(t, news ? STEP_CHECK : STEP_LIST);
    return news || (t->fresh && known) ? 0 : TASK_OVER;
}

static int step(struct intake *in, struct intake_task *t, uint32_t *portion)
{
    static int (*const steps[])(struct intake *, struct intake_task *, uint32_t *) = {
        [STEP_CHECK] = check,
        [STEP_LABELS] = take_labels,
        [STEP_TAKE] = take,
        [STEP_LIST] = list,
    };

    return !t->begun && begin(t) < 0 ? TASK_OVER : steps[t->step](in, t, portion);
}

static void work(void *ud)
{
    struct intake *in = ud;
    uint32_t portion = INTAKE_PORTION;
    struct intake_task *t;

    in->timer = 0;
    while ((t = in->first)) {
        int r = step(in, t, &portion);

        if (r == 0) {
            break;
        }
        if (r < 0) {
            in->first = t->next;
            task_free(in, t);
        }
    }
    if (t) {
        in->host->timer->arm(in->host, in->host->clock->now_ns(in->host) + 1, work, in, &in->timer);
    }
}

/* In the place of the one of its kind that waits for the same group, else at the end. */
static void enqueue(struct intake *in, struct intake_task *t)
{
    struct intake_task **at = &in->first;
    struct intake_task *older;

    while ((older = *at) && (older->begun || older->group != t->group ||
                             older->has_message != t->has_message)) {
        at = &older->next;
    }
    if (older) {
        t->fresh |= older->fresh;
        t->next = older->next;
        task_free(in, older);
    }
    *at = t;
    if (in->timer == 0) {
        work(in);
    }
}

static struct intake_task *task_create(const struct intake *in, struct group *g, size_t len)
{
    struct intake_task *t = calloc(1, sizeof(*t) + len);

    if (!t) {
        lose(in, "out of memory, it is asked for again");
        return NULL;
    }
    t->group = g;
    g->held++;
    t->len = len;
    return t;
}

void intake_message(struct intake *in, struct group *g, const struct wire_head *head,
                    const void *copied, size_t len)
{
    struct intake_task *t = task_create(in, g, len);

    if (t) {
        t->has_message = 1;
        if (head) {
            t->head = *head;
            t->fresh = g->fresh;
            g->fresh = 0;
        }
        if (len > 0) {
            memcpy(t->message, copied, len);
        }
        enqueue(in, t);
    }
}

void intake_publish(struct intake *in, struct group *g)
{
    struct intake_task *t = task_create(in, g, 0);

    if (t) {
        enqueue(in, t);
    }
}

int intake_is_busy(const struct intake *in, const struct group *g)
{
    return in->first && in->first->begun && in->first->group == g;
}

void intake_finish(struct intake *in)
{
    struct intake_task *t;

    if (in->timer != 0) {
        in->host->timer->cancel(in->host, in->timer);
        in->timer = 0;
    }
    while ((t = in->first)) {
        in->first = t->next;
        task_free(in, t);
    }
}
