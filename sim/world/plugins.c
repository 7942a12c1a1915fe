/* The files that were opened, and instances of their factories for the host of one node. */
#include "plugins.h"

#include "world.h"

#include <base/err.h>
#include <stdio.h>
#include <string.h>

#define FILES_MAX 16u
#define PATH_BYTES 4096

static struct plugin_host *opener; /* it starts nothing */
static struct {
    const char *kind, *name;
    struct plugin_file *file;
} files[FILES_MAX];
static uint32_t n_files;

static int open_one(const char *folder, const char *kind, const char *name, struct fn_error *reterr)
{
    char path[PATH_BYTES];
    int r = plugin_path_for(folder, kind, name, path, sizeof(path));

    r = r < 0 ? err_set(reterr, r, "plugin %s %s: no path", kind, name)
              : plugin_file_open(opener, path, &files[n_files].file, reterr);
    if (r == 0) {
        files[n_files].kind = kind;
        files[n_files++].name = name;
    }
    return r;
}

int plugins_open(const char *folder, struct fn_error *reterr)
{
    const char *name;
    int r = 0;

    opener = plugin_host_create(NULL);
    if (!opener) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    for (uint32_t i = 0; r == 0 && (name = plan_placer(i)); i++) {
        r = open_one(folder, FN_KIND_PLACER, name, reterr);
    }
    r = r < 0 ? r : open_one(folder, FN_KIND_POOL, "static", reterr);
    return r < 0 ? r : open_one(folder, FN_KIND_POOL, "npm", reterr);
}

void plugins_close(void)
{
    plugin_host_destroy(opener);
    opener = NULL;
    n_files = 0;
}

int plugins_create(struct plugin_host *h, const char *kind, const char *name,
                   const struct conf_override *set, struct plugin **ret, struct fn_error *reterr)
{
    const struct fn_factory *f;
    struct conf_problems problems;
    struct conf_values *values = NULL;
    uint32_t i = 0;
    int r = 0;

    while (strcmp(files[i].kind, kind) != 0 || strcmp(files[i].name, name) != 0) {
        i++; /* it is there: plugins_open() opened all */
    }
    f = plugin_file_factory(files[i].file, kind, name);
    conf_problems_init(&problems);
    if (f->opts || f->conf_size > 0) {
        r = conf_bind(NULL, NULL, name, f->opts, f->conf_size, NULL, set, &values, &problems);
    }
    if (r == 0 && problems.n > 0) {
        conf_values_destroy(values);
        r = err_set(reterr, FN_E_INVALID, "%s", buf_text(&problems.text));
    }
    conf_problems_finish(&problems);
    return r < 0 ? r : plugin_create(h, files[i].file, f, name, values, ret, reterr);
}

/* It has no file; the version that lines of the log tell is that of any. */
int plugins_create_own(struct plugin_host *h, const struct fn_factory *f, const void *given,
                       struct plugin **ret, struct fn_error *reterr)
{
    struct conf_values *options = sim_alloc(sizeof(*options));

    options->data = sim_alloc(sizeof(given));
    memcpy(options->data, &given, sizeof(given));
    return plugin_create(h, files[0].file, f, f->name, options, ret, reterr);
}
