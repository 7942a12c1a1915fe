/* The engine's answers, one reader for each kind of them, and what an error of the engine means
 * for a call. */
#include "docker_api.h"

#include "engine_json.h"
#include "fail.h"

#include <stdlib.h>

static const char *message_of(const json_t *root)
{
    const char *message = engine_text(root, "message");

    return *message ? message : "no reason given";
}

void api_message(const char *body, size_t len, char *ret, size_t cap)
{
    json_t *root = json_loadb(body ? body : "", len, 0, NULL);

    snprintf(ret, cap, "%s", message_of(root));
    json_decref(root);
}

/* Not the image's fault, and other machines have disks of their own. */
static int disk_full(const char *what, const char *message, struct fn_error *reterr)
{
    fail_platform(reterr, FN_E_EXHAUSTED, "%s: the engine's disk is full: %s", what, message);
    return fail_retry(reterr, FN_E_EXHAUSTED);
}

/* Whether a whole message, not a cut one, ends with it, or with what parts of an engine put behind
 * it. Before its end stands what others name, such as the folder that an image begins in. */
static bool is_disk_full(const char *message)
{
    static const char *const ends[] = { "", ": unknown", " exit status 1", "): exit status 1" };
    static const char phrase[] = "no space left on device";
    const char *at = message;

    while ((at = strstr(at, phrase))) {
        at += sizeof(phrase) - 1;
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
            if (strcmp(at, ends[i]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool tells_disk_full(const char *body, size_t len)
{
    json_t *root = json_loadb(body ? body : "", len, 0, NULL);
    bool yes = is_disk_full(message_of(root));

    json_decref(root);
    return yes;
}

/* The runner made it: the engine is in another mount namespace, or the container is of the past. */
static bool is_no_directory(const char *message)
{
    return strstr(message, "bind source path does not exist") != NULL;
}

/* What stands before the engine, such as fnd-docker-broker, refuses this runner, not the call. */
static bool is_forbidden(uint32_t status)
{
    return status == 401 || status == 403;
}

int api_failure(const char *what, uint32_t status, const char *body, size_t len,
                struct fn_error *reterr)
{
    char message[160];

    api_message(body, len, message, sizeof(message));
    if (status == 404) {
        return fail_platform(reterr, FN_E_NOT_FOUND, "%s: %s", what, message);
    }
    if (status == 409) {
        return fail_platform(reterr, FN_E_EXISTS, "%s: %s", what, message);
    }
    if (is_no_directory(message)) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%s: %s", what, message);
    }
    if (status >= 400 && status < 500 && !is_forbidden(status)) {
        return fail_user(reterr, FN_E_INVALID, 400, "%s: the engine refuses it: %s", what, message);
    }
    if (strstr(message, "failed to initialize logging driver")) {
        return fail_user(reterr, FN_E_INVALID, 500, "Syslog Unavailable");
    }
    if (tells_disk_full(body, len)) {
        return disk_full(what, message, reterr);
    }
    fail_platform(reterr, FN_E_UNAVAILABLE, "%s: engine error %u: %s", what, status, message);
    return fail_retry(reterr, FN_E_UNAVAILABLE);
}

static int malformed(const char *what, struct fn_error *reterr)
{
    return fail_retry(reterr, engine_malformed(what, reterr));
}

/* ---- answers --------------------------------------------------------------------------------- */

bool api_is_id(const char *s)
{
    size_t n = strlen(s);

    return n >= 12 && n <= API_ID_MAX && strspn(s, "0123456789abcdef") == n;
}

int api_parse_created(const char *body, size_t len, char ret_id[API_ID_MAX + 1],
                      struct fn_error *reterr)
{
    json_t *root = json_loadb(body, len, 0, NULL);
    const char *id = engine_text(root, "Id");
    int r = 0;

    if (api_is_id(id)) {
        snprintf(ret_id, API_ID_MAX + 1, "%s", id);
    } else {
        r = malformed("create", reterr);
    }
    json_decref(root);
    return r;
}

static bool has_component(const json_t *root, const char *name)
{
    json_t *list = json_object_get(root, "Components");
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        if (strcmp(engine_text(item, "Name"), name) == 0) {
            return true;
        }
    }
    return false;
}

int api_parse_version(const char *body, size_t len, struct api_version *ret,
                      struct fn_error *reterr)
{
    json_t *root = json_loadb(body, len, 0, NULL);
    const char *api = engine_text(root, "ApiVersion");
    int major = 0, minor = 0;
    int r = 0;

    if (sscanf(api, "%3d.%3d", &major, &minor) != 2 || major < 1 || minor < 0 || minor > 99) {
        r = malformed("version", reterr);
    } else if (major * 100 + minor < API_VERSION_MIN) {
        r = fail_platform(reterr, FN_E_PRECONDITION, "DOC1002 engine API %d.%d; need >= %d.%d",
                          major, minor, API_VERSION_MIN / 100, API_VERSION_MIN % 100);
    } else {
        snprintf(ret->version, sizeof(ret->version), "%s", engine_text(root, "Version"));
        snprintf(ret->api, sizeof(ret->api), "%d.%d", major, minor);
        ret->api_number = major * 100 + minor;
        ret->podman = has_component(root, "Podman Engine");
    }
    json_decref(root);
    return r;
}

static int64_t engine_number(const json_t *object, const char *key)
{
    const json_t *n = json_object_get(object, key);

    return json_is_integer(n) ? json_integer_value(n) : -1;
}

static bool has_security_option(const json_t *root, const char *name)
{
    json_t *list = json_object_get(root, "SecurityOptions");
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        const char *s = json_string_value(item);
        size_t n = strlen(name);

        if (s && strncmp(s, "name=", 5) == 0 && strncmp(s + 5, name, n) == 0 &&
            (s[5 + n] == '\0' || s[5 + n] == ',')) {
            return true;
        }
    }
    return false;
}

static bool lacks_log_driver(const json_t *root, const char *name)
{
    json_t *list = json_object_get(json_object_get(root, "Plugins"), "Log");
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        const char *s = json_string_value(item);

        if (s && strcmp(s, name) == 0) {
            return false;
        }
    }
    return json_array_size(list) > 0;
}

