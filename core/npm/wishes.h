/* Wishes: what the operator wants of runners, by group and id, for longer than a manager lives.
 *
 * The step forgets a host that is not listed, and everything when the process ends; a wish is told
 * to it again when its host is there. One to replace or to remove it is fulfilled once the host was
 * removed and is gone: an id that comes back then (`fixed` gives the same addresses again) is a new
 * runner. Any wish whose host was missing for NPM_WISH_LIFE_NS is forgotten. As text a wish is a
 * line, "drain <id> <group>".
 * [loop] */
#ifndef NPM_WISHES_H
#define NPM_WISHES_H

#include <base/buf.h>
#include <npm/npm.h>

#define NPM_WISHES_MAX 4096u
#define NPM_WISH_LIFE_NS (3600 * NPM_S)

struct npm_wishes;

struct npm_wishes *npm_wishes_create(void);    /* NULL: no memory */
void npm_wishes_destroy(struct npm_wishes *w); /* NULL ok */
/* NPM_WISH_NONE takes it back. FN_E_EXHAUSTED: there are too many. */
int npm_wishes_set(struct npm_wishes *w, const char *group, const char *id, enum npm_wish wish,
                   int64_t now_ns);
enum npm_wish_host { NPM_HOST_MISSING, NPM_HOST_THERE, NPM_HOST_REMOVING };
/* Of each wish of the group; it may not change them. Returns what became of its host. */
typedef enum npm_wish_host (*npm_wish_visit)(void *ud, const char *id, enum npm_wish wish);
/* Visits those of the group and forgets what is fulfilled, or missing for too long. Returns how
 * many were forgotten. */
uint32_t npm_wishes_visit(struct npm_wishes *w, const char *group, int64_t now_ns,
                          npm_wish_visit visit, void *ud);
int npm_wishes_write(const struct npm_wishes *w, struct buf *out);
/* Returns the number of lines that are no wish; these are passed over. */
uint32_t npm_wishes_read(struct npm_wishes *w, const char *text, int64_t now_ns);

#endif
