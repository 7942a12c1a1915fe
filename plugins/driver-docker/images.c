/* Images: inspect, pull with credentials, the load file. */
#include "docker.h"
#include "engine_json.h"
#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTH_FILE_MAX     (1024 * 1024)
#define HELPER_TIMEOUT_MS 30000
#define RULE_LOAD_FILE    "a tar file of at most 4 GiB"

static int check_image(const struct fn_task *task, const struct api_image *it,
                       struct fn_error *reterr)
{
    if (it->has_volumes && !(task->flags & FN_TASK_ALLOW_VOLUMES)) {
        return fail_user(reterr, FN_E_INVALID, 400,
                         "image '%.80s' declares volumes; expected an image without VOLUME",
                         task->image);
    }
    if (it->label_bytes > API_LABELS_MAX) {
        return fail_user(reterr, FN_E_INVALID, 400,
                         "image '%.80s' has labels of %zu bytes; expected at most %d", task->image,
                         it->label_bytes, API_LABELS_MAX);
    }
    return 0;
}

/* 1 when it is there, 0 when not. */
static int ask_engine(struct docker *d, struct fn_op *op, const struct fn_task *task,
                      const struct image_name *image, struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "GET", .timeout_ms = INSPECT_TIMEOUT_MS,
                             .answer_max = IMAGE_ANSWER_MAX };
    char path[2 * IMAGE_NAME_MAX + 64];
    struct api_image it = { .label_bytes = 0 };
    uint64_t epoch = presence_epoch(d);
    int r;

    snprintf(path, sizeof(path), "/images/%s%c%s/json", image->repository,
             image->by_digest ? '@' : ':', image->tag);
    c.path = path;
    r = engine_call(d, op, &c, &a, reterr);
    if (r == 0 && a.status == 200) {
        r = api_parse_image(a.body, a.body_len, &it, reterr);
        if (r == 0) {
            presence_keep(d, task->image, &it, epoch);
            r = check_image(task, &it, reterr);
        }
        r = r == 0 ? 1 : r;
    } else if (r == 0 && a.status != 404) {
        r = api_failure("image", a.status, a.body, a.body_len, reterr);
    }
    d->http->free_answer(&a);
    return r;
}

/* The same, of what is known of it or else of the engine. */
static int inspect(struct docker *d, struct fn_op *op, const struct fn_task *task,
                   const struct image_name *image, struct fn_error *reterr)
{
    struct api_image it;
    int r;

    if (presence_find(d, task->image, &it)) {
        r = check_image(task, &it, reterr);
        return r == 0 ? 1 : r;
    }
    return ask_engine(d, op, task, image, reterr);
}

static int pull_path(const struct image_name *image, char *ret, size_t cap)
{
    char repository[3 * IMAGE_NAME_MAX + 1];
    char tag[512];

    if (engine_escape(image->repository, repository, sizeof(repository)) < 0 ||
        engine_escape(image->tag, tag, sizeof(tag)) < 0 ||
        snprintf(ret, cap, "/images/create?fromImage=%s&tag=%s", repository, tag) >= (int)cap) {
        return FN_E_RANGE;
    }
    return 0;
}

/* Asks docker-credential-<name>. *ret is NULL when it knows none. What it prints is not shown: it
 * may be a secret. */
static int ask_helper(struct docker *d, struct fn_op *op, const char *name, const char *registry,
                      char **ret, struct fn_error *reterr)
{
    char program[sizeof("docker-credential-") + AUTH_HELPER_MAX];
    const char *const argv[] = { program, "get", NULL };
    const struct fn_exec_request rq = { .size = sizeof(rq), .timeout_ms = HELPER_TIMEOUT_MS,
                                        .argv = argv, .env = (const char *const *)environ,
                                        .stdin_text = auth_helper_question(registry) };
    struct fn_exec_result result = { .size = sizeof(result) };
    int r;

    snprintf(program, sizeof(program), "docker-credential-%s", name);
    r = d->exec->run(d->host, op, &rq, &result, reterr);
    if (r < 0) {
        return fail_retry(reterr, r);
    }
    *ret = NULL;
    if (result.exit_code == 0) {
        r = auth_helper_header(result.out, registry, ret);
    } else if (!strstr(result.out, "credentials not found")) {
        r = FN_E_UNAVAILABLE;
    }
    if (r < 0) {
        fail_platform(reterr, FN_E_UNAVAILABLE,
                      "%s has no answer for %.80s: exit code %d; expected a credential as JSON",
                      program, *registry ? registry : "Docker Hub", result.exit_code);
        r = fail_retry(reterr, FN_E_UNAVAILABLE);
    }
    d->exec->free_result(&result);
    return r;
}

