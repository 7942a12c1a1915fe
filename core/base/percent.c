/* Nothing is guessed: an escape that is none makes the whole text none. */
#include <base/percent.h>

char *percent_decode(struct arena *a, const char *s, size_t len, bool plus)
{
    char *to = arena_alloc(a, len + 1);
    size_t n = 0;

    for (size_t i = 0; to && i < len; i++) {
        int c = (unsigned char)s[i];

        if (c == '%') {
            if (i + 2 >= len || percent_digit(s[i + 1]) < 0 || percent_digit(s[i + 2]) < 0) {
                return NULL;
            }
            c = percent_digit(s[i + 1]) * 16 + percent_digit(s[i + 2]);
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        if (c == '\0') {
            return NULL;
        }
        to[n++] = (char)c;
    }
    return to;
}
