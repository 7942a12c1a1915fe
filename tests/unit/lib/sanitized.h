/* Whether this build has a sanitizer: it has a heap of its own, and each step costs several times
 * as much. */
#ifndef LIB_SANITIZED_H
#define LIB_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Rounds of a test with random input, of which a sanitizer's build runs one in ten: what it looks
 * for needs fewer. */
#define RANDOM_ROUNDS(n) (SANITIZED ? ((n) + 9) / 10 : (n))

#endif
