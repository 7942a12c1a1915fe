/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at p (1..4), p < end, or 0 when it is none: then the byte at p is the
 * fault. */
uint32_t utf8_sequence(const char *p, const char *end);
/* The code point of the sequence of `n` bytes at p, which utf8_sequence() has seen. */
uint32_t utf8_code(const char *p, uint32_t n);
bool utf8_is_valid(const char *text);
/* A text cut to what fits, between characters; bytes that are none become '?'. cap > 0. Its length
 * in `to`. */
size_t utf8_copy(char *to, size_t cap, const char *text);

#endif
