/* Cases that failed for the same cause are told as one, and the three formats are written from
 * the same list. */
#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 6 /* cases that failed for the same cause */

int report_add(struct report *r, const struct report_result *one)
{
    struct report_result *grown;

    if (r->n == r->cap) {
        grown = realloc(r->results, (r->cap * 2 + 64) * sizeof(*grown));
        if (!grown) {
            return FN_E_EXHAUSTED;
        }
        r->results = grown;
        r->cap = r->cap * 2 + 64;
    }
    r->results[r->n++] = *one;
    r->failed += one->verdict == REPORT_FAILED;
    r->skipped += one->verdict == REPORT_SKIPPED;
    return 0;
}

void report_finish(struct report *r)
{
    free(r->results);
    *r = (struct report){ 0 };
}

static const char *tables_name(const struct report_result *one)
{
    return one->world ? " (world)" : one->real ? " (real)" : "";
}

static bool is_its_rule(const struct report_result *one)
{
    char full[80];

    snprintf(full, sizeof(full), "%s/%s", one->suite, one->name);
    return strcmp(one->rule_of, full) == 0;
}

static void text_failed(const struct report_result *one)
{
    const bool of_another = one->rule_of[0] && !is_its_rule(one);

    printf("FAILED  %s %s/%s%s: %s%s%s%s\n        rule%s%s: %s\n", one->factory, one->suite,
           one->name, tables_name(one), one->text, one->at[0] ? " (at: " : "", one->at,
           one->at[0] ? ")" : "", of_another ? " of " : "", of_another ? one->rule_of : "",
           one->rule);
}

void report_text_one(const struct report_result *one)
{
    if (one->verdict == REPORT_FAILED) {
        text_failed(one);
    } else if (one->verdict == REPORT_SKIPPED) {
        printf("skipped %s %s/%s%s: %s\n", one->factory, one->suite, one->name, tables_name(one),
               one->text);
    } else {
        printf("ok      %s %s/%s%s: %s%s%s (%lld ms of real time in all)\n%s%s%s", one->factory,
               one->suite, one->name, tables_name(one), one->rule, one->slowest[0] ? "; " : "",
               one->slowest,
               (long long)one->took_ms, one->text[0] ? "        " : "", one->text,
               one->text[0] ? "\n" : "");
    }
    fflush(stdout);
}

/* ---- one cause, one failure ------------------------------------------------------------------ */

/* The next character that counts; numbers, which differ from case to case, are one '0'. */
static char next_of(const char **s)
{
    if (!isdigit((unsigned char)**s)) {
        return **s ? *(*s)++ : '\0';
    }
    *s += strncmp(*s, "0x", 2) == 0 ? 2 : 0;
    while (isxdigit((unsigned char)**s)) {
        (*s)++;
    }
    return '0';
}

static bool same_cause(const struct report_result *a, const struct report_result *b)
{
    const char *x = a->text;
    const char *y = b->text;
    char c;

    do {
        c = next_of(&x);
        if (c != next_of(&y)) {
            return false;
        }
    } while (c);
    return strcmp(a->factory, b->factory) == 0;
}

static bool is_first(const struct report *r, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (r->results[k].verdict == REPORT_FAILED && same_cause(&r->results[k], &r->results[i])) {
            return false;
        }
    }
    return true;
}

/* Of the cases that failed for one cause: the one whose rule was broken, else the first that tests
 * one thing, else the first. */
static size_t most_telling(const struct report *r, size_t first)
{
    size_t best = first;

    for (size_t i = first; i < r->n; i++) {
        const struct report_result *one = &r->results[i];

        if (one->verdict != REPORT_FAILED || !same_cause(&r->results[first], one)) {
            continue;
        }
        if (is_its_rule(one)) {
            return i;
        }
        if (r->results[best].broad && !one->broad) {
            best = i;
        }
    }
    return best;
}

static void text_cause(const struct report *r, size_t first)
{
    const size_t told = most_telling(r, first);
    size_t n = 0;

    text_failed(&r->results[told]);
    for (size_t i = first; i < r->n; i++) {
        const struct report_result *one = &r->results[i];

        if (i == told || one->verdict != REPORT_FAILED || !same_cause(&r->results[first], one)) {
            continue;
        }
        if (n < NAMED_MAX) {
            printf("%s%s/%s%s", n ? ", " : "        the same in ", one->suite, one->name,
                   tables_name(one));
        }
        n++;
    }
    if (n > NAMED_MAX) {
        printf(" and %zu more", n - NAMED_MAX);
    }
    printf("%s", n ? "\n" : "");
}

