/* JSON read piece by piece, in memory that does not depend on its size: one callback per text,
 * number or word, with the keys that lead to it. For answers whose size others choose: an engine's
 * list carries the labels of everybody's containers. Pure. */
#ifndef DRIVER_DOCKER_JSON_SCAN_H
#define DRIVER_DOCKER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_DEPTH_MAX 32
#define SCAN_KEY_MAX   63
#define SCAN_TEXT_MAX  1500

struct json_level {
    bool array;
    uint32_t index;             /* of the value, in an array */
    char key[SCAN_KEY_MAX + 1]; /* of the value, in an object; "" = too long to be one of ours */
};

enum scan_state {
    SCAN_VALUE, /* zero: between documents, and wherever a value must stand */
    SCAN_FIRST_VALUE,
    SCAN_FIRST_KEY,
    SCAN_KEY,
    SCAN_COLON,
    SCAN_NEXT,
    SCAN_TEXT,
    SCAN_ESCAPE,
    SCAN_HEX,
    SCAN_WORD,
};

/* Zeroed = ready for a sequence of documents. */
struct json_scan {
    enum scan_state state;
    uint32_t depth; /* open arrays and objects */
    struct json_level at[SCAN_DEPTH_MAX];
    bool is_key, too_long;
    uint32_t hex, hex_n;
    size_t len;
    char text[SCAN_TEXT_MAX + 1];
    bool broken; /* not JSON, or too deep; what follows is ignored */
};

struct json_scan_cb {
    /* at[0..depth-1] lead to it. A text that is too long comes as "". Characters beyond ASCII that
     * are escaped come as "?". */
    void (*value)(void *ud, const struct json_scan *s, const char *text);
    /* An array or object ended; depth is that of what holds it. */
    void (*closed)(void *ud, const struct json_scan *s);
};

void json_scan_feed(struct json_scan *s, const char *data, size_t len,
                    const struct json_scan_cb *cb, void *ud);
/* true between two documents. */
static inline bool json_scan_is_between(const struct json_scan *s)
{
    return !s->broken && s->depth == 0 && s->state == SCAN_VALUE;
}

#endif
