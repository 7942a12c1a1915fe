/* A record for each request, and the rules that each new entry is held against. */
#include "books.h"

#include <sim/sim.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 240
#define RING    1021u /* letters that repeat; a prime */
#define PIECE   1024u

struct record {
    struct books_request rq;
    uint32_t runs;
    uint32_t offers;      /* under way */
    uint32_t reachable;   /* offers in all, less those that reach nobody */
    uint32_t reached;
    bool spent;           /* an offer ended without a proof */
    bool answered;        /* by its function, to the end */
    bool ended;
    enum books_seen how;
};

struct books {
    struct record *records; /* by number; 0 is none */
    uint32_t n, cap;
    enum books_rule broken;
    uint32_t broken_seq;
    char why[WHY_MAX];
    uint64_t hash;
};

const char *books_rule_id(enum books_rule rule)
{
    static const char *const ids[] = { [BOOKS_SOUND] = "",
#define X(name, id, text) [BOOKS_##name] = id,
                                       BOOKS_RULES(X)
#undef X
    };

    return ids[rule];
}

const char *books_rule_text(enum books_rule rule)
{
    static const char *const texts[] = { [BOOKS_SOUND] = "",
#define X(name, id, text) [BOOKS_##name] = text,
                                         BOOKS_RULES(X)
#undef X
    };

    return texts[rule];
}

struct books *books_create(void)
{
    struct books *b = sim_alloc(sizeof(*b));

    b->cap = 256;
    b->n = 1;
    b->records = sim_alloc(b->cap * sizeof(*b->records));
    return b;
}

size_t books_bytes(const struct books *b)
{
    return b->cap * sizeof(*b->records);
}

void books_destroy(struct books *b)
{
    free(b->records);
    free(b);
}

enum books_rule books_broken(const struct books *b)
{
    return b->broken;
}

const char *books_why(const struct books *b)
{
    return b->why;
}

uint32_t books_of_request(const struct books *b)
{
    return b->broken_seq;
}

uint64_t books_hash(const struct books *b)
{
    return b->hash;
}

void books_break(struct books *b, enum books_rule rule, uint32_t seq, const char *fmt, ...)
{
    va_list ap;

    if (b->broken) {
        return;
    }
    b->broken = rule;
    b->broken_seq = seq;
    va_start(ap, fmt);
    vsnprintf(b->why, sizeof(b->why), fmt, ap);
    va_end(ap);
}

void books_equal(struct books *b, enum books_rule rule, const char *what, uint64_t got,
                 uint64_t expected)
{
    if (got != expected) {
        books_break(b, rule, 0, "%s, got %llu; expected %llu", what, (unsigned long long)got,
                    (unsigned long long)expected);
    }
}

/* Each entry goes into the hash: two worlds with the same entries were the same. */
static struct record *enter(struct books *b, uint32_t what, uint32_t seq, uint64_t more)
{
    b->hash = (b->hash ^ ((uint64_t)what << 56 ^ (uint64_t)seq << 24 ^ more)) * 0x9fb21c651e98df25u;
    b->hash ^= b->hash >> 32;
    return seq > 0 && seq < b->n ? &b->records[seq] : NULL;
}

/* ---- clients ------------------------------------------------------------------------------- */

uint32_t books_open(struct books *b, const struct books_request *rq)
{
    if (b->n == b->cap) {
        b->cap *= 2;
        b->records = sim_resize(b->records, b->cap * sizeof(*b->records));
    }
    b->records[b->n] = (struct record){ .rq = *rq };
    enter(b, 1, b->n, rq->function);
    return b->n++;
}

static void check_whole(struct books *b, enum books_rule rule, uint32_t seq,
                        const struct books_answer *a)
{
    const struct record *r = &b->records[seq];

    if (r->runs != 1 || !r->answered) {
        books_break(b, rule, seq, "request %u ran %u times and its function %s; its client has an "
                    "answer", seq, r->runs, r->answered ? "answered" : "did not answer");
    }
    if (a->wrong || a->bytes != r->rq.answer_bytes) {
        books_break(b, rule, seq, "request %u has an answer of %llu bytes, %s; expected %u", seq,
                    (unsigned long long)a->bytes, a->wrong ? "not its own" : "its own",
                    r->rq.answer_bytes);
    }
}

