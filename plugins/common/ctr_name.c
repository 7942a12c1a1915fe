/* A name is made of its owner, the first digits of the instance and the id of the task, in lower
 * case, so that the names of one owner have a prefix of their own. */
#include "ctr_name.h"

#include <ctype.h>
#include <fn/abi.h>
#include <string.h>

#define INSTANCE_SHOWN 12

static void append_lower(char *ret, size_t cap, const char *text, size_t max)
{
    size_t n = strlen(ret);

    for (size_t i = 0; text[i] && i < max && n + 1 < cap; i++) {
        char c = (char)tolower((unsigned char)text[i]);

        ret[n++] = isalnum((unsigned char)c) ? c : '-';
    }
    ret[n] = '\0';
}

int ctr_name(const char *owner, const char *instance, const char *id, char *ret, size_t cap)
{
    size_t n = strlen(owner);

    if (n + INSTANCE_SHOWN + strlen(id) + 4 > cap || strstr(owner, "--") ||
        (n > 0 && owner[n - 1] == '-')) {
        return FN_E_RANGE;
    }
    ret[0] = '\0';
    append_lower(ret, cap, owner, cap);
    append_lower(ret, cap, "--", 2); /* in no owner: none is the start of another's names */
    append_lower(ret, cap, instance, INSTANCE_SHOWN);
    append_lower(ret, cap, "-", 1);
    append_lower(ret, cap, id, cap);
    return 0;
}

int ctr_prefixes(const char *owner, const char *instance, char ret_prefix[CTR_NAME_MAX],
                 char ret_keep[CTR_NAME_MAX])
{
    if (ctr_name(owner, "", "", ret_prefix, CTR_NAME_MAX) < 0 ||
        ctr_name(owner, instance, "", ret_keep, CTR_NAME_MAX) < 0) {
        return FN_E_RANGE;
    }
    ret_prefix[strlen(ret_prefix) - 1] = '\0'; /* "<owner>--": the instance follows */
    return 0;
}
