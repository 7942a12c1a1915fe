/* Copies the smaller of both sizes. What a plugin knows and the host does not must be zero. */
#include <base/view.h>

#include <fn/abi.h>
#include <string.h>

#define VIEW_SIZE_MAX 4096u /* a larger size is garbage */

static uint32_t size_of(const void *view)
{
    uint32_t size;

    memcpy(&size, view, sizeof(size));
    return size;
}

int view_take(void *to, size_t known, const void *from, size_t min)
{
    uint32_t size = from ? size_of(from) : 0;
    uint32_t own = (uint32_t)known;

    if (size < min || size > VIEW_SIZE_MAX) {
        return FN_E_INVALID;
    }
    for (size_t i = known; i < size; i++) {
        if (((const unsigned char *)from)[i] != 0) {
            return FN_E_UNIMPLEMENTED;
        }
    }
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &own, sizeof(own));
    return 0;
}

int view_can_give(const void *to, size_t min)
{
    uint32_t size = to ? size_of(to) : 0;

    return size < min || size > VIEW_SIZE_MAX ? FN_E_INVALID : 0;
}

void view_give(void *to, const void *from, size_t known)
{
    uint32_t size = size_of(to);

    memcpy(to, from, size < known ? size : known);
    memcpy(to, &size, sizeof(size));
}
