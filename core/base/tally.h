/* Tally: what each of many functions did lately: calls, rate, times, cold starts.
 *
 * For people who look, beside the metrics, which show a few functions only. An entry has the last
 * one or two minutes of times in buckets of a quarter octave, so that percentiles are good to a
 * tenth. When max functions are known, one that was not called for long gives its place. [loop] */
#ifndef BASE_TALLY_H
#define BASE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#define TALLY_MAX      8192u /* functions of a node: some 6 MB when all are in use */
#define TALLY_TEXT_MAX 63u   /* of an id, of a name; longer ones are cut */

struct tally;

/* A call that ended. */
struct tally_end {
    const char *id;   /* of its function; NULL or "": it is not counted */
    const char *name; /* for people; may be NULL */
    int64_t took_ns;
    bool good;
    bool cold; /* a container was started for it */
};

struct tally_row {
    const char *id, *name; /* borrowed until the next tally_count() */
    uint64_t calls, failed, cold;    /* since it is known */
    int64_t per_hour;                /* calls, by those of the last 10 to 20 s */
    int64_t p50_us, p95_us, p99_us;  /* 0: none lately */
    int64_t idle_ns;                 /* since its last call */
};

struct tally *tally_create(uint32_t max); /* NULL: out of memory */
void tally_destroy(struct tally *t);      /* NULL ok */
/* Without memory for a new function it is not counted. */
void tally_count(struct tally *t, const struct tally_end *e, int64_t now_ns);
/* i from 0; false: there are no more. Rows keep their place. */
bool tally_at(const struct tally *t, uint32_t i, int64_t now_ns, struct tally_row *ret);

#endif