/* *ret is the value of X-Registry-Auth, NULL = there are no credentials. */
static int find_credential(struct docker *d, struct fn_op *op, const struct fn_task *task,
                           const char *registry, char **ret, struct fn_error *reterr)
{
    char helper[AUTH_HELPER_MAX + 1];
    bool token = task->registry_token && *task->registry_token;
    struct auth *auth = NULL;
    int r = token ? 0 : images_read_auth(d, &auth, reterr);

    if (r < 0) {
        return fail_retry(reterr, r);
    }
    auth_helper(auth, registry, helper);
    if (*helper) {
        r = ask_helper(d, op, helper, registry, ret, reterr);
    } else if (auth_header(auth, registry, task->registry_token, ret) < 0) {
        r = fail_platform(reterr, FN_E_EXHAUSTED, "registry credentials: out of memory");
    }
    auth_destroy(auth);
    if (r == 0) {
        engine_log(d, FN_LOG_INFO, "pulling image %s %s", task->image,
                   token  ? "with the call's token"
                   : *ret ? "with credentials"
                          : "without credentials");
    }
    return r;
}

static int pull(struct docker *d, struct fn_op *op, const struct fn_task *task,
                const struct image_name *image, struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "POST", .answer_max = PULL_ANSWER_MAX, .slow = true };
    char path[3800];
    char *cred = NULL;
    char *header = NULL;
    int r;

    if (pull_path(image, path, sizeof(path)) < 0) {
        return fail_user(reterr, FN_E_INVALID, 400, "RUN406 image name is too long");
    }
    r = find_credential(d, op, task, image->registry, &cred, reterr);
    if (r < 0) {
        return r;
    }
    if (cred && asprintf(&header, "X-Registry-Auth: %s", cred) < 0) {
        header = NULL;
        r = FN_E_EXHAUSTED;
    }
    if (r == 0) {
        c.path = path;
        c.header = header;
        r = engine_call(d, op, &c, &a, reterr);
    }
    free(header);
    free(cred);
    if (r == FN_E_DEADLINE) {
        r = fail_user(reterr, FN_E_DEADLINE, 504, "Image pull timed out");
    } else if (r == 0 && a.status != 200) {
        r = disk_judge(d, api_pull_failure(task->image, a.status, a.body, a.body_len, reterr),
                       reterr);
    } else if (r == 0) {
        r = disk_judge(d, api_parse_pull(task->image, a.body, a.body_len, reterr), reterr);
    }
    d->http->free_answer(&a);
    return r;
}

/* ---- the load file --------------------------------------------------------------------------- */

static bool is_archive(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_size > 0 && st->st_size <= LOAD_FILE_MAX;
}

int images_check_file(const struct docker *d, struct fn_error *reterr)
{
    return load_file_check(d->conf->load_file, is_archive, RULE_LOAD_FILE, reterr);
}

static int send_file(struct docker *d, struct fn_op *op, int fd, struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "POST", .path = "/images/load?quiet=1",
                             .type = "application/x-tar", .timeout_ms = LOAD_TIMEOUT_MS,
                             .slow = true };
    struct stat st;
    void *data;
    int r;

    if (fstat(fd, &st) < 0 || !is_archive(&st)) {
        return fail_platform(reterr, FN_E_INVALID, "expected " RULE_LOAD_FILE);
    }
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "%s", strerror(errno));
    }
    c.body = data;
    c.body_len = (uint64_t)st.st_size;
    r = engine_call(d, op, &c, &a, reterr);
    if (r == 0 && a.status != 200) {
        r = api_failure("load", a.status, a.body, a.body_len, reterr);
    }
    munmap(data, (size_t)st.st_size);
    d->http->free_answer(&a);
    return r;
}

