/* operator/file: files as the operator's side of a runner. While down_file exists the status fails,
 * with what is written in it, and load balancers leave the runner; `words` stand in the status; the
 * keys of a ConfigureRunner are kept in keys_file, for whatever else runs on the machine; what
 * functions print is appended to log_file, which may be moved away at any time. With
 * `runner.log_source: operator` whoever reads the output gets it from there, so that a restart of
 * the runner forgets nothing. */
#include "operator.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fail(struct fn_error *e, int code, int status, const char *fmt, ...)
{
    va_list ap;

    if (e) {
        e->code = code;
        e->http_status = status;
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
        va_end(ap);
    }
    return code;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* "key=value" at `at`; what comes behind it, or NULL. */
static char *add_word(struct operator *o, const char *word, char *at)
{
    size_t len = strlen(word) + 1;
    char *equals;

    memcpy(at, word, len);
    equals = strchr(at, '=');
    if (!equals || equals == at || o->n == FN_OPERATOR_PAIRS_MAX) {
        return NULL;
    }
    *equals = '\0';
    o->pairs[o->n++] = (struct fn_kv){ at, equals + 1 };
    return at + len;
}

static int read_words(struct operator *o, struct fn_error *reterr)
{
    const struct fn_strlist *words = &o->conf->words;
    size_t bytes = 1;
    char *at;

    for (uint64_t i = 0; i < words->n; i++) {
        bytes += strlen(words->items[i]) + 1;
    }
    o->texts = at = malloc(bytes);
    if (!at) {
        return fail(reterr, FN_E_EXHAUSTED, 0, "operator/file: out of memory");
    }
    for (uint64_t i = 0; i < words->n; i++) {
        at = add_word(o, words->items[i], at);
        if (!at) {
            return fail(reterr, FN_E_INVALID, 0,
                        "operator/file: words[%llu], got \"%.60s\"; expected key=value, at most %u "
                        "of them",
                        (unsigned long long)i, words->items[i], FN_OPERATOR_PAIRS_MAX);
        }
    }
    return 0;
}

static void destroy(void *inst)
{
    struct operator *o = inst;

    if (o) {
        free(o->texts);
        free(o);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct operator *o = calloc(1, sizeof(*o));
    int r;

    (void)host;
    if (!o) {
        return fail(reterr, FN_E_EXHAUSTED, 0, "operator/file: out of memory");
    }
    o->conf = conf;
    r = read_words(o, reterr);
    if (r < 0) {
        destroy(o);
        return r;
    }
    *ret_inst = o;
    return 0;
}

/* ---- status ---------------------------------------------------------------------------------- */

static int status(void *inst, struct fn_op *op, const struct fn_kv **ret_pairs, uint32_t *ret_n,
                  struct fn_error *reterr)
{
    const struct operator *o = inst;
    FILE *f = o->conf->down_file ? fopen(o->conf->down_file, "re") : NULL;
    char why[FN_ERROR_TEXT_MAX] = "";

    (void)op;
    if (f) {
        if (fgets(why, sizeof(why), f)) {
            why[strcspn(why, "\r\n")] = '\0';
        }
        fclose(f);
        return fail(reterr, FN_E_UNAVAILABLE, (int)o->conf->down_code, "%s",
                    *why ? why : "taken out of use by its operator");
    }
    *ret_pairs = o->pairs;
    *ret_n = o->n;
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool write_keys(FILE *f, const struct fn_kv *keys, uint32_t n)
{
    bool good = f != NULL;

    for (uint32_t i = 0; i < n && good; i++) {
        good = fprintf(f, "%s=%s\n", keys[i].key, keys[i].value) > 0;
    }
    if (f) {
        good = fflush(f) == 0 && fsync(fileno(f)) == 0 && good;
        good = fclose(f) == 0 && good;
    }
    return good;
}

/* All of them, or the file as it was. */
static int configure(void *inst, struct fn_op *op, const struct fn_kv *keys, uint32_t n,
                     struct fn_error *reterr)
{
    const struct operator *o = inst;
    char temporary[4096 + 8];

    (void)op;
    if (!o->conf->keys_file) {
        return n == 0 ? 0 : fail(reterr, FN_E_INVALID, 0, "unknown key %.80s", keys[0].key);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (strpbrk(keys[i].key, "=\n") || strchr(keys[i].value, '\n')) {
            return fail(reterr, FN_E_INVALID, 0,
                        "key %.80s: expected no line breaks, and no = in a key", keys[i].key);
        }
    }
    snprintf(temporary, sizeof(temporary), "%s.new", o->conf->keys_file);
    if (!write_keys(fopen(temporary, "we"), keys, n) || rename(temporary, o->conf->keys_file) < 0) {
        int error = errno;

        unlink(temporary);
        return fail(reterr, FN_E_UNAVAILABLE, 0, "keys_file %.100s: %s", o->conf->keys_file,
                    strerror(error));
    }
    return 0;
}

/* ---- manifest -------------------------------------------------------------------------------- */

static const struct fn_opt opts[] = {
    { .key = "down_file", .doc = "Path of a file. While it exists, the status of the runner fails "
                                 "with the first line of the file, and load balancers send it no "
                                 "calls. Only on node pure-runner: a full node is never asked for its "
                                 "status. When absent: the status is not touched.",
      .min = 1, .max = 4095, .type = FN_OPT_STR, .offset = offsetof(struct conf, down_file),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "down_code", .doc = "Error code of a status that fails because of down_file, as an "
                                 "HTTP status.", .dflt = "503",
      .min = 400, .max = 599, .type = FN_OPT_INT, .offset = offsetof(struct conf, down_code) },
    { .key = "words",
      .doc = "Pairs, as key=value, that are added to each status (`customStatus`).",
      .type = FN_OPT_STRLIST,
      .offset = offsetof(struct conf, words), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "keys_file", .doc = "Path of the file that keeps what a `ConfigureRunner` request "
                                 "sets, KEY=VALUE in each line. When absent: such requests are "
                                 "refused.",
      .min = 1, .max = 4095, .type = FN_OPT_STR, .offset = offsetof(struct conf, keys_file),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "log_file", .doc = "Path of a file to which the lines that functions print are "
                                "appended: milliseconds since 1970, app, function, container, "
                                "call, stream, line. It is opened anew each time, so it may be "
                                "moved away. When absent: none.",
      .min = 1, .max = 4095, .type = FN_OPT_STR, .offset = offsetof(struct conf, log_file),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = NULL },
};

static const struct fn_operator_ops ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR),
    .status = status,
    .configure = configure,
    .log = put_log,
    .read = read_log,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OPERATOR,
    .name = "file",
    .summary = "Files take a runner out of use, and keep keys that its manager sends and what functions "
               "print.",
    .kind_major = FN_OPERATOR_MAJOR,
    .kind_minor = FN_OPERATOR_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "operator-file",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(operator_file, manifest)
