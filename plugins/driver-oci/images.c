/* Images are what fnd-oci has put into the store. The driver reads names and configurations, and
 * has a load file loaded before an image is said not to be there. */
#include "fail.h"
#include "oci.h"

#include <stdlib.h>

static int no_image(const struct fn_task *task, const char *why, struct fn_error *reterr)
{
    return fail_user(reterr, FN_E_NOT_FOUND, 404, "Failed to pull image '%.200s': %s", task->image,
                     why);
}

/* ---- the load file --------------------------------------------------------------------------- */

int images_load_file(void *inst, struct fn_op *op, struct fn_error *reterr)
{
    struct oci *d = inst;
    const char *const argv[] = { d->loader, "load", "--store", d->conf->store,
                                 d->conf->load_file, NULL };
    const struct fn_exec_request rq = { .size = sizeof(rq), .timeout_ms = LOAD_TIMEOUT_MS,
                                        .argv = argv };
    struct fn_exec_result result = { .size = sizeof(result) };
    int r = d->exec->run(d->host, op, &rq, &result, reterr);

    if (r < 0) {
        return r;
    }
    if (result.exit_code != 0) {
        r = fail_platform(reterr, FN_E_PRECONDITION, "%.300s",
                          result.err && *result.err ? result.err : "failed");
    }
    d->exec->free_result(&result);
    return r;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* One that comes again stays where it is uppermost, from where it hides the same: an overlay does
 * not take a folder twice. */
static void add_layer(struct oci_image *image, const char *digits)
{
    uint32_t i = 0;

    while (i < image->n_layers && strcmp(image->layers[i], digits) != 0) {
        i++;
    }
    if (i < image->n_layers) {
        image->n_layers--;
        memmove(image->layers[i], image->layers[i + 1],
                (image->n_layers - i) * sizeof(image->layers[0]));
    }
    memcpy(image->layers[image->n_layers++], digits, STORE_HEX + 1);
}

int image_parse_config(const char *text, size_t len, struct oci_image *ret)
{
    json_t *all = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    json_t *ids = json_object_get(json_object_get(all, "rootfs"), "diff_ids");
    json_t *id;
    size_t i;
    int r = json_array_size(ids) > 0 && json_array_size(ids) <= STORE_LAYERS_MAX ? 0 : FN_E_INVALID;

    ret->config = NULL;
    ret->n_layers = 0;
    json_array_foreach(ids, i, id) {
        const char *digits = store_digits(json_string_value(id));

        if (r < 0 || !digits) {
            r = FN_E_INVALID;
            break;
        }
        add_layer(ret, digits);
    }
    if (r == 0) {
        ret->config = json_incref(json_object_get(all, "config"));
    }
    json_decref(all);
    return r;
}

/* The digest that a name leads to. */
static bool find_name(struct oci *d, const struct image_name *image, char ret[STORE_HEX + 1])
{
    char folder[OCI_PATH_MAX], file[STORE_HEX + 1];
    char text[STORE_HEX + STORE_NAME_MAX + 8];

    snprintf(folder, sizeof(folder), "%s/names", d->conf->store);
    store_name_file(image, file);
    if (!file_read(folder, file, text, sizeof(text)) || text[STORE_HEX] != '\n') {
        return false;
    }
    memcpy(ret, text, STORE_HEX);
    ret[STORE_HEX] = '\0';
    return store_is_hex(ret);
}

static int read_config(struct oci *d, const char *digest, struct oci_image *ret)
{
    char folder[OCI_PATH_MAX], file[STORE_HEX + 8];
    char *text = malloc(STORE_CONFIG_MAX + 1);
    int r = FN_E_NOT_FOUND;

    snprintf(folder, sizeof(folder), "%s/images", d->conf->store);
    snprintf(file, sizeof(file), "%s.json", digest);
    if (text && file_read(folder, file, text, STORE_CONFIG_MAX + 1)) {
        r = image_parse_config(text, strlen(text), ret);
    }
    free(text);
    return r;
}

int image_open(struct oci *d, const struct fn_task *task, struct oci_image *ret,
               struct fn_error *reterr)
{
    char digest[STORE_HEX + 1];
    struct image_name name;
    int r = image_parse(task->image, &name, reterr);

    ret->config = NULL;
    if (r < 0) {
        return r;
    }
    if (!find_name(d, &name, digest)) {
        return no_image(task, "it is not in this node's store, and the node pulls none; load it "
                        "with fnd-oci", reterr);
    }
    if (read_config(d, digest, ret) < 0) {
        return no_image(task, "its configuration in this node's store cannot be read", reterr);
    }
    if (json_object_size(json_object_get(ret->config, "Volumes")) > 0 &&
        !(task->flags & FN_TASK_ALLOW_VOLUMES)) {
        image_drop(ret);
        return fail_user(reterr, FN_E_INVALID, 400,
                         "image '%.80s' declares volumes; expected an image without VOLUME",
                         task->image);
    }
    return 0;
}

void image_drop(struct oci_image *image)
{
    json_decref(image->config);
    image->config = NULL;
}

int images_prepare(struct oci *d, struct fn_op *op, const struct fn_task *task,
                   struct fn_error *reterr)
{
    bool due = load_file_is_due(&d->load_file); /* before the look: it may end meanwhile */
    struct oci_image *image = calloc(1, sizeof(*image));
    int r;

    if (!image) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver oci: out of memory");
    }
    r = image_open(d, task, image, reterr);
    if (r == FN_E_NOT_FOUND && due) {
        r = load_file_once(&d->load_file, d->host, d->op, op, reterr);
        r = r == 0 ? image_open(d, task, image, reterr) : r;
    }
    if (r == 0) {
        image_drop(image);
    }
    free(image);
    return r;
}
