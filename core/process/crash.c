/* Everything below `report` runs in a signal handler: no allocation, no locks, no stdio, only
 * memory that was filled beforehand. `known` has two halves; crash_know() fills the idle one and
 * then switches, so that a crash meanwhile reads a whole one. A crash inside the report itself
 * writes what is there and dies. */
#include <process/crash.h>

#include <base/log.h>
#include <link.h>
#include <loop/log_writer.h>
#include <loop/loop.h>
#include <process/start.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SEGMENTS_MAX   1024
#define PATHS_BYTES    65536
#define PLUGINS_BYTES  8192
#define BLOCK_BYTES    16384
#define STACK_NEAR     (256 * 1024) /* a fault that close to the stack pointer is its overflow */
#define LOG_WAIT_MS    1000
#define OTHERS_WAIT_NS 4000000000L /* longer than the report may take */
#define STACK_LOOK     16384 /* bytes of it that are searched */
#define STACK_STEP     1024
#define STACK_SHOWN    8

struct segment {
    uintptr_t from, to;
    uintptr_t base; /* offset 0 of the file, as addr2line wants it */
    const char *path;
};

struct known {
    struct segment segments[SEGMENTS_MAX];
    uint32_t n;
    char paths[PATHS_BYTES];
    size_t paths_len;
    char plugins[PLUGINS_BYTES];
};

static struct known halves[2];
static struct known *_Atomic known;
static int log_fd = -1;
static atomic_int crashing; /* thread id of the first one */

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };

/* Only in sanitizer builds. */
void __sanitizer_set_death_callback(void (*cb)(void)) __attribute__((weak));

/* ---- before ---------------------------------------------------------------------------------- */

static int add_object(struct dl_phdr_info *info, size_t size, void *ud)
{
    struct known *k = ud;
    /* The linker knows plugins by the name of a copy. */
    const struct plugin_mapping *plugin = plugin_mapping_at((const void *)info->dlpi_addr);
    char own[4096];
    const char *path = plugin ? plugin->path : info->dlpi_name;
    size_t len;

    (void)size;
    if (!path[0]) {
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

        own[n > 0 ? n : 0] = '\0';
        path = own;
    }
    len = strlen(path) + 1;
    if (k->paths_len + len > sizeof(k->paths)) {
        return 1;
    }
    path = memcpy(k->paths + k->paths_len, path, len);
    k->paths_len += len;
    for (int i = 0; i < info->dlpi_phnum && k->n < SEGMENTS_MAX; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        if (ph->p_type == PT_LOAD) {
            k->segments[k->n++] = (struct segment){ .from = info->dlpi_addr + ph->p_vaddr,
                                                    .to = info->dlpi_addr + ph->p_vaddr +
                                                          ph->p_memsz,
                                                    .base = info->dlpi_addr,
                                                    .path = path };
        }
    }
    return 0;
}

void crash_know(struct plugin_host *h)
{
    struct known *k = atomic_load(&known) == &halves[0] ? &halves[1] : &halves[0];
    const char *summary = h ? plugin_host_summary(h) : "";
    size_t len = strlen(summary);

    k->n = 0;
    k->paths_len = 0;
    dl_iterate_phdr(add_object, k);
    len = len < sizeof(k->plugins) ? len : sizeof(k->plugins) - 1;
    memcpy(k->plugins, summary, len);
    k->plugins[len] = '\0';
    atomic_store(&known, k);
}

void crash_log_to(int fd)
{
    log_fd = fd;
}

/* ---- the block ------------------------------------------------------------------------------- */

static char block[BLOCK_BYTES];
static size_t block_len;

static void crash_put(const char *text)
{
    while (text && *text && block_len < sizeof(block)) {
        unsigned char c = (unsigned char)*text++;

        block[block_len++] = (char)(c == '\n' || (c >= 0x20 && c != 0x7f) ? c : '?');
    }
}

/* Several texts; NULL is nothing. */
static void put_texts(const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        crash_put(texts[i]);
    }
}

#define TEXTS(...) (const char *const[]){ __VA_ARGS__ }
#define PUT(...)   put_texts(TEXTS(__VA_ARGS__), sizeof(TEXTS(__VA_ARGS__)) / sizeof(char *))

