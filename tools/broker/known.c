/* Whose containers are the owner's: what was created through the broker, and what the engine says
 * of others. A name is followed to its id here, so that the engine never resolves one that was
 * judged before. */
#include "broker.h"
#include "docker_api.h"
#include "engine_json.h"

#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* an element that found no memory has hh.tbl == NULL and is not in */
#include <uthash.h>

struct known {
    UT_hash_handle hh; /* by key; in the order of their coming */
    char id[ID_BYTES + 1];
    char key[NAME_BYTES_MAX + 1]; /* a name, or the id itself */
};

static void drop(struct known **all, struct known *k)
{
    HASH_DEL(*all, k);
    free(k);
}

static void add(struct known **all, const char *key, const char *id)
{
    struct known *k;

    HASH_FIND_STR(*all, key, k);
    if (k) {
        drop(all, k);
    }
    k = calloc(1, sizeof(*k));
    if (!k) {
        return; /* it is asked for again */
    }
    snprintf(k->key, sizeof(k->key), "%s", key);
    snprintf(k->id, sizeof(k->id), "%s", id);
    HASH_ADD_STR(*all, key, k);
    if (!k->hh.tbl) {
        free(k);
    } else if (HASH_COUNT(*all) > KNOWN_MAX) {
        drop(all, *all);
    }
}

void known_add(struct known **all, const char *id, const char *name)
{
    add(all, id, id);
    if (name && strcmp(name, id) != 0) {
        add(all, name, id);
    }
}

const char *known_find(struct known *all, const char *name_or_id)
{
    struct known *k;

    HASH_FIND_STR(all, name_or_id, k);
    return k ? k->id : NULL;
}

void known_finish(struct known **all)
{
    while (*all) {
        drop(all, *all);
    }
}

/* ---- answers of the engine ------------------------------------------------------------------- */

#define STATUS_AT 9 /* behind "HTTP/1.1 " */

static const char *body_of(const char *answer, size_t len, int *ret_status)
{
    const char *end = memmem(answer, len, "\r\n\r\n", 4);

    *ret_status = len > STATUS_AT + 3 ? atoi(answer + STATUS_AT) : 0;
    return end ? end + 4 : NULL;
}

static bool take_id(const char *text, size_t len, char ret[ID_BYTES + 1])
{
    if (len < ID_BYTES) {
        return false;
    }
    memcpy(ret, text, ID_BYTES);
    ret[ID_BYTES] = '\0';
    return strspn(ret, "0123456789abcdef") == ID_BYTES;
}

bool known_created(const char *answer, size_t len, char ret[ID_BYTES + 1])
{
    static const char mark[] = "\"Id\":\"";
    int status;
    const char *body = body_of(answer, len, &status);
    const char *at;

    if (!body || status != 201) {
        return false;
    }
    at = memmem(body, len - (size_t)(body - answer), mark, sizeof(mark) - 1);
    at = at ? at + sizeof(mark) - 1 : NULL;
    return at && take_id(at, (size_t)(answer + len - at), ret);
}

int known_inspected(const char *answer, size_t len, const char *owner, char ret[ID_BYTES + 1])
{
    int status;
    const char *body = body_of(answer, len, &status);
    const char *id;
    json_t *root;

    if (!body || status != 200) {
        return body && status >= 400 ? status : 502;
    }
    root = json_loadb(body, len - (size_t)(body - answer), 0, NULL);
    id = engine_text(root, "Id");
    if (!take_id(id, strlen(id), ret)) {
        status = 502;
    } else if (strcmp(engine_text(json_object_get(json_object_get(root, "Config"), "Labels"),
                                  API_OWNER_LABEL),
                      owner) != 0) {
        status = 403;
    }
    json_decref(root);
    return status;
}
