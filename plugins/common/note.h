/* fn_answer.note without formatting: a decision takes less time than one snprintf(). */
#ifndef PLACER_NOTE_H
#define PLACER_NOTE_H

#include <fn/placer.h>
#include <string.h>

/* `text`: a literal. */
#define note(ret, text)                                                                            \
    do {                                                                                           \
        _Static_assert(sizeof(text) <= FN_NOTE_MAX, "too long for a note");                        \
        memcpy((ret)->note, (text), sizeof(text));                                                 \
    } while (0)

/* `text` and a number behind it; text has room for 10 digits. */
#define note_number(ret, text, number)                                                             \
    do {                                                                                           \
        _Static_assert(sizeof(text) + 10 <= FN_NOTE_MAX, "too long for a note");                   \
        memcpy((ret)->note, (text), sizeof(text));                                                 \
        note_digits((ret)->note + sizeof(text) - 1, (number));                                     \
    } while (0)

static inline void note_digits(char *to, uint32_t number)
{
    char digits[10];
    int n = 0;

    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (n > 0) {
        *to++ = digits[--n];
    }
    *to = '\0';
}

#endif