int api_parse_info(const char *body, size_t len, struct api_info *ret, struct fn_error *reterr)
{
    json_t *root = json_loadb(body, len, 0, NULL);
    int r = 0;

    if (json_is_object(root)) {
        ret->cgroup_v1 = strcmp(engine_text(root, "CgroupVersion"), "1") == 0;
        ret->userns = has_security_option(root, "userns") || has_security_option(root, "rootless");
        ret->seccomp = has_security_option(root, "seccomp");
        ret->no_syslog = lacks_log_driver(root, "syslog");
        ret->containers = engine_number(root, "Containers");
    } else {
        r = malformed("info", reterr);
    }
    json_decref(root);
    return r;
}

static size_t label_bytes(const json_t *labels)
{
    const char *key;
    json_t *value;
    size_t n = 0;

    json_object_foreach ((json_t *)(uintptr_t)labels, key, value) {
        n += strlen(key) + json_string_length(value);
    }
    return n;
}

int api_parse_image(const char *body, size_t len, struct api_image *ret, struct fn_error *reterr)
{
    json_t *root = json_loadb(body, len, 0, NULL);
    json_t *config = json_object_get(root, "Config");
    int r = 0;

    if (*engine_text(root, "Id") && (json_is_object(config) || json_is_null(config))) {
        snprintf(ret->id, sizeof(ret->id), "%s", engine_text(root, "Id"));
        ret->has_volumes = json_object_size(json_object_get(config, "Volumes")) > 0;
        ret->label_bytes = label_bytes(json_object_get(config, "Labels"));
    } else {
        r = malformed("image", reterr);
    }
    json_decref(root);
    return r;
}

/* ---- what images take ------------------------------------------------------------------------ */

