/* Private to core/conf. */
#ifndef CONF_CONF_INT_H
#define CONF_CONF_INT_H

#include <conf/conf.h>

#include <base/arena.h>

/* "fn.yaml:7:5"; one of the buffers of conf_where(). */
const char *conf_where_at(const struct conf *c, int line, int column);

struct conf_texts {
    struct arena arena;
};

/* Bytes of an option's field in the conf struct. */
static inline void *conf_field(const struct conf_values *v, const struct fn_opt *o)
{
    return (char *)v->data + o->offset;
}

#endif
