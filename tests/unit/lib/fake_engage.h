/* Fake engage: a client whose links and attempts are moved by the test. */
#ifndef TESTS_FAKE_ENGAGE_H
#define TESTS_FAKE_ENGAGE_H

#include <model/engage.h>
#include <sys/queue.h>

struct engage_link {
    struct fake_engage *fe;
    char address[64];
    const struct engage_link_cb *cb;
    void *ud;
    bool up;
    TAILQ_ENTRY(engage_link) link;
};

struct engage_attempt {
    struct fake_engage *fe;
    uint32_t number; /* from 1; an address may be used again */
    char address[64];
    char *json;
    char *extensions; /* "k=v,k=v," */
    char *slot_hash_id;
    struct body *body;
    int64_t deadline_ns;
    const struct engage_client_cb *cb;
    void *ud;
    bool paused;
    bool ended;
    TAILQ_ENTRY(engage_attempt) link;
};

struct fake_engage {
    struct engage_client client; /* first */
    bool up_at_once;
    bool no_memory; /* for attempts */
    bool no_links;  /* memory for links */
    uint32_t attempts_made;
    uint32_t attempts_open;
    uint32_t links_open;
    TAILQ_HEAD(, engage_link) links;
    TAILQ_HEAD(, engage_attempt) attempts; /* open ones, oldest first */
};

void fake_engage_init(struct fake_engage *fe);
void fake_engage_finish(struct fake_engage *fe); /* asserts that nothing is open */
struct engage_link *fake_engage_link(struct fake_engage *fe, const char *address); /* or NULL */
void fake_engage_up(struct fake_engage *fe, const char *address, bool up);
void fake_engage_health(struct fake_engage *fe, const char *address, bool failing, int32_t code);
/* The newest open attempt that has not ended, or NULL. */
struct engage_attempt *fake_engage_last(struct fake_engage *fe);

/* Callbacks; `a` may be gone when they return. Headers: name, value, ..., NULL. */
void fake_attempt_start(struct engage_attempt *a, int status, ...) __attribute__((sentinel));
void fake_attempt_data(struct engage_attempt *a, const char *data, size_t len);
void fake_attempt_finished(struct engage_attempt *a, bool success, int code, bool user,
                           const char *text);
void fake_attempt_end(struct engage_attempt *a, int grpc_status, enum engage_proof proof,
                      bool legal);

#endif