static void put_number(uint64_t n, uint32_t base)
{
    char digits[24];
    size_t at = sizeof(digits);

    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n);
    PUT(base == 16 ? "0x" : "", digits + at);
}

static void put_place(uintptr_t address)
{
    const struct known *k = atomic_load(&known);

    put_number(address, 16);
    for (uint32_t i = 0; k && i < k->n; i++) {
        const struct segment *s = &k->segments[i];

        if (address >= s->from && address < s->to) {
            PUT(" (", s->path, "+");
            put_number(address - s->base, 16);
            crash_put(")");
            return;
        }
    }
}

static const char *context_word(enum plugin_context c)
{
    switch (c) {
    case PLUGIN_INIT: return "init";
    case PLUGIN_LOOP: return "loop";
    case PLUGIN_WORKER: return "worker";
    default: return "";
    }
}

/* Not who it was, but who may know: damage is often found behind the call that did it. */
static void put_last(void)
{
    struct plugin_busy last;

    if (!plugin_last_call(&last)) {
        crash_put("; none was called on it before\n");
        return;
    }
    PUT("; the last plugin call on it was ", last.name, " (", last.kind, "), ", last.method, "()");
    if (last.for_ns > 0) {
        crash_put(", which had returned some ");
        put_number((uint64_t)last.for_ns / 1000, 10);
        crash_put(" us before");
    }
    crash_put(", which proves nothing\n");
}

static void put_plugin(void)
{
    const struct plugin_crumb *c = plugin_current();

    if (!c) {
        crash_put("  plugin: none ran on this thread");
        put_last();
        return;
    }
    crash_put("  plugin: "); /* first: what is asked of a damaged plugin may crash, too */
    PUT(plugin_name(c->plugin), " (", plugin_factory(c->plugin)->kind, "/",
        plugin_factory(c->plugin)->name, " ", plugin_version(c->plugin), "), in ", c->method,
        "() [", context_word(c->context), "]",
        c->host_call ? ", which was inside the host's " : "", c->host_call, "\n");
}

static void put_known(void)
{
    const struct known *k = atomic_load(&known);

    PUT("  version: fnd " FND_VERSION "\n  plugins: ", k && k->plugins[0] ? k->plugins : "none",
        plugin_tainted() ? "\n  tainted: yes, a plugin was not signed\n" : "\n  tainted: no\n");
}

/* The lines before it first. A reader that stands still must not keep a crashed node from being
 * started again. */
static void write_block(void)
{
    log_writer_flush(LOG_WAIT_MS);
    log_put(STDERR_FILENO, block, block_len, LOG_WAIT_MS);
    if (log_fd >= 0) {
        log_put(log_fd, block, block_len, LOG_WAIT_MS);
    }
}

/* Return addresses, of calls that run or that ran: the kernel copies, so that the end of the stack
 * is no second crash. */
static void put_stack(uintptr_t sp)
{
    static uintptr_t words[STACK_LOOK / sizeof(uintptr_t)];
    struct iovec to = { words, sizeof(words) };
    struct iovec from = { (void *)sp, STACK_LOOK };
    ssize_t len = -1;
    uint32_t n = 0;

    for (; len < 0 && from.iov_len >= STACK_STEP; from.iov_len -= STACK_STEP) {
        len = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    }
    for (size_t i = 0; len > 0 && i < (size_t)len / sizeof(words[0]) && n < STACK_SHOWN; i++) {
        const struct plugin_mapping *m = plugin_mapping_at((const void *)words[i]);

        if (m) {
            PUT(n++ ? "" : "  addresses of plugins on the stack, also of calls that are over:",
                "\n    ");
            put_place(words[i]);
        }
    }
    crash_put(n ? "\n" : "");
}

/* "in plugin placer evil, decide()" or "not in a plugin". */
static void put_whose(void)
{
    const struct plugin_crumb *c = plugin_current();
    const char *where;
    const char *opening = plugin_opening(&where);

    if (opening && !c) {
        PUT("while plugin file ", opening, " was loaded, in ", where);
    } else if (!c) {
        crash_put("not in a plugin");
    } else {
        crash_put(c->host_call ? "in the host, on behalf of plugin " : "in plugin ");
        PUT(plugin_name(c->plugin), ", ", c->method, "()");
    }
}

