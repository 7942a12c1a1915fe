/* The first broken world of a run as a short story, told without being asked for. */
#include "shortest.h"

#include "apart.h"
#include "repeat.h"
#include "shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES_MAX 1000u
#define REAL_S 20 /* until no further try begins */
#define STORY_LINES_MAX 40u /* the last ones */
#define LINE_BYTES 512

static bool any(void *ud, uint64_t seed, const struct run_result *r)
{
    (void)ud;
    (void)seed;
    (void)r;
    return true;
}

/* What the world's process prints goes to `to` meanwhile. */
static void tell_into(FILE *to, const struct plan *p, const bool *left_out)
{
    struct apart a = { .first = p->seed,
                       .n = 1,
                       .mode = plan_mode_of(p),
                       .left_out = left_out,
                       .output = APART_STORY };
    int kept_out = dup(STDOUT_FILENO), kept_err = dup(STDERR_FILENO);
    bool clean;

    fflush(stdout);
    if (kept_out < 0 || kept_err < 0 || dup2(fileno(to), STDOUT_FILENO) < 0 ||
        dup2(fileno(to), STDERR_FILENO) < 0) {
        abort();
    }
    apart_run(&a, any, NULL, &clean);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    close(kept_out);
    close(kept_err);
}

static void print_end_of(FILE *story)
{
    static char lines[STORY_LINES_MAX][LINE_BYTES];
    uint32_t n = 0;

    rewind(story);
    while (fgets(lines[n % STORY_LINES_MAX], LINE_BYTES, story)) {
        n++;
    }
    printf("the story, its last %u lines of %u:\n", n < STORY_LINES_MAX ? n : STORY_LINES_MAX, n);
    for (uint32_t i = n < STORY_LINES_MAX ? 0 : n - STORY_LINES_MAX; i < n; i++) {
        printf("  %s", lines[i % STORY_LINES_MAX]);
    }
}

void shortest_tell(const struct plan *p, bool *left_out)
{
    const struct shrink_limits limits = { .tries = TRIES_MAX, .real_s = REAL_S };
    uint32_t broken = shrink_tell(p, left_out, &limits);
    FILE *story = broken == BOOKS_SOUND ? NULL : tmpfile();

    if (story) {
        tell_into(story, p, left_out);
        print_end_of(story);
        fclose(story);
    }
}
