/* Gives a target the inputs of folders or files, once each: the corpora as a test, and one input
 * under a debugger, without libFuzzer.
 *
 *   fuzz_<target> <folder or file> ...     0: every input ran, and there was at least one */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX (1u << 20)

static unsigned n_inputs;
static char running[PATH_MAX];

/* An input that aborts is named. */
static void run_file(const char *path)
{
    static unsigned char data[INPUT_BYTES_MAX];
    FILE *f = fopen(path, "rb");
    char *copy;
    size_t n;

    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    n = fread(data, 1, sizeof(data), f);
    fclose(f);
    copy = fuzz_copy((const char *)data, n);
    snprintf(running, sizeof(running), "%s", path);
    if (getenv("FND_FUZZ_TELL")) {
        fprintf(stderr, "%s\n", path);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)copy, n);
    free(copy);
    n_inputs++;
}

static void run_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[PATH_MAX];

    while (d && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
            run_file(file);
        }
    }
    if (d) {
        closedir(d);
    }
}

int main(int argc, char **argv)
{
    struct stat st;

    for (int i = 1; i < argc; i++) {
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            run_folder(argv[i]);
        } else {
            run_file(argv[i]);
        }
    }
    printf("%u inputs\n", n_inputs);
    return n_inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
