/* Books: what must hold between clients, load balancers, the network, runners and functions.
 *
 * Whoever sees something enters it here; the first entry that breaks a rule is kept and told. Knows
 * nothing of the nodes and shares no code with them: a request is a number that clients give out
 * and functions read from its body. What a function answers is made of that number. */
#ifndef FND_SIM_BOOKS_H
#define FND_SIM_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOOKS_RULES(X)                                                                             \
    X(RAN_ONCE, "B1", "a request runs once at most")                                               \
    X(ONE_END, "B2", "a request gets exactly one end")                                             \
    X(NOT_EXECUTED, "B3", "what is told as not-executed never runs")                               \
    X(OK, "B4", "what is told as ok ran once, and its answer is whole and its own")                \
    X(WHOLE, "B5", "an answer that looks whole is whole and belongs to its request")               \
    X(PROOF, "B6", "a call is offered again only on a proof that nothing ran")                     \
    X(NACK, "B7", "a runner refuses only what no function has a byte of")                          \
    X(IN_TIME, "B8", "a request ends within its time")                                             \
    X(ACKED, "B9", "202 is told when a function has accepted the call")                            \
    X(BODY, "B10", "a function gets the bytes of its request, all and once")                       \
    X(OWN, "B11", "a container runs calls of its function, one at a time, while it may")         \
    X(MEMORY, "B12", "containers that were started fit into the memory of their machine")          \
    X(COUNTS_LB, "B13", "what a load balancer counts is what its clients saw")                     \
    X(COUNTS_RUNNER, "B14", "what a runner counts is what it was asked and told")                  \
    X(NOTHING_LEFT, "B15", "what is drained has nothing, and gives all memory back")               \
    X(SERVES_AGAIN, "B16", "when nothing is wrong any more, every function answers again")         \
    X(ORDER, "B17", "the messages of an exchange come in their order")                             \
    X(RUNNER_TIME, "B18", "a runner ends a call within its own limits")                            \
    X(FAIR, "B19", "a function gets a container in time beside one that never pauses")             \
    X(SIZE, "B20", "a pool never has more machines than its maximum")                              \
    X(SPARED, "B21", "a machine with calls on it is not removed")                                  \
    X(FOLLOWS, "B22", "a pool follows demand, and load balancers know what it has")                \
    X(IDLE, "B23", "a container that nobody uses goes when its time is over")                      \
    X(REACHED, "B24", "an offer that is proved not to have reached its runner never does")         \
    X(GIVEN_UP, "B25", "a runner that answers its manager is not given up")                        \
    X(SAID, "B26", "what a runner said of itself counts for no later moment")                      \
    X(KEPT, "B27", "a change of a function that was acknowledged is there")                        \
    X(ONE_DEFINITION, "B28", "a call goes by one definition of its function")                      \
    X(NEWS, "B29", "a load balancer goes by no older definition than it did, and hears in time")   \
    X(UNDEPLOYED, "B30", "calls of a deleted function are refused")                                \
    X(RULED, "B31", "what overriders set is what is offered and what runs")                        \
    X(HOLDS, "B32", "what nodes hold when everything rests does not grow with the days")

enum books_rule {
    BOOKS_SOUND,
#define X(name, id, text) BOOKS_##name,
    BOOKS_RULES(X)
#undef X
        BOOKS_RULES_END
};
const char *books_rule_id(enum books_rule rule);
const char *books_rule_text(enum books_rule rule);

/* How a client saw its request end. */
enum books_seen {
    BOOKS_TOLD_OK, /* by the answer's own word */
    BOOKS_TOLD_FAILED,
    BOOKS_TOLD_NOT_EXECUTED,
    BOOKS_TOLD_UNKNOWN,
    BOOKS_TOLD_ACK,    /* 202 */
    BOOKS_STREAMED,    /* to its end; streams do not say how */
    BOOKS_CUT,
    BOOKS_LEFT,        /* the client went away */
    BOOKS_NODE_LOST,   /* the load balancer died */
    BOOKS_LOST,        /* the client's connection broke before it had a head */
    BOOKS_SEEN_N
};

struct books_request {
    uint32_t lb; /* an incarnation of a load balancer */
    uint32_t function;
    bool detached;
    uint32_t body_bytes, answer_bytes;
    int64_t ends_by_ns;
};

struct books_answer {
    enum books_seen how;
    int status;
    uint64_t bytes;
    bool wrong; /* a byte is not the one of this request's answer */
};

struct books;

struct books *books_create(void);
size_t books_bytes(const struct books *b); /* that it has allocated for requests */
void books_destroy(struct books *b);
enum books_rule books_broken(const struct books *b); /* BOOKS_SOUND: none yet */
const char *books_why(const struct books *b);
/* The request that the first broken entry is about, 0 = none. */
uint32_t books_of_request(const struct books *b);
uint64_t books_hash(const struct books *b); /* of all entries, in their order */
/* From whoever checks something that is not kept here. The first one counts. */
void books_break(struct books *b, enum books_rule rule, uint32_t seq, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Breaks the rule unless they are equal. */
void books_equal(struct books *b, enum books_rule rule, const char *what, uint64_t got,
                 uint64_t expected);

/* ---- clients ------------------------------------------------------------------------------- */

uint32_t books_open(struct books *b, const struct books_request *rq); /* 1.. */
void books_end(struct books *b, uint32_t seq, const struct books_answer *a, int64_t now_ns);
/* How many requests of a load balancer ended so; `all`: those that were sent to it. */
struct books_tally {
    uint64_t all;
    uint64_t seen[BOOKS_SEEN_N];
};
struct books_tally books_tally(const struct books *b, uint32_t lb);
/* A load balancer was stopped so long: its requests have that much more time. */
void books_delay(struct books *b, uint32_t lb, int64_t ns);
/* Every request ended within its time. */
void books_check_ends(struct books *b, int64_t now_ns);

/* ---- the network --------------------------------------------------------------------------- */

/* What the end of an offer proves. */
enum books_proof {
    BOOKS_NO_PROOF,
    BOOKS_REFUSED,   /* its runner said no: nothing ran */
    BOOKS_UNREACHED, /* no runner has it, or ever will */
};

/* A load balancer offers it to a runner; the offer ends. */
void books_offer(struct books *b, uint32_t seq);
void books_offer_end(struct books *b, uint32_t seq, enum books_proof proof);
/* An offer is with its runner. */
void books_reach(struct books *b, uint32_t seq);
/* A runner says that it refuses it. */
void books_nack(struct books *b, uint32_t seq);

/* ---- functions ----------------------------------------------------------------------------- */

/* The first byte was accepted, of a request of `function`. */
void books_run(struct books *b, uint32_t seq, uint32_t function);
/* So many bytes of the body came, up to the end; wrong: one is not the request's. */
void books_body(struct books *b, uint32_t seq, uint64_t bytes, bool wrong);
/* The function gave its whole answer. */
void books_answered(struct books *b, uint32_t seq);

/* ---- what requests and answers are made of ------------------------------------------------- */

#define BOOKS_NUMBER_BYTES 8u /* a body begins with its request's number, as "0000017 " */

/* `n` bytes from `at` on of the body of request seq, or of the answer to it. */
void books_write(uint32_t seq, bool body, uint64_t at, char *to, size_t n);
/* Whether these are other ones. */
bool books_differ(uint32_t seq, bool body, uint64_t at, const char *data, size_t n);

#endif