/* One whose size the engine does not say, or says to be below 0, makes no room when it goes. */
static struct api_stored stored_of(const json_t *image)
{
    int64_t size = engine_number(image, "Size"), shared = engine_number(image, "SharedSize");

    return (struct api_stored){
        .id = engine_text(image, "Id"),
        .tags = json_object_get(image, "RepoTags"),
        .digests = json_object_get(image, "RepoDigests"),
        .created_s = engine_number(image, "Created"),
        .own_bytes = size <= 0 ? 0 : shared > 0 && shared <= size ? size - shared : size,
        .containers = engine_number(image, "Containers"),
    };
}

int api_parse_usage(const char *body, size_t len, struct api_usage *ret, struct fn_error *reterr)
{
    struct api_usage u = { .root = json_loadb(body, len, 0, NULL) };
    json_t *images = json_object_get(u.root, "Images");
    json_t *image;
    size_t i;

    u.layers_bytes = engine_number(u.root, "LayersSize");
    u.n = json_array_size(images);
    u.images = calloc(u.n + 1, sizeof(*u.images));
    if (u.layers_bytes < 0 || !u.images || !(json_is_array(images) || json_is_null(images))) {
        api_usage_finish(&u);
        return malformed("disk usage", reterr);
    }
    json_array_foreach (images, i, image) {
        u.images[i] = stored_of(image);
    }
    *ret = u;
    return 0;
}

void api_usage_finish(struct api_usage *u)
{
    json_decref(u->root);
    free(u->images);
}

size_t api_stored_names(const struct api_stored *image)
{
    return json_array_size(image->tags) + json_array_size(image->digests);
}

const char *api_stored_name(const struct api_stored *image, size_t i)
{
    size_t tags = json_array_size(image->tags);
    const char *name = json_string_value(i < tags ? json_array_get(image->tags, i)
                                                  : json_array_get(image->digests, i - tags));

    return name ? name : "";
}

