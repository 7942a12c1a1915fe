/* `fnd init NODE [FILE]`: a commented fn.yaml to begin with, from the folder init. */
#include <cli/cli.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_MODE 0640

#define TEXT(name)                                                                                 \
    extern const unsigned char init_##name##_yaml[];                                               \
    extern const size_t init_##name##_yaml_len;
TEXT(api)
TEXT(full)
TEXT(lb)
TEXT(npm)
TEXT(runner)
#undef TEXT

static const struct beginning {
    const char *node;
    const unsigned char *text;
    const size_t *len;
} beginnings[] = {
    { "api", init_api_yaml, &init_api_yaml_len },
    { "full", init_full_yaml, &init_full_yaml_len },
    { "lb", init_lb_yaml, &init_lb_yaml_len },
    { "npm", init_npm_yaml, &init_npm_yaml_len },
    { "pure-runner", init_runner_yaml, &init_runner_yaml_len },
    { "runner", init_runner_yaml, &init_runner_yaml_len },
};

static const struct beginning *find_beginning(const char *node)
{
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        if (strcmp(beginnings[i].node, node) == 0) {
            return &beginnings[i];
        }
    }
    return NULL;
}

static FILE *create_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

    if (fd >= 0 && !out) {
        close(fd);
    }
    return out;
}

int cli_init(const struct cli_options *o)
{
    const struct beginning *b = find_beginning(o->argv[0]);
    const char *path = o->argc > 1 ? o->argv[1] : NULL;
    FILE *out;
    bool good;

    if (!b) {
        fprintf(stderr, "fnd: init, got %s; expected api, full, lb, npm or runner\n",
                conf_quote(o->argv[0]));
        return EXIT_USAGE;
    }
    out = path ? create_file(path) : stdout;
    if (!out) {
        fprintf(stderr, "fnd: %s: %s; expected a path where no file is yet\n", path,
                strerror(errno));
        return EXIT_UNAVAILABLE;
    }
    good = fwrite(b->text, 1, *b->len, out) == *b->len && fflush(out) == 0;
    if (!path) {
        return cli_written(EXIT_OK);
    }
    good = fclose(out) == 0 && good;
    if (!good) {
        fprintf(stderr, "fnd: init: the text could not be written\n");
    }
    return good ? EXIT_OK : EXIT_UNAVAILABLE;
}
