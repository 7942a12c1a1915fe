/* What the tests of this room share: an lb over fake env, fake engage and fake plugins, and a
 * client that records its one answer and frees its request with it. */
#ifndef TESTS_LB_FIXTURE_H
#define TESTS_LB_FIXTURE_H

#include "../lib/fake_engage.h"
#include "../lib/fake_env.h"
#include "../lib/fake_plugin.h"

#include <lb/lb.h>
#include <lb/lookups.h>
#include <override/override.h>

#include <check.h>

#define FN_HELLO "01FNHELLO00000000000000000" /* of app APP */
#define FN_OTHER "01FNOTHER00000000000000000" /* of app OTHER */

struct client {
    struct arena arena; /* of the request; freed with the last reply */
    struct headers headers;
    struct lb_call *call; /* NULL when it is over */
    int terminal;         /* whole, error, end, cut */
    bool cut;
    bool streamed;
    int status;
    int64_t declared;
    char *heads; /* "Name: value\n" of the answer */
    struct buf body;
    struct buf message; /* of an error */
    int full; /* data() says 1 that many times */
    bool live; /* the arena is there */
};

extern struct fake_env *env;
extern struct fake_engage fe;
extern struct plugin placer, pool, other[4];
extern struct place *place;
extern struct lb *lb;
extern struct catalog *catalog;
extern struct lb_options lb_opts; /* set before lb_setup() */
extern const struct catalog_source fixture_source; /* of the API node */
extern bool fixture_api;          /* functions come from the scripted API node */
extern struct budget fixture_bodies;
extern unsigned char fixture_client[LOOKUPS_ADDRESS]; /* address of the next requests */

#define API_MAX 5000
struct api_request {
    char path[512];
    void (*cb)(void *ud, uint32_t status, const char *body, size_t len, const struct fn_error *err);
    void *ud;
    bool answered;
};
extern struct api_request api[API_MAX];
extern int n_api;
void api_answer(int i, uint32_t status, const char *body);

/* The next lb_setup() has a tracer; env is set there. */
struct trace_deps;
struct trace_options;
void fixture_trace(const struct trace_deps *deps, const struct trace_options *o);
void lb_setup(void);
void lb_teardown(void);
void publish(const char *const *addresses);
#define PUBLISH(...) publish((const char *const[]){ __VA_ARGS__, NULL })

/* Headers: name, value, ..., NULL. */
struct client *send_request(const char *method, const char *path, const char *body, ...)
    __attribute__((sentinel));
#define INVOKE(body_) send_request("POST", "/invoke/" FN_HELLO, body_, NULL)
#define TRIGGER(...) send_request("GET", "/t/demo/hello", "", ##__VA_ARGS__, NULL)
void client_gone(struct client *c);
void client_free(struct client *c);
/* Value of a header of the answer, "" if absent; joined with "|". */
const char *answer_header(const struct client *c, const char *name);
void expect_outcome(const struct client *c, const char *outcome);
const char *body_text(struct client *c);

#endif
