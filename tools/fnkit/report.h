/* Results of fnkit check: collected case by case, written as text, TAP and JUnit. */
#ifndef FNKIT_REPORT_H
#define FNKIT_REPORT_H

#include "fnkit.h"

#define REPORT_TEXT_MAX 1024

enum report_verdict { REPORT_PASSED, REPORT_FAILED, REPORT_SKIPPED };

/* Also what the child sends through a pipe: fixed size, below PIPE_BUF. */
struct report_result {
    enum report_verdict verdict;
    bool real;        /* over the real clock */
    bool world;       /* and over the real world */
    bool broad;       /* fails for many reasons */
    char factory[80]; /* "placer/naive", or "file" */
    char suite[24];
    char name[40];
    char rule[160];
    char rule_of[80]; /* "placer/legal-answers": the case whose rule that is; "" = this one's */
    char text[REPORT_TEXT_MAX]; /* why it failed or was skipped */
    char at[192];               /* what the case was about to do */
    char slowest[96]; /* "slowest decide(), 1.2 us of real time on average" or "" */
    int64_t took_ms;
};

struct report {
    struct report_result *results;
    size_t n;
    size_t cap;
    size_t failed;
    size_t skipped;
    bool usage; /* the command line asks for what the file has not; it was told */
    char file[1024];
    char plugin[128]; /* "placer-naive 0.1.0" */
    char sha256[65];
};

int report_add(struct report *r, const struct report_result *one);
void report_finish(struct report *r);
void report_text_one(const struct report_result *one); /* as it comes */
/* What failed, one cause once, and the numbers. `told`: each failure was told as it came. */
void report_text_end(const struct report *r, bool told);
void report_tap(const struct report *r);
int report_junit(const struct report *r, const char *path);

#endif
