/* Which line a test has reached, told to Check once a line.
 *
 * Check remembers each assertion that held, so that it can say "after this point" when a test crashes:
 * a message through a file to the process that runs the tests. Tests that assert in a loop sent one a
 * turn; that process, whose copy each later test is, then held what AddressSanitizer does not give
 * back, and each test's search for leaks went through it.
 *
 * The linker puts this before Check's (-Wl,--wrap). What a crash is after is then the line that was
 * reached last of those that were reached for the first time. */
#include <check.h>
#include <stdatomic.h>
#include <stdint.h>

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

enum { MARKS = 1024 };

/* A line's place is its number; two that share one take turns. Tests with threads come here, too. */
static _Atomic uint64_t marks[MARKS];

void __wrap__mark_point(const char *file, int line)
{
    uint64_t mark = (uint64_t)(uintptr_t)file << 16 | (uint16_t)line;
    _Atomic uint64_t *place = &marks[(unsigned)line % MARKS];

    if (atomic_load_explicit(place, memory_order_relaxed) == mark) {
        return;
    }
    atomic_store_explicit(place, mark, memory_order_relaxed);
    __real__mark_point(file, line);
}