int images_load_file(void *inst, struct fn_op *op, struct fn_error *reterr)
{
    struct docker *d = inst;
    int fd = open(d->conf->load_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r;

    if (fd < 0) {
        return fail_platform(reterr, FN_E_PRECONDITION, "%s", strerror(errno));
    }
    r = send_file(d, op, fd, reterr);
    close(fd);
    return r;
}

/* ---- prepare -------------------------------------------------------------------------------- */

/* 1 when it is there, 0 when not, nor in the load file. */
static int find(struct docker *d, struct fn_op *op, const struct fn_task *task,
                const struct image_name *image, struct fn_error *reterr)
{
    bool due = load_file_is_due(&d->load_file); /* before the look: it may end meanwhile */
    int r = inspect(d, op, task, image, reterr);

    if (r == 0 && due) {
        r = load_file_once(&d->load_file, d->host, d->op, op, reterr);
        r = r == 0 ? inspect(d, op, task, image, reterr) : r;
    }
    return r;
}

int images_prepare(struct docker *d, struct fn_op *op, const struct fn_task *task,
                   struct fn_error *reterr)
{
    struct image_name image;
    int r = image_parse(task->image, &image, reterr);

    if (r == 0) {
        r = find(d, op, task, &image, reterr);
    }
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    r = disk_check(d, task->image, reterr);
    r = r == 0 ? pull(d, op, task, &image, reterr) : r;
    if (r == 0) {
        cleaner_pulled(d);
        r = inspect(d, op, task, &image, reterr);
        if (r == 0) {
            fail(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM,
                 "image '%.80s' is gone again after it was pulled", task->image);
            return fail_retry(reterr, FN_E_UNAVAILABLE);
        }
    }
    return r < 0 ? r : 0;
}

/* ---- credentials ----------------------------------------------------------------------------- */

/* Text of a file, given; NULL with errno. */
static char *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0) {
        return NULL;
    }
    text = malloc(AUTH_FILE_MAX + 1);
    while (text && len < AUTH_FILE_MAX &&
           ((n = read(fd, text + len, AUTH_FILE_MAX - len)) > 0 || (n < 0 && errno == EINTR))) {
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    if (text && n < 0) {
        free(text);
        return NULL;
    }
    if (text) {
        text[len] = '\0';
    }
    return text;
}

/* False: there is none, or it cannot be used. */
static bool use_file(struct docker *d, const char *dir, const char *name, struct auth **ret)
{
    struct fn_error why = { .size = sizeof(why) };
    char *path = NULL, *text;
    int r = FN_E_NOT_FOUND;

    if (!dir || !*dir || asprintf(&path, "%s/%s", dir, name) < 0) {
        return false;
    }
    text = read_file(path);
    if (text) {
        r = auth_parse(text, ret, &why);
    }
    if (text && r < 0) {
        engine_log(d, FN_LOG_WARN, "%s is not used: %s", path, why.msg);
    }
    free(text);
    free(path);
    return r == 0;
}

/* Docker's own places, as Go Fn reads them: the first that can be used. */
static void use_default(struct docker *d, struct auth **ret)
{
    const char *home = getenv("HOME");

    if (!use_file(d, getenv("DOCKER_CONFIG"), "config.json", ret) &&
        !use_file(d, home, ".docker/config.json", ret)) {
        use_file(d, home, ".dockercfg", ret);
    }
}

static int find_auth(struct docker *d, struct auth **ret, struct fn_error *reterr)
{
    const char *file = d->conf->auth_file;
    char *text;
    int r = 0;

    if (d->conf->auth && *d->conf->auth) {
        return auth_parse(d->conf->auth, ret, reterr);
    }
    if (file && *file) {
        text = read_file(file);
        r = text ? auth_parse(text, ret, reterr)
                 : fail_platform(reterr, FN_E_PRECONDITION, "auth_file %.100s: %s", file,
                                 strerror(errno));
        free(text);
        return r;
    }
    use_default(d, ret);
    return 0;
}

int images_read_auth(struct docker *d, struct auth **ret, struct fn_error *reterr)
{
    int r;

    *ret = NULL;
    r = find_auth(d, ret, reterr);
    if (r == 0 && *ret && d->conf->auth_parents) {
        auth_allow_parents(*ret);
    }
    return r;
}