static void check_answer(struct books *b, uint32_t seq, const struct books_answer *a)
{
    const struct record *r = &b->records[seq];

    switch (a->how) {
    case BOOKS_TOLD_OK:
        check_whole(b, BOOKS_OK, seq, a);
        break;
    case BOOKS_TOLD_NOT_EXECUTED:
        if (r->runs > 0) {
            books_break(b, BOOKS_NOT_EXECUTED, seq, "request %u ran and is told as not-executed",
                        seq);
        }
        break;
    case BOOKS_TOLD_ACK:
        if (r->runs != 1) {
            books_break(b, BOOKS_ACKED, seq, "request %u is told 202, and ran %u times", seq,
                        r->runs);
        }
        break;
    case BOOKS_TOLD_FAILED:
    case BOOKS_TOLD_UNKNOWN:
        if (a->status >= 200 && a->status < 300) {
            check_whole(b, BOOKS_WHOLE, seq, a);
        }
        break;
    case BOOKS_STREAMED:
        check_whole(b, BOOKS_WHOLE, seq, a);
        break;
    default:
        break;
    }
}

void books_end(struct books *b, uint32_t seq, const struct books_answer *a, int64_t now_ns)
{
    struct record *r = enter(b, 2, seq, (uint64_t)a->how << 16 ^ (uint64_t)a->status);

    if (!r || r->ended) {
        books_break(b, BOOKS_ONE_END, seq, "request %u ended twice", seq);
        return;
    }
    r->ended = true;
    r->how = a->how;
    if (now_ns > r->rq.ends_by_ns) {
        books_break(b, BOOKS_IN_TIME, seq, "request %u ended %lld ms after its time", seq,
                    (long long)((now_ns - r->rq.ends_by_ns) / 1000000));
    }
    check_answer(b, seq, a);
}

struct books_tally books_tally(const struct books *b, uint32_t lb)
{
    struct books_tally t = { 0 };

    for (uint32_t i = 1; i < b->n; i++) {
        const struct record *r = &b->records[i];

        if (r->rq.lb == lb) {
            t.all++;
            t.seen[r->how] += r->ended;
        }
    }
    return t;
}

void books_delay(struct books *b, uint32_t lb, int64_t ns)
{
    for (uint32_t i = 1; i < b->n; i++) {
        if (b->records[i].rq.lb == lb) {
            b->records[i].rq.ends_by_ns += ns;
        }
    }
}

void books_check_ends(struct books *b, int64_t now_ns)
{
    for (uint32_t i = 1; i < b->n; i++) {
        if (!b->records[i].ended && now_ns > b->records[i].rq.ends_by_ns) {
            books_break(b, BOOKS_IN_TIME, i, "request %u has no end at its time", i);
        }
    }
}

/* ---- the network --------------------------------------------------------------------------- */

void books_offer(struct books *b, uint32_t seq)
{
    struct record *r = enter(b, 3, seq, 0);

    if (!r) {
        books_break(b, BOOKS_BODY, 0, "an offer of no request");
    } else if (r->offers > 0 || r->spent) {
        books_break(b, BOOKS_PROOF, seq, "request %u is offered again; its last offer %s", seq,
                    r->spent ? "ended without a proof" : "is under way");
    } else {
        r->offers++;
        r->reachable++;
    }
}

static void check_reached(struct books *b, uint32_t seq)
{
    const struct record *r = &b->records[seq];

    if (r->reached > r->reachable) {
        books_break(b, BOOKS_REACHED, seq, "request %u is with %u runners; its offers prove that "
                    "%u can have it", seq, r->reached, r->reachable);
    }
}

