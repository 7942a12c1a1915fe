/* fnd runners roll: every runner that there is now is replaced by a new one, N at a time.
 *
 * The manager does the work (POST /runners/replace/<group>/<id>: another one first, then the old
 * one is drained and removed); here is only whose turn it is:
 *
 *   PENDING ──turn──▶ STARTED ──not listed any more──▶ SETTLING ──its group has what it wants──▶
 * DONE
 *
 * New runners that do not live never make a group whole, so that no further old one goes. What is
 * left when this ends early is left as it is. [init] */
#include <cli/cli.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASK_MS 500
#define STALL_S 1800 /* longer than a boot and a drain by default take together */
#define TOLD_EVERY_S 30
#define AT_MOST_LIMIT 1000

enum stage { PENDING, STARTED, SETTLING, DONE };

struct turn {
    enum stage stage;
    char *id, *group;
};

struct roll {
    const struct cli_options *o;
    struct turn *turns;
    size_t n, done, under_way, at_most;
    int64_t moved_s, told_s;
};

static int64_t roll_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static const char *roll_text(const json_t *o, const char *key)
{
    return cli_text(o, key, "");
}

static const json_t *roll_find(const json_t *list, const char *key, const char *value,
                               const char *group)
{
    json_t *o;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)list, i, o)
    {
        if (strcmp(roll_text(o, key), value) == 0 &&
            (!group || strcmp(roll_text(o, "group"), group) == 0)) {
            return o;
        }
    }
    return NULL;
}

/* ---- what there is --------------------------------------------------------------------------- */

/* What operators have drained stays theirs; what goes already needs no turn. */
static bool takes_part(const struct roll *r, const json_t *runner)
{
    const char *state = roll_text(runner, "state");

    return (strcmp(state, "active") == 0 || strcmp(state, "booting") == 0) &&
           (!r->o->group || strcmp(roll_text(runner, "group"), r->o->group) == 0);
}

static int collect(struct roll *r, const json_t *root)
{
    const json_t *runners = json_object_get(root, "runners");
    json_t *o;
    size_t i;

    r->turns = calloc(json_array_size(runners) + 1, sizeof(*r->turns));
    json_array_foreach((json_t *)(uintptr_t)runners, i, o)
    {
        if (r->turns && takes_part(r, o)) {
            struct turn *t = &r->turns[r->n++];

            t->id = strdup(roll_text(o, "id"));
            t->group = strdup(roll_text(o, "group"));
            if (!t->id || !t->group) {
                return EXIT_UNAVAILABLE;
            }
        }
    }
    return r->turns ? EXIT_OK : EXIT_UNAVAILABLE;
}

