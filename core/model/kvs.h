/* Texts by key (config, annotations, extensions), in the order of the keys' bytes. */
#ifndef MODEL_KVS_H
#define MODEL_KVS_H

#include <base/arena.h>
#include <base/err.h>
#include <fn/driver.h>
#include <stdbool.h>
#include <stdint.h>

/* What a stranger may put into one set. */
#define KVS_MAX       1024        /* keys */
#define KVS_BYTES_MAX (1u << 20)  /* of keys and values */

struct kvs {
    struct arena *arena;
    struct fn_kv *items;
    uint32_t n;
    uint32_t cap;
};

void kvs_init(struct kvs *k, struct arena *arena);
int kvs_set(struct kvs *k, const char *key, const char *value); /* copies; replaces */
/* The same with texts that live as long as the set. */
int kvs_set_borrowed(struct kvs *k, const char *key, const char *value);
/* The same for a key that the set does not have. */
int kvs_add_borrowed(struct kvs *k, const char *key, const char *value);
/* Copies all of `items` into an empty set, in any order; of one key the last value counts. `what`
 * names them in the error. FN_E_INVALID (400): more than KVS_MAX keys or KVS_BYTES_MAX bytes. */
int kvs_fill(struct kvs *k, const struct fn_kv *items, uint32_t n, const char *what,
             struct fn_error *reterr);
void kvs_remove(struct kvs *k, const char *key);
const char *kvs_get(const struct kvs *k, const char *key); /* or NULL */
int kvs_copy(struct kvs *to, const struct kvs *from);
/* A copy in the arena, also of none; NULL: no memory. */
const struct fn_kv *kvs_copy_pairs(struct arena *arena, const struct fn_kv *pairs, uint32_t n);

/* ---- JSON (kvs_json.c); raw: values are JSON already ----------------------------------------- */

/* Of whom a text is: an API node, which is believed as far as it goes; a client, who is held to the
 * letter; a load balancer or runner. */
enum json_writer { BY_NODE, BY_CLIENT, BY_PEER };
#define TEXT_TWICE "the same key twice"

struct buf;
struct jr;
/* Into an empty set, whose texts are the reader's. */
int kvs_read(struct jr *r, enum json_writer by, bool raw, struct kvs *to);
int kvs_from_json(struct kvs *k, bool raw, const char *json, size_t len, struct fn_error *reterr);
int kvs_to_json(const struct kvs *k, bool raw, struct buf *out); /* as one object */

#endif
