/* The memory of a session: malloc()'s, but for the queue of streams that have something to send.
 *
 * When that queue cannot grow, nghttp2 before 1.61 frees an answer that its stream still has, and
 * later frees it again (its session_attach_stream_item). So the queue gets all the memory that it
 * can need before there is a stream, and never asks for more.
 *
 * There is one queue: settle() turns RFC 7540's priorities off, rank_as_all() makes ranks equal. It
 * is known by its first size. Nothing but queues and buffers of frames, which are larger, is
 * made by realloc(). */
#include <http/h2/mux_int.h>

#include <stdlib.h>
#include <string.h>

#define QUEUE_FIRST_BYTES (4 * sizeof(void *))

static size_t queue_bytes(const struct mux *m)
{
    size_t places = 4; /* it doubles until all fit */

    while (places < (size_t)m->streams_max) {
        places *= 2;
    }
    return places * sizeof(void *);
}

bool mux_has_queue(struct mux *m)
{
    if (!m->queue) {
        m->queue = malloc(queue_bytes(m));
    }
    return m->queue != NULL;
}

static void *memory_malloc(size_t size, void *ud)
{
    (void)ud;
    return malloc(size);
}

static void *memory_calloc(size_t n, size_t size, void *ud)
{
    (void)ud;
    return calloc(n, size);
}

static void memory_free(void *p, void *ud)
{
    const struct mux *m = ud;

    if (p != m->queue) {
        free(p);
    }
}

static void *queue_outgrown(struct mux *m, size_t size)
{
    void *larger = malloc(size);

    if (larger) {
        memcpy(larger, m->queue, queue_bytes(m));
    }
    return larger;
}

static void *memory_realloc(void *p, size_t size, void *ud)
{
    struct mux *m = ud;

    if (!p && size == QUEUE_FIRST_BYTES && m->queue && !m->queue_used) {
        m->queue_used = true;
        return m->queue;
    }
    if (p && p == m->queue) {
        return size <= queue_bytes(m) ? p : queue_outgrown(m, size);
    }
    return realloc(p, size);
}

nghttp2_mem mux_memory(struct mux *m)
{
    return (nghttp2_mem){ m, memory_malloc, memory_free, memory_calloc, memory_realloc };
}
