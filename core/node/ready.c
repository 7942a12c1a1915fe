/* Each side is asked whether it can take calls; the first reason not to is the sentence of the
 * page. */
#include <node/ready.h>

#include <node/node.h>

const char *node_unready(const struct node *n, char *text, size_t cap)
{
    const char *why = NULL;

    if (n->draining) {
        return "draining: new calls are refused, running ones end";
    }
    for (uint32_t i = n->n_sides; i-- > 0 && !why;) {
        why = n->sides[i]->unready ? n->sides[i]->unready(n, text, cap) : NULL;
    }
    return why;
}
