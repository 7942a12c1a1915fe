/* Short words for tables of options; for sources that hold such tables.
 *
 *     #define AT(field) offsetof(struct section, field)
 *     static const struct fn_opt opts[] = {
 *         OPT("timeout", DURATION, AT(timeout_ns), "30s", MS, H, "Time for ..."),
 *         { .key = NULL },
 *     }; */
#ifndef CONF_OPTS_H
#define CONF_OPTS_H

#include <conf/table.h>
#include <stddef.h>

#define MS  1000000LL
#define S   (1000 * MS)
#define MIN (60 * S)
#define H   (60 * MIN)
#define KIB 1024LL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* The text of a default that is a number elsewhere, such as METRIC_SUBJECTS_DEFAULT. */
#define NUMBER_TEXT(name_)  NUMBER_TEXT_(name_)
#define NUMBER_TEXT_(text_) #text_

/* One row; `type` with what its field is. The words below leave out what they do not need. */
#define OPT_ROW(key_, type_, at_, dflt_, choices_, min_, max_, flags_, doc_)                       \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .choices = choices_, .min = min_, .max = max_,    \
        .type = (type_) & 0xffu, .offset = at_, .flags = ((type_) & ~0xffu) | (flags_)             \
    }

#define OPT(key, type, at, dflt, min, max, doc)                                                    \
    OPT_ROW(key, type, at, dflt, NULL, min, max, 0, doc)
#define OPT_ABSENT(key, type, at, min, max, doc)                                                   \
    OPT_ROW(key, type, at, NULL, NULL, min, max, FN_OPT_MAY_BE_ABSENT, doc)
#define OPT_CHOICE(key, at, dflt, choices, doc)                                                    \
    OPT_ROW(key, FN_OPT_CHOICE, at, dflt, choices, 0, 0, 0, doc)
/* A whole number of something: messages name the unit. */
#define OPT_COUNT(key, type, at, dflt, min, max, unit, doc)                                        \
    OPT_ROW(key, type, at, dflt, unit, min, max, 0, doc)

/* The same with OPT_IS_LIVE. */
#define LIVE(key, type, at, dflt, min, max, doc)                                                   \
    OPT_ROW(key, type, at, dflt, NULL, min, max, OPT_IS_LIVE, doc)
#define LIVE_ABSENT(key, type, at, min, max, doc)                                                  \
    OPT_ROW(key, type, at, NULL, NULL, min, max, FN_OPT_MAY_BE_ABSENT | OPT_IS_LIVE, doc)
#define LIVE_CHOICE(key, at, dflt, choices, doc)                                                   \
    OPT_ROW(key, FN_OPT_CHOICE, at, dflt, choices, 0, 0, OPT_IS_LIVE, doc)
#define LIVE_COUNT(key, type, at, dflt, min, max, unit, doc)                                       \
    OPT_ROW(key, type, at, dflt, unit, min, max, OPT_IS_LIVE, doc)

#define STR      FN_OPT_STR
#define INT      FN_OPT_INT
#define DURATION FN_OPT_DURATION
#define BYTES    FN_OPT_BYTES
#define BOOL     FN_OPT_BOOL
#define STRLIST  FN_OPT_STRLIST
#define INT32    (FN_OPT_INT | OPT_IS_32)
#define BYTES32  (FN_OPT_BYTES | OPT_IS_32)

#endif