bool api_stored_has_name(const struct api_stored *image, const char *name)
{
    for (size_t i = 0; i < api_stored_names(image); i++) {
        if (strcmp(api_stored_name(image, i), name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- pull ------------------------------------------------------------------------------------ */

#define PULL_TEXT_MAX 512 /* of the engine's text that is looked at */
#define DIGEST_DIGITS 64
#define DIGEST_SHOWN  12

/* A digest by its first digits, so that what stands behind it is not cut off. */
static void shorten_digests(char *text)
{
    static const char prefix[] = "sha256:", hex[] = "0123456789abcdef", dots[] = "...";
    char *p = text;

    while ((p = strstr(p, prefix))) {
        const char *rest = (p += sizeof(prefix) - 1) + DIGEST_DIGITS;

        if (strspn(p, hex) == DIGEST_DIGITS) {
            memcpy(p + DIGEST_SHOWN, dots, sizeof(dots) - 1);
            memmove(p + DIGEST_SHOWN + sizeof(dots) - 1, rest, strlen(rest) + 1);
        }
    }
}

/* "write /var/lib/docker/x: ..." */
static bool begins_as_system_call(const char *why)
{
    size_t word = strspn(why, "abcdefghijklmnopqrstuvwxyz_");

    return word > 0 && strncmp(why + word, " /", 2) == 0;
}

/* The engine's own words of its disk. What a registry says, which may be a tenant's, engines pass
 * on behind other beginnings ("unknown: ..."); it must not end everybody's pulls. */
static bool is_no_room(const char *why)
{
    static const char of_list[] = "copying system image from manifest list: ";
    static const char *const begins[] = {
        "failed to register layer: ", "failed to extract layer ",
        "failed to prepare extraction snapshot ", "failed to copy: failed to send write: ",
        "writing blob: storing blob to file ", "writing blob: adding layer with blob ",
    };
    bool own;

    why += strncmp(why, of_list, sizeof(of_list) - 1) == 0 ? sizeof(of_list) - 1 : 0;
    own = begins_as_system_call(why);
    for (size_t i = 0; !own && i < sizeof(begins) / sizeof(begins[0]); i++) {
        own = strncmp(why, begins[i], strlen(begins[i])) == 0;
    }
    return own && is_disk_full(why);
}

static int pull_failed(const char *image, int code, uint32_t status, const char *why,
                       struct fn_error *reterr)
{
    char name[PULL_TEXT_MAX], message[PULL_TEXT_MAX];

    snprintf(name, sizeof(name), "%s", image);
    snprintf(message, sizeof(message), "%s", why);
    shorten_digests(name);
    shorten_digests(message);
    if (code == FN_E_UNAVAILABLE && is_no_room(why)) {
        return disk_full(name, message, reterr);
    }
    return fail_user(reterr, code, (int)status, "Failed to pull image '%.80s': %s", name, message);
}

int api_pull_failure(const char *image, uint32_t status, const char *body, size_t len,
                     struct fn_error *reterr)
{
    json_t *root = json_loadb(body ? body : "", len, 0, NULL);
    const char *why = message_of(root);
    int r;

    if (status >= 400 && status < 500) {
        r = pull_failed(image, status == 404 ? FN_E_NOT_FOUND : FN_E_INVALID, status, why, reterr);
    } else {
        r = pull_failed(image, FN_E_UNAVAILABLE, 502, why, reterr);
    }
    json_decref(root);
    return r;
}

int api_parse_pull(const char *image, const char *body, size_t len, struct fn_error *reterr)
{
    const char *end = body + len;
    const char *nl;
    json_error_t why;

    for (; body < end; body = nl + 1) {
        json_t *line;
        const char *text;
        int r = 0;

        nl = memchr(body, '\n', (size_t)(end - body));
        nl = nl ? nl : end;
        if (nl == body || (nl == body + 1 && *body == '\r')) {
            continue;
        }
        line = json_loadb(body, (size_t)(nl - body), 0, &why);
        text = engine_text(line, "error");
        if (!line) {
            r = pull_failed(image, FN_E_UNAVAILABLE, 502,
                            "the engine's progress report is malformed", reterr);
        } else if (*text) {
            r = pull_failed(image, FN_E_UNAVAILABLE, 502, text, reterr);
        }
        json_decref(line);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- states ---------------------------------------------------------------------------------- */

int api_parse_state(const char *body, size_t len, struct api_state *ret, struct fn_error *reterr)
{
    json_t *root = json_loadb(body, len, 0, NULL);
    json_t *state = json_object_get(root, "State");
    int r = 0;

    if (json_is_object(state) && json_is_integer(json_object_get(state, "ExitCode"))) {
        ret->running = json_is_true(json_object_get(state, "Running"));
        ret->ending = strncmp(engine_text(state, "Status"), "stop", 4) == 0; /* stopping, stopped */
        ret->oom = json_is_true(json_object_get(state, "OOMKilled"));
        ret->exit_code = (int)json_integer_value(json_object_get(state, "ExitCode"));
    } else {
        r = malformed("container state", reterr);
    }
    json_decref(root);
    return r;
}

/* ---- output ---------------------------------------------------------------------------------- */

void api_frames_feed(struct api_frames *f, const void *data, size_t len,
                     void (*cb)(void *ud, uint32_t fd, const void *data, size_t len), void *ud)
{
    const unsigned char *p = data;

    while (len > 0 && !f->broken) {
        size_t n;

        if (f->left == 0) {
            f->head[f->head_len++] = *p++;
            len--;
            if (f->head_len < sizeof(f->head)) {
                continue;
            }
            f->head_len = 0;
            f->left = (uint32_t)f->head[4] << 24 | (uint32_t)f->head[5] << 16 |
                      (uint32_t)f->head[6] << 8 | f->head[7];
            f->broken = f->head[0] > 2 || f->head[1] || f->head[2] || f->head[3];
            continue;
        }
        n = len < f->left ? len : f->left;
        cb(ud, f->head[0] == 2 ? 2 : 1, p, n);
        p += n;
        len -= n;
        f->left -= (uint32_t)n;
    }
}
