/* A thread for a room's own blocking work, where no lane fits. It lives as long as its owner. */
#ifndef LOOP_THREAD_H
#define LOOP_THREAD_H

#include <pthread.h>

/* A thread that gets no signals but those of its own mistakes. 0 or an errno. [any] */
int loop_thread(pthread_t *ret, void *(*run)(void *arg), void *arg);
/* A condition that is waited for by the monotonic clock. [any] */
void loop_cond_init(pthread_cond_t *c);

#endif