/* It has what it wants, without runners that are still to come. */
static bool is_whole(const json_t *root, const char *group)
{
    const json_t *g = roll_find(json_object_get(root, "groups"), "name", group, NULL);
    json_t *o;
    size_t i;

    if (!g || cli_number(g, "asked") > 0 ||
        cli_number(g, "active_mb") < cli_number(g, "desired_mb")) {
        return false;
    }
    json_array_foreach(json_object_get(root, "runners"), i, o)
    {
        if (strcmp(roll_text(o, "state"), "booting") == 0 &&
            strcmp(roll_text(o, "group"), group) == 0) {
            return false;
        }
    }
    return true;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static int roll_begin(struct roll *r, struct turn *t)
{
    char path[512];
    json_t *answer;
    int x;

    snprintf(path, sizeof(path), "/runners/replace/%s/%s", t->group, t->id);
    x = cli_ask(r->o, "POST", path, &answer);
    json_decref(answer);
    t->stage = STARTED;
    r->under_way++;
    r->moved_s = roll_now_s();
    return x;
}

static void roll_end(struct roll *r, struct turn *t)
{
    r->under_way -= t->stage != PENDING;
    t->stage = DONE;
    r->done++;
    r->moved_s = roll_now_s();
    if (!r->o->json) {
        printf("%s of group %s is replaced (%zu of %zu)\n", t->id, t->group, r->done, r->n);
        fflush(stdout);
    }
}

static int advance(struct roll *r, const json_t *root, struct turn *t)
{
    bool listed = roll_find(json_object_get(root, "runners"), "id", t->id, t->group) != NULL;

    if (t->stage == DONE) {
        return EXIT_OK;
    }
    if (t->stage == PENDING && listed) {
        return r->under_way < r->at_most && is_whole(root, t->group) ? roll_begin(r, t) : EXIT_OK;
    }
    if (!listed && t->stage != SETTLING) { /* or it went by itself */
        r->under_way += t->stage == PENDING;
        t->stage = SETTLING;
        r->moved_s = roll_now_s();
    }
    if (t->stage == SETTLING && is_whole(root, t->group)) {
        roll_end(r, t);
    }
    return EXIT_OK;
}

/* Why nothing moves, now and then. */
static int tell_waiting(struct roll *r, const json_t *root)
{
    int64_t now = roll_now_s();

    for (size_t i = 0; i < r->n && now - r->moved_s >= TOLD_EVERY_S; i++) {
        const struct turn *t = &r->turns[i];
        const json_t *g = roll_find(json_object_get(root, "groups"), "name", t->group, NULL);

        if (t->stage != DONE && now - r->told_s >= TOLD_EVERY_S) {
            r->told_s = now;
            fprintf(stderr, "fnd: waits for group %s: %s\n", t->group,
                    g ? roll_text(g, "says") : "");
        }
    }
    if (now - r->moved_s < STALL_S) {
        return EXIT_OK;
    }
    fprintf(stderr,
            "fnd: nothing moved for %d s; %zu of %zu runners were replaced, the others stay\n",
            STALL_S, r->done, r->n);
    return EXIT_UNAVAILABLE;
}

/* A group without runners is one that there is. */
static int check_group(const char *group, const json_t *root)
{
    const json_t *groups = json_object_get(root, "groups");
    const char **names = calloc(json_array_size(groups) + 1, sizeof(*names));
    const char *near;
    json_t *o;
    size_t i;

    if (!names || !group || roll_find(groups, "name", group, NULL)) {
        free(names);
        return names ? EXIT_OK : EXIT_UNAVAILABLE;
    }
    json_array_foreach((json_t *)(uintptr_t)groups, i, o) {
        names[i] = roll_text(o, "name");
    }
    near = conf_nearest(group, names);
    fprintf(stderr, "fnd: group, got %s; expected one of `fnd runners list`%s%s%s\n",
            conf_quote(group), near ? "; did you mean \"" : "", near ? near : "",
            near ? "\"?" : "");
    free(names);
    return EXIT_UNAVAILABLE;
}

static int go_on(struct roll *r)
{
    static const struct timespec pause = { .tv_nsec = ASK_MS * 1000000L };
    json_t *root;
    int x = cli_ask(r->o, "GET", "/runners", &root);

    if (x == EXIT_OK && !r->turns) {
        r->moved_s = roll_now_s();
        x = check_group(r->o->group, root);
        x = x == EXIT_OK ? collect(r, root) : x;
    }
    for (size_t i = 0; x == EXIT_OK && i < r->n; i++) {
        x = advance(r, root, &r->turns[i]);
    }
    x = x == EXIT_OK ? tell_waiting(r, root) : x;
    json_decref(root);
    if (x == EXIT_OK && r->done < r->n) {
        nanosleep(&pause, NULL);
    }
    return x;
}

int cli_roll(const struct cli_options *o)
{
    struct roll r = { .o = o, .at_most = 1 };
    char *end = NULL;
    int x = EXIT_OK;

    if (o->at_most) {
        r.at_most = strtoul(o->at_most, &end, 10);
        if (end == o->at_most || *end || r.at_most < 1 || r.at_most > AT_MOST_LIMIT) {
            fprintf(stderr, "fnd: --at-most, got \"%.64s\"; expected 1 to %d\n", o->at_most,
                    AT_MOST_LIMIT);
            return EXIT_USAGE;
        }
    }
    do {
        x = go_on(&r);
    } while (x == EXIT_OK && r.done < r.n);
    if (x == EXIT_OK) {
        printf(o->json       ? "{\"replaced\": %zu}\n"
               : r.done == 1 ? "%zu runner was replaced\n"
                             : "%zu runners were replaced\n", r.done);
        x = cli_written(EXIT_OK);
    }
    for (size_t i = 0; i < r.n; i++) {
        free(r.turns[i].id);
        free(r.turns[i].group);
    }
    free(r.turns);
    return x;
}
