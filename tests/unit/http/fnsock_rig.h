/* A fnsock in a loop, and a scripted function in a thread, for the tests of fnsock. */
#ifndef TEST_HTTP_FNSOCK_RIG_H
#define TEST_HTTP_FNSOCK_RIG_H

#include <base/buf.h>
#include <check.h>
#include <http/fnsock.h>
#include <pthread.h>
#include <stdatomic.h>

#define OK_HEAD   "HTTP/1.1 200 OK\r\n"
#define OK_ANSWER OK_HEAD "Content-Length: 2\r\nx-a: b\r\n\r\nok"

extern struct loop *loop;
extern struct env *env;
extern struct fnsock_if io;
extern struct fnsock_config config;
extern struct fnsock *sock;
extern char base[64];

/* What the callbacks told. */
struct told {
    bool ready, ended;
    bool stop_at_data; /* the loop stops when some of the body has come */
    char ready_text[256];
    int status;
    struct buf head, body;
    struct fnsock_result result;
    int writables;
    int sents;
};

extern struct told got;

struct function {
    int listen_fd;
    const char *answer;
    size_t answer_len;
    atomic_int bytewise; /* one byte at a time */
    bool close_after; /* the connection, after each answer */
    bool early;       /* answers at the first byte */
    atomic_int connections, requests, closed;
    struct buf reading;
    pthread_mutex_t lock; /* of last */
    struct buf last;      /* whole request */
    pthread_t thread;
};

void rig_start(void);
void rig_open(void);
void rig_stop(void);
void rig_wait(bool *flag);
struct fnsock_exchange *rig_begin(const struct headers *h);
int rig_give(struct fnsock_exchange *x, const void *data, size_t len, bool eof);
void rig_finish(struct fnsock_exchange *x);
void rig_call(const char *body);
int bind_at(const char *dir, const char *name, bool listening);
void link_to(const char *target);
int publish(void);
void put(int fd, const char *data, size_t len, bool bytewise);
long read_request(int fd, struct buf *text);
void function_start(struct function *f);
void function_stop(struct function *f);
void rig_run_for(int64_t ns);
size_t last_request(struct function *f, const char **ret_text);
void rig_on_ready(void *ud, const struct fn_error *err);

#endif
