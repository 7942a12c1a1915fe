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
/* Characters that would let a foreign text forge lines or confuse a terminal: controls, line
 * separators, invisible and direction marks. */
static inline bool utf8_is_dangerous(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0xfeff;
}
/* Bytes of the character at p, p < end, or 1 where there is none; *ret_plain: a terminal may be
 * given it. */
uint32_t utf8_next(const char *p, const char *end, bool *ret_plain);
/* A text cut to what fits, between characters; bytes that are none become '?'. cap > 0. Its length
 * in `to`. */
size_t utf8_copy(char *to, size_t cap, const char *text);

#endif