static uintptr_t register_of(const void *context, bool stack)
{
    const ucontext_t *u = context;

#if defined(__x86_64__)
    return (uintptr_t)u->uc_mcontext.gregs[stack ? REG_RSP : REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)(stack ? u->uc_mcontext.sp : u->uc_mcontext.pc);
#else
    (void)u;
    (void)stack;
    return 0;
#endif
}

static bool is_own_fault(const siginfo_t *info)
{
    return info->si_code > 0 && info->si_signo != SIGABRT;
}

static void report(int signo, const siginfo_t *info, const void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    uintptr_t sp = register_of(context, true);

    PUT("fnd crashed: SIG", sigabbrev_np(signo), " ");
    put_whose();
    if (signo == SIGSEGV && is_own_fault(info) && address + STACK_NEAR > sp &&
        address < sp + STACK_NEAR) {
        crash_put("; the stack overflowed");
    }
    crash_put("\n  signal: ");
    put_number((uint64_t)signo, 10);
    crash_put(" code ");
    put_number((uint64_t)(info->si_code < 0 ? -info->si_code : info->si_code), 10);
    if (is_own_fault(info)) {
        crash_put(", address ");
        put_place(address);
    }
    crash_put("\n  at: ");
    put_place(register_of(context, false));
    crash_put("\n");
    put_plugin();
    put_stack(sp);
    put_known();
}

static void die_by(int signo, const siginfo_t *info)
{
    struct sigaction dfl = { .sa_handler = SIG_DFL };

    sigaction(signo, &dfl, NULL);
    /* A fault happens again when the handler returns; what was sent must be sent again. */
    if (!is_own_fault(info)) {
        syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), signo);
    }
}

static void on_crash(int signo, siginfo_t *info, void *context)
{
    struct timespec wait = { OTHERS_WAIT_NS / 1000000000L, 0 };
    int self = (int)syscall(SYS_gettid);
    int first = 0;

    if (atomic_compare_exchange_strong(&crashing, &first, self)) {
        report(signo, info, context);
        write_block();
    } else if (first == self) {
        crash_put("  (the report itself crashed)\n");
        write_block();
    } else {
        nanosleep(&wait, NULL); /* another thread is about to end the process */
    }
    die_by(signo, info);
}

/* ---- exit() and sanitizers ------------------------------------------------------------------- */

/* Where a plugin's code runs on this thread: tells, and ends with a code that no plugin chose. */
static void refuse_exit(const char *what)
{
    const struct plugin_crumb *c = plugin_current();
    const char *where;
    bool opening = plugin_opening(&where) != NULL;

    if (!opening && (!c || c->host_call)) {
        return;
    }
    PUT("fnd ended: ", what, " was called ");
    put_whose();
    crash_put("; a plugin must not end the process\n");
    put_plugin();
    put_known();
    write_block();
    syscall(SYS_exit_group, opening && !c ? EXIT_CONFIG : EXIT_INTERNAL);
}

static void on_exit_call(void)
{
    refuse_exit("exit()");
}

/* What plugins find before the C library's, which knows no handler: without a sanitizer, whose own
 * it would be. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void __attribute__((visibility("default"))) _exit(int code)
{
    refuse_exit("_exit()");
    for (;;) {
        syscall(SYS_exit_group, code);
    }
}

void __attribute__((visibility("default"))) _Exit(int code)
{
    _exit(code);
}
#endif

static void on_death(void)
{
    crash_put("fnd crashed: ");
    put_whose();
    crash_put("\n");
    put_plugin();
    put_known();
    write_block();
}

void crash_install(void)
{
    struct sigaction sa = { .sa_sigaction = on_crash,
                            .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    bool sanitizer = __sanitizer_set_death_callback != NULL;

    loop_altstack();
    crash_know(NULL);
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (!sanitizer || signals[i] == SIGABRT) {
            sigaction(signals[i], &sa, NULL);
        }
    }
    if (sanitizer) {
        __sanitizer_set_death_callback(on_death);
    }
    atexit(on_exit_call);
}
