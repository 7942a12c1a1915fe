/* Watches what plugins allocate: the dynamic linker binds a plugin's malloc to the ones below.
 *
 * An allocation counts as the plugin's while this thread runs plugin code; host tables suspend
 * that, so that what they allocate on behalf of the plugin neither fails nor is filled. Not
 * compiled under sanitizers, which own malloc. */
#include "contract.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t fail_at;
static uint64_t seen;
static bool fail_after;
static bool failed;

bool memory_watched(void)
{
    return !CONTRACT_SANITIZED;
}

void memory_fail_at(uint64_t n, bool and_all_after)
{
    __atomic_store_n(&fail_at, n, __ATOMIC_RELAXED);
    __atomic_store_n(&seen, 0, __ATOMIC_RELAXED);
    fail_after = and_all_after;
    failed = failed && n == 0; /* the end of a run keeps what it saw */
}

uint64_t memory_seen(void)
{
    return __atomic_load_n(&seen, __ATOMIC_RELAXED);
}

bool memory_failed(void)
{
    return failed;
}

#if CONTRACT_SANITIZED

int64_t memory_live_bytes(void)
{
    return 0;
}

int64_t memory_live_blocks(void)
{
    return 0;
}

void memory_fill(unsigned char byte)
{
    (void)byte;
}

#else

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

#define EXPORTED __attribute__((visibility("default")))

static int64_t live_bytes;
static int64_t live_blocks;
static unsigned char fill;

int64_t memory_live_bytes(void)
{
    return __atomic_load_n(&live_bytes, __ATOMIC_RELAXED);
}

int64_t memory_live_blocks(void)
{
    return __atomic_load_n(&live_blocks, __ATOMIC_RELAXED);
}

void memory_fill(unsigned char byte)
{
    fill = byte;
}

static bool refuse(void)
{
    uint64_t at = __atomic_load_n(&fail_at, __ATOMIC_RELAXED);
    uint64_t n;

    if (!running()) {
        return false;
    }
    n = __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
    if (at == 0 || (n != at && !(fail_after && n > at))) {
        return false;
    }
    failed = true;
    errno = ENOMEM;
    return true;
}

static void *count(void *p, bool dirty)
{
    if (p) {
        __atomic_fetch_add(&live_bytes, (int64_t)malloc_usable_size(p), __ATOMIC_RELAXED);
        __atomic_fetch_add(&live_blocks, 1, __ATOMIC_RELAXED);
        if (dirty && fill && running()) {
            memset(p, fill, malloc_usable_size(p));
        }
    }
    return p;
}

static void uncount(void *p)
{
    if (p) {
        __atomic_fetch_sub(&live_bytes, (int64_t)malloc_usable_size(p), __ATOMIC_RELAXED);
        __atomic_fetch_sub(&live_blocks, 1, __ATOMIC_RELAXED);
    }
}

EXPORTED void *malloc(size_t n)
{
    return refuse() ? NULL : count(__libc_malloc(n), true);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    return refuse() ? NULL : count(__libc_calloc(n, size), false);
}

EXPORTED void *realloc(void *p, size_t n)
{
    size_t before = p ? malloc_usable_size(p) : 0;
    void *grown;

    if (refuse()) {
        return NULL;
    }
    grown = __libc_realloc(p, n);
    if (grown || n == 0) {
        __atomic_fetch_sub(&live_bytes, (int64_t)before, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&live_blocks, p ? 1 : 0, __ATOMIC_RELAXED);
        count(grown, false);
    }
    return grown;
}

EXPORTED void *memalign(size_t align, size_t n)
{
    return refuse() ? NULL : count(__libc_memalign(align, n), true);
}

EXPORTED void *aligned_alloc(size_t align, size_t n)
{
    return refuse() ? NULL : count(__libc_memalign(align, n), true);
}

EXPORTED int posix_memalign(void **ret, size_t align, size_t n)
{
    void *p = refuse() ? NULL : count(__libc_memalign(align, n), true);

    if (!p) {
        return ENOMEM;
    }
    *ret = p;
    return 0;
}

EXPORTED void free(void *p)
{
    uncount(p);
    if (p && fill && running()) {
        memset(p, fill ^ 0xff, malloc_usable_size(p));
    }
    __libc_free(p);
}

#endif

/* ---- fences ---------------------------------------------------------------------------------- */

#define QUARANTINE 2048

struct fence {
    char *base;
    size_t mapped; /* the last page of it cannot be touched */
    char *at;
    size_t len;
    const char *what;
    const char *gone;
    bool read_only;
    struct fence *next;
};

static struct fence *fences;
/* What was borrowed stays unreachable for a while: its place is not given away at once. */
static struct fence gone[QUARANTINE];
static uint32_t gone_turn;

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *fence_alloc(size_t len, size_t align, const char *what, const char *gone_after)
{
    const size_t page = page_size();
    size_t pages = (len + page - 1) / page * page;
    struct fence *f = malloc(sizeof(*f));
    char *base;

    if (pages == 0) {
        pages = page;
    }
    base = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(f && base != MAP_FAILED && mprotect(base + pages, page, PROT_NONE) == 0,
         "the machine has no memory for the test");
    *f = (struct fence){ .base = base,
                         .mapped = pages + page,
                         .len = len,
                         .what = what,
                         .gone = gone_after,
                         .next = fences };
    f->at = (char *)(((uintptr_t)base + pages - len) & ~(uintptr_t)(align - 1));
    fences = f;
    return f->at;
}

static struct fence **find(const void *at)
{
    struct fence **f = &fences;

    while (*f && (*f)->at != at) {
        f = &(*f)->next;
    }
    return f;
}

void fence_read_only(void *at)
{
    struct fence *f = *find(at);

    f->read_only = true;
    mprotect(f->base, f->mapped - page_size(), PROT_READ);
}

void fence_free(void *at)
{
    struct fence *last = &gone[gone_turn];
    struct fence **link = find(at);
    struct fence *f = *link;

    if (!f) {
        return;
    }
    *link = f->next;
    madvise(f->base, f->mapped, MADV_DONTNEED);
    mprotect(f->base, f->mapped, PROT_NONE);
    if (last->base) {
        munmap(last->base, last->mapped);
    }
    *last = *f;
    gone_turn = (gone_turn + 1) % QUARANTINE;
    free(f);
}

static bool inside(const struct fence *f, const char *addr)
{
    return f->base && addr >= f->base && addr < f->base + f->mapped;
}

void fence_tell(const void *addr, bool wrote, char *ret, size_t cap)
{
    const char *verb = wrote ? "wrote to" : "read";
    const char *at = addr;

    ret[0] = '\0';
    for (size_t i = 0; i < QUARANTINE; i++) {
        if (inside(&gone[i], at)) {
            snprintf(ret, cap, "%s %s after %s", verb, gone[i].what, gone[i].gone);
            return;
        }
    }
    for (const struct fence *f = fences; f; f = f->next) {
        if (inside(f, at) && at >= f->at + f->len) {
            snprintf(ret, cap, "%s %zu bytes behind %s", wrote ? "wrote" : "read",
                     (size_t)(at - f->at) - f->len, f->what);
        } else if (inside(f, at)) {
            snprintf(ret, cap, "%s %s%s", verb, f->what,
                     f->read_only ? ", which is read-only" : "");
        }
    }
}
