/* Private to core/conf. */
#ifndef CONF_CONF_INT_H
#define CONF_CONF_INT_H

#include <conf/conf.h>

#include <conf/table.h>
#include <string.h>

#define CONF_WHERE_BYTES 512

/* "fn.yaml:7:5"; one of the buffers of conf_where(). */
const char *conf_where_at(const struct conf *c, int line, int column);

/* The nearest of "a|b|c", or the first one that is part of the word or has it as a part, in letters
 * of any case: "WARNING" is near "warn". NULL: none is. In a buffer of the thread. */
const char *conf_nearest_choice(const char *word, const char *choices);

/* The largest first; a value is shown in the first that divides it. */
struct conf_unit {
    const char *name; /* NULL ends */
    int64_t factor;
};
extern const struct conf_unit conf_time_units[], conf_byte_units[];

/* Bytes of an option's field in the conf struct. */
static inline void *conf_field(const struct conf_values *v, const struct fn_opt *o)
{
    return (char *)v->data + o->offset;
}

static inline bool conf_is_text(const struct fn_opt *o)
{
    return o->type == FN_OPT_STR || o->type == FN_OPT_CHOICE;
}

/* Of an INT, DURATION, BYTES or BOOL option. */
static inline bool conf_is_32(const struct fn_opt *o)
{
    return o->type == FN_OPT_BOOL || (o->flags & OPT_IS_32) != 0;
}

static inline void conf_put_number(const struct fn_opt *o, void *field, int64_t n)
{
    uint32_t small = (uint32_t)n;

    if (conf_is_32(o)) {
        memcpy(field, &small, sizeof(small));
    } else {
        memcpy(field, &n, sizeof(n));
    }
}

static inline int64_t conf_number(const struct fn_opt *o, const void *field)
{
    uint32_t small;
    int64_t n;

    if (conf_is_32(o)) {
        memcpy(&small, field, sizeof(small));
        return small;
    }
    memcpy(&n, field, sizeof(n));
    return n;
}

/* See conf_set_owner(). */
const char *conf_owner(const struct conf *c, const char *key);

#endif