void report_text_end(const struct report *r, bool told)
{
    size_t causes = 0;
    char text[40] = "";

    for (size_t i = 0; i < r->n; i++) {
        if (r->results[i].verdict != REPORT_FAILED || !is_first(r, i)) {
            continue;
        }
        causes++;
        if (!told) {
            text_cause(r, i);
        }
    }
    if (causes < r->failed) {
        snprintf(text, sizeof(text), " for %zu cause%s", causes, causes == 1 ? "" : "s");
    }
    printf("%s: %s%s%zu cases, %zu failed%s, %zu skipped; sha256 %s\n", r->file, r->plugin,
           r->plugin[0] ? ", " : "", r->n, r->failed, text, r->skipped,
           r->sha256[0] ? r->sha256 : "unknown");
}

/* ---- TAP 13 ---------------------------------------------------------------------------------- */

void report_tap(const struct report *r)
{
    size_t i;

    printf("TAP version 13\n1..%zu\n# %s %s sha256 %s\n", r->n, r->file, r->plugin, r->sha256);
    for (i = 0; i < r->n; i++) {
        const struct report_result *one = &r->results[i];

        printf("%sok %zu - %s %s/%s%s%s%s\n", one->verdict == REPORT_FAILED ? "not " : "", i + 1,
               one->factory, one->suite, one->name, tables_name(one),
               one->verdict == REPORT_SKIPPED ? " # SKIP " : "",
               one->verdict == REPORT_SKIPPED ? one->text : "");
        if (one->verdict == REPORT_FAILED) {
            printf("# %s%s%s\n# rule: %s\n", one->text, one->at[0] ? ", at: " : "", one->at,
                   one->rule);
        }
    }
}

/* ---- JUnit ----------------------------------------------------------------------------------- */

static void xml(FILE *f, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            if ((unsigned char)*s >= 0x20 && (unsigned char)*s < 0x7f) {
                fputc(*s, f);
            } else {
                fprintf(f, "\\x%02x", (unsigned char)*s);
            }
        }
    }
}

static void junit_case(FILE *f, const struct report_result *one)
{
    fputs("  <testcase classname=\"", f);
    xml(f, one->factory);
    fputs("\" name=\"", f);
    xml(f, one->suite);
    fprintf(f, "/%s%s\" time=\"%lld.%03lld\"", one->name, tables_name(one),
            (long long)(one->took_ms / 1000), (long long)(one->took_ms % 1000));
    if (one->verdict == REPORT_PASSED) {
        fputs("/>\n", f);
        return;
    }
    fputs(one->verdict == REPORT_FAILED ? ">\n    <failure message=\""
                                        : ">\n    <skipped message=\"",
          f);
    xml(f, one->text);
    xml(f, one->at[0] ? ", at: " : "");
    xml(f, one->at);
    fputs("\"", f);
    if (one->verdict == REPORT_FAILED) {
        fputs(">rule: ", f);
        xml(f, one->rule);
        fputs("</failure>\n  </testcase>\n", f);
    } else {
        fputs("/>\n  </testcase>\n", f);
    }
}

int report_junit(const struct report *r, const char *path)
{
    FILE *f = fopen(path, "we");
    int64_t ms = 0;
    size_t i;
    bool good;

    if (!f) {
        fprintf(stderr, "fnkit check: %s: %s\n", path, strerror(errno));
        return FN_E_UNAVAILABLE;
    }
    for (i = 0; i < r->n; i++) {
        ms += r->results[i].took_ms;
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"fnkit check ", f);
    xml(f, r->plugin);
    fprintf(f, "\" tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\" time=\"%lld.%03lld\">\n", r->n,
            r->failed, r->skipped, (long long)(ms / 1000), (long long)(ms % 1000));
    fputs("  <properties>\n    <property name=\"file\" value=\"", f);
    xml(f, r->file);
    fprintf(f, "\"/>\n    <property name=\"sha256\" value=\"%s\"/>\n  </properties>\n", r->sha256);
    for (i = 0; i < r->n; i++) {
        junit_case(f, &r->results[i]);
    }
    fputs("</testsuite>\n", f);
    good = !ferror(f);
    return fclose(f) == 0 && good ? 0 : FN_E_UNAVAILABLE;
}
