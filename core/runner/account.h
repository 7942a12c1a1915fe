/* Account: memory and CPU of the node, handed out to containers.
 *
 * Totals are found once at start from file texts. A container's charge is taken when its creation
 * begins and given back after its removal, before it counts as gone. [loop], no locks. */
#ifndef RUNNER_ACCOUNT_H
#define RUNNER_ACCOUNT_H

#include <assert.h>
#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_MIB (1024ULL * 1024)

#define ACCOUNT_HEADROOM_MIN_BYTES (256 * ACCOUNT_MIB)
#define ACCOUNT_HEADROOM_MAX_BYTES (5120 * ACCOUNT_MIB)

/* Reads a file into ret[cap], NUL-terminated, cut at cap - 1; bytes read, or < 0: FN_E_EXHAUSTED
 * when this moment has not the means to open it. */
struct account_reader {
    int (*read)(void *ud, const char *path, char *ret, size_t cap);
    void *ud;
};

/* Part of `runner:`, see account_options.c. */
struct account_limits {
    uint64_t mem_bytes_max; /* FN_MAX_TOTAL_MEMORY_BYTES; 0 = none */
    uint64_t cpu_milli_max; /* FN_MAX_TOTAL_CPU_MCPUS; 0 = none */
    uint64_t cpu_milli_default; /* of a function without a limit */
};
extern const struct opt_table account_opt_table;

struct account_totals {
    uint64_t mem_bytes;
    uint64_t cpu_milli;
    uint64_t cpu_milli_default; /* what a function without a limit counts with */
};

/* [init] What containers may use together: available memory under the cgroup's limit (v1 and v2,
 * also of parents) less headroom, and of the processors that this process may run on what the
 * cgroup's quota leaves. FN_E_PRECONDITION when there is too little memory; FN_E_EXHAUSTED when a
 * file with a limit could not be opened for want of something: it may be the one that counts. */
int account_detect(const struct account_reader *reader, uint32_t processors,
                   const struct account_limits *limits, struct account_totals *ret,
                   struct fn_error *reterr);

/* ---- spare processor time -------------------------------------------------------------------- */

#define ACCOUNT_SPARE_PERCENT   10
#define ACCOUNT_CPU_WINDOW_NS   INT64_C(100000000)  /* shorter ones say little: ticks of 10 ms */
#define ACCOUNT_CPU_MEMORY_NS   INT64_C(1000000000) /* longer ones say nothing about now */

/* What was seen of /proc/stat last; zero to begin with. */
struct account_cpu {
    int64_t seen_ns;
    uint64_t total_ticks;
    uint64_t spare_ticks; /* idle, waiting for a disk, or given to niced programs */
    bool spare;
};

/* Whether the machine had ACCOUNT_SPARE_PERCENT of its processors to spare over the last window.
 * False when there was no look within ACCOUNT_CPU_MEMORY_NS: the next one knows. True where it
 * cannot be known. */
bool account_cpu_spare(struct account_cpu *cpu, const struct account_reader *reader,
                       int64_t now_ns);

/* ---- charging -------------------------------------------------------------------------------- */

struct account_need {
    uint64_t mem_bytes;
    uint64_t cpu_milli; /* 0 = not limited and not counted */
};

static inline void account_add(struct account_need *to, const struct account_need *n)
{
    to->mem_bytes += n->mem_bytes;
    to->cpu_milli += n->cpu_milli;
}

/* It has as much. */
static inline void account_sub(struct account_need *from, const struct account_need *n)
{
    assert(from->mem_bytes >= n->mem_bytes && from->cpu_milli >= n->cpu_milli);
    from->mem_bytes -= n->mem_bytes;
    from->cpu_milli -= n->cpu_milli;
}

static inline void account_move(struct account_need *to, const struct account_need *n, bool in)
{
    if (in) {
        account_add(to, n);
    } else {
        account_sub(to, n);
    }
}

/* What is left of a without b; 0: nothing. */
static inline uint64_t account_left(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline struct account_need account_minus(const struct account_need *a,
                                                const struct account_need *b)
{
    return (struct account_need){ account_left(a->mem_bytes, b->mem_bytes),
                                  account_left(a->cpu_milli, b->cpu_milli) };
}

struct account {
    struct account_totals totals;
    struct account_need used; /* charged to containers, also those being removed */
};

bool account_fits(const struct account *a, const struct account_need *n);
void account_take(struct account *a, const struct account_need *n); /* must fit */
void account_give(struct account *a, const struct account_need *n);

/* What is still missing for `n` when `coming` will be given back and `ahead` is promised to
 * others. */
struct account_need account_missing(const struct account *a, const struct account_need *n,
                                    const struct account_need *ahead,
                                    const struct account_need *coming);
static inline bool account_is_zero(const struct account_need *n)
{
    return n->mem_bytes == 0 && n->cpu_milli == 0;
}

#endif