void books_offer_end(struct books *b, uint32_t seq, enum books_proof proof)
{
    struct record *r = enter(b, 4, seq, proof != BOOKS_NO_PROOF);

    if (r) {
        r->offers--;
        r->spent |= proof == BOOKS_NO_PROOF;
        r->reachable -= proof == BOOKS_UNREACHED;
        check_reached(b, seq);
    }
}

void books_reach(struct books *b, uint32_t seq)
{
    struct record *r = enter(b, 9, seq, 0);

    if (r) {
        r->reached++;
        check_reached(b, seq);
    }
}

void books_nack(struct books *b, uint32_t seq)
{
    struct record *r = enter(b, 5, seq, 0);

    if (r && r->runs > 0) {
        books_break(b, BOOKS_NACK, seq, "request %u is refused by a runner, and ran", seq);
    }
}

/* ---- functions ----------------------------------------------------------------------------- */

void books_run(struct books *b, uint32_t seq, uint32_t function)
{
    struct record *r = enter(b, 6, seq, function);

    if (!r) {
        books_break(b, BOOKS_BODY, 0, "a function runs no request");
        return;
    }
    if (++r->runs > 1) {
        books_break(b, BOOKS_RAN_ONCE, seq, "request %u runs a second time", seq);
    }
    if (r->ended && r->how == BOOKS_TOLD_NOT_EXECUTED) {
        books_break(b, BOOKS_NOT_EXECUTED, seq, "request %u was told as not-executed, and runs",
                    seq);
    }
    if (r->rq.function != function) {
        books_break(b, BOOKS_OWN, seq, "request %u of function %u runs in a container of %u", seq,
                    r->rq.function, function);
    }
}

void books_body(struct books *b, uint32_t seq, uint64_t bytes, bool wrong)
{
    struct record *r = enter(b, 7, seq, bytes);

    if (r && (wrong || bytes != r->rq.body_bytes)) {
        books_break(b, BOOKS_BODY, seq, "request %u came with %llu bytes, %s; expected %u", seq,
                    (unsigned long long)bytes, wrong ? "not its own" : "its own",
                    r->rq.body_bytes);
    }
}

void books_answered(struct books *b, uint32_t seq)
{
    struct record *r = enter(b, 8, seq, 0);

    if (r) {
        r->answered = true;
    }
}

/* ---- what requests and answers are made of ------------------------------------------------- */

static const char *ring_at(uint64_t i)
{
    static char ring[RING + PIECE]; /* the first PIECE letters again at its end */

    for (uint32_t k = 0; !ring[0] && k < RING + PIECE; k++) {
        uint32_t j = RING + PIECE - 1 - k;

        ring[j] = (char)('a' + (j % RING * j % RING * 31u + j % RING) % 26u);
    }
    return &ring[i % RING];
}

/* At most PIECE bytes; how many. */
static size_t piece(uint32_t seq, bool body, uint64_t at, size_t n, char *to)
{
    char number[BOOKS_NUMBER_BYTES + 1];

    if (body && at < BOOKS_NUMBER_BYTES) {
        snprintf(number, sizeof(number), "%07u ", seq % 10000000u);
        n = n < BOOKS_NUMBER_BYTES - at ? n : (size_t)(BOOKS_NUMBER_BYTES - at);
        memcpy(to, number + at, n);
    } else {
        n = n < PIECE ? n : PIECE;
        memcpy(to, ring_at(seq * 7u + (body ? 500u : 0u) + at), n);
    }
    return n;
}

void books_write(uint32_t seq, bool body, uint64_t at, char *to, size_t n)
{
    while (n > 0) {
        size_t len = piece(seq, body, at, n, to);

        at += len;
        to += len;
        n -= len;
    }
}

bool books_differ(uint32_t seq, bool body, uint64_t at, const char *data, size_t n)
{
    char expected[PIECE];

    while (n > 0) {
        size_t len = piece(seq, body, at, n, expected);

        if (memcmp(expected, data, len) != 0) {
            return true;
        }
        at += len;
        data += len;
        n -= len;
    }
    return false;
}
