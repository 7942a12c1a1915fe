/* `fnd init NODE [FILE]`: a commented fn.yaml to begin with, from the folder init. */
#include <cli/cli.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_MODE 0640

#define BEGINNINGS(each)                                                                           \
    each("api", init_api_yaml)                                                                     \
    each("full", init_full_yaml)                                                                   \
    each("lb", init_lb_yaml)                                                                       \
    each("npm", init_npm_yaml)                                                                     \
    each("pure-runner", init_runner_yaml)                                                          \
    each("runner", init_runner_yaml)
#define DECLARE(node, text)                                                                        \
    extern const unsigned char text[];                                                             \
    extern const size_t text##_len;
#define ROW(node, text) { node, text, &text##_len },
BEGINNINGS(DECLARE)

static const struct beginning {
    const char *node;
    const unsigned char *text;
    const size_t *len;
} beginnings[] = { BEGINNINGS(ROW) };

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
