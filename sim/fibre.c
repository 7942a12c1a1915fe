/* Fibres: blocking operations without threads.
 *
 * A fibre is a stack with a guard page. The scheduler switches to it and it switches back, when it
 * suspends or returns; never from fibre to fibre. The breadcrumb of the plugin that runs on it goes
 * with it, so that it always says who is running now. Sanitizers are told of each switch. */
#include <sim/sim_int.h>

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN 1
#elif __has_feature(thread_sanitizer)
#define FIBRE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define FIBRE_TSAN 1
#endif
#ifdef FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBRE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#define STACK_BYTES (256 * 1024)
#define GUARD_BYTES (64 * 1024)

struct fibre {
    LIST_ENTRY(fibre) link;
    struct sim *sim;
    ucontext_t here;
    ucontext_t back;
    void *stack; /* guard first */
    void (*fn)(void *ud);
    void *ud;
    bool returned;
    struct plugin_crumb *crumb; /* while it is not running */
#ifdef FIBRE_ASAN
    void *fake_here;
    void *fake_back;
    const void *back_stack;
    size_t back_size;
#endif
#ifdef FIBRE_TSAN
    void *tsan_here;
    void *tsan_back;
#endif
};

static void to_fibre(struct fibre *f)
{
#ifdef FIBRE_ASAN
    __sanitizer_start_switch_fiber(&f->fake_back, (char *)f->stack + GUARD_BYTES, STACK_BYTES);
#endif
#ifdef FIBRE_TSAN
    f->tsan_back = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->tsan_here, 0);
#endif
    swapcontext(&f->back, &f->here);
#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(f->fake_back, NULL, NULL);
#endif
}

static void arrived(struct fibre *f)
{
#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(f->fake_here, &f->back_stack, &f->back_size);
#else
    (void)f;
#endif
}

static void to_scheduler(struct fibre *f)
{
#ifdef FIBRE_ASAN
    __sanitizer_start_switch_fiber(f->returned ? NULL : &f->fake_here, f->back_stack,
                                   f->back_size);
#endif
#ifdef FIBRE_TSAN
    __tsan_switch_to_fiber(f->tsan_back, 0);
#endif
    swapcontext(&f->here, &f->back);
    arrived(f);
}

/* makecontext() passes ints: a pointer is two of them. */
static void body(unsigned high, unsigned low)
{
    struct fibre *f = (struct fibre *)(((uintptr_t)high << 32) | (uintptr_t)low);

    arrived(f);
    f->fn(f->ud);
    f->returned = true;
    to_scheduler(f);
    abort();
}

static void fibre_destroy(struct fibre *f)
{
    if (f->stack) {
#ifdef FIBRE_ASAN
        __asan_unpoison_memory_region((char *)f->stack + GUARD_BYTES, STACK_BYTES);
#endif
        munmap(f->stack, GUARD_BYTES + STACK_BYTES);
    }
#ifdef FIBRE_TSAN
    if (f->tsan_here) {
        __tsan_destroy_fiber(f->tsan_here);
    }
#endif
    free(f);
}

static struct fibre *fibre_create(struct sim *s)
{
    struct fibre *f = sim_alloc(sizeof(*f));

    f->sim = s;
    f->stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, GUARD_BYTES, PROT_NONE) < 0) {
        f->stack = f->stack == MAP_FAILED ? NULL : f->stack;
        fibre_destroy(f);
        return NULL;
    }
    return f;
}

static void run(struct sim *s, struct fibre *f)
{
    struct plugin_crumb *mine;

    assert(!s->running);
    s->running = f;
    mine = plugin_crumb_swap(f->crumb);
    to_fibre(f);
    f->crumb = plugin_crumb_swap(mine);
    s->running = NULL;
    if (f->returned) {
        LIST_REMOVE(f, link);
        s->n_fibres--;
#ifdef FIBRE_TSAN
        __tsan_destroy_fiber(f->tsan_here);
        f->tsan_here = NULL;
#endif
        LIST_INSERT_HEAD(&s->spare, f, link);
    }
}

static int prepare(struct fibre *f)
{
    if (getcontext(&f->here) < 0) {
        return FN_E_EXHAUSTED;
    }
    f->here.uc_stack.ss_sp = (char *)f->stack + GUARD_BYTES;
    f->here.uc_stack.ss_size = STACK_BYTES;
    f->here.uc_link = NULL;
    makecontext(&f->here, (void (*)(void))body, 2, (unsigned)((uintptr_t)f >> 32),
                (unsigned)((uintptr_t)f & 0xffffffffu));
    return 0;
}

/* One that returned, or a new one. */
static struct fibre *fibre_get(struct sim *s)
{
    struct fibre *f = LIST_FIRST(&s->spare);

    if (!f) {
        return fibre_create(s);
    }
    LIST_REMOVE(f, link);
#ifdef FIBRE_ASAN
    __asan_unpoison_memory_region((char *)f->stack + GUARD_BYTES, STACK_BYTES);
#endif
    return f;
}

struct fibre *fibre_start(struct sim *s, void (*fn)(void *ud), void *ud)
{
    struct fibre *f = fibre_get(s);

    if (!f) {
        return NULL;
    }
    f->fn = fn;
    f->ud = ud;
    f->returned = false;
    f->crumb = NULL;
    if (prepare(f) < 0) {
        fibre_destroy(f);
        return NULL;
    }
#ifdef FIBRE_TSAN
    f->tsan_here = __tsan_create_fiber(0);
#endif
    LIST_INSERT_HEAD(&s->fibres, f, link);
    s->n_fibres++;
    run(s, f);
    return f;
}

void fibre_suspend(struct sim *s)
{
    assert(s->running);
    to_scheduler(s->running);
}

void fibre_resume(struct sim *s, struct fibre *f)
{
    run(s, f);
}

void fibres_destroy(struct sim *s)
{
    struct fibre *f;

    while ((f = LIST_FIRST(&s->fibres)) || (f = LIST_FIRST(&s->spare))) {
        LIST_REMOVE(f, link);
        fibre_destroy(f);
    }
}
