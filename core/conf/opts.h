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

/* A type with what its field is. */
#define OPT_TYPE(type_)  ((type_) & 0xffu)
#define OPT_FLAGS(type_) ((type_) & ~0xffu)

#define OPT(key_, type_, at_, dflt_, min_, max_, doc_)                                             \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .min = min_, .max = max_,                         \
        .type = OPT_TYPE(type_), .offset = at_, .flags = OPT_FLAGS(type_)                          \
    }
#define OPT_ABSENT(key_, type_, at_, min_, max_, doc_)                                             \
    {                                                                                              \
        .key = key_, .doc = doc_, .min = min_, .max = max_, .type = type_, .offset = at_,          \
        .flags = FN_OPT_MAY_BE_ABSENT                                                              \
    }
#define OPT_CHOICE(key_, at_, dflt_, choices_, doc_)                                               \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .choices = choices_, .type = FN_OPT_CHOICE,       \
        .offset = at_                                                                              \
    }

/* A whole number of something: messages name the unit. */
#define OPT_COUNT(key_, type_, at_, dflt_, min_, max_, unit_, doc_)                                \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .choices = unit_, .min = min_, .max = max_,       \
        .type = OPT_TYPE(type_), .offset = at_, .flags = OPT_FLAGS(type_)                          \
    }

/* The same with OPT_IS_LIVE. */
#define LIVE(key_, type_, at_, dflt_, min_, max_, doc_)                                            \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .min = min_, .max = max_,                         \
        .type = OPT_TYPE(type_), .offset = at_, .flags = OPT_FLAGS(type_) | OPT_IS_LIVE            \
    }
#define LIVE_ABSENT(key_, type_, at_, min_, max_, doc_)                                            \
    {                                                                                              \
        .key = key_, .doc = doc_, .min = min_, .max = max_, .type = type_, .offset = at_,          \
        .flags = FN_OPT_MAY_BE_ABSENT | OPT_IS_LIVE                                                \
    }
#define LIVE_CHOICE(key_, at_, dflt_, choices_, doc_)                                              \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .choices = choices_, .type = FN_OPT_CHOICE,       \
        .offset = at_, .flags = OPT_IS_LIVE                                                        \
    }
#define LIVE_COUNT(key_, type_, at_, dflt_, min_, max_, unit_, doc_)                               \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .choices = unit_, .min = min_, .max = max_,       \
        .type = OPT_TYPE(type_), .offset = at_, .flags = OPT_FLAGS(type_) | OPT_IS_LIVE            \
    }

#define STR      FN_OPT_STR
#define INT      FN_OPT_INT
#define DURATION FN_OPT_DURATION
#define BYTES    FN_OPT_BYTES
#define BOOL     FN_OPT_BOOL
#define STRLIST  FN_OPT_STRLIST
#define INT32    (FN_OPT_INT | OPT_IS_32)
#define BYTES32  (FN_OPT_BYTES | OPT_IS_32)

#endif
