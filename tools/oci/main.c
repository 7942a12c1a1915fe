/* fnd-oci: images for driver-oci.
 *
 *   fnd-oci load [--store DIR] [--name NAME] FILE    an archive of docker save, or an OCI layout
 *   fnd-oci list [--store DIR]                       names of the images in the store */
#include "oci.h"

#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define USAGE_EXIT 64

int complain(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("fnd-oci: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return -1;
}

static int usage(void)
{
    fputs("usage: fnd-oci load [--store DIR] [--name NAME] FILE|-\n"
          "       fnd-oci list [--store DIR]\n"
          "DIR: " STORE_DEFAULT " unless it is named\n",
          stderr);
    return USAGE_EXIT;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "store", required_argument, NULL, 's' },
                                             { "name", required_argument, NULL, 'n' },
                                             { NULL, 0, NULL, 0 } };
    const char *store = STORE_DEFAULT, *name = NULL;
    int c;

    setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8 */
    signal(SIGPIPE, SIG_IGN);
    umask(022);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's') {
            store = optarg;
        } else if (c == 'n') {
            name = optarg;
        } else {
            return usage();
        }
    }
    argc -= optind;
    argv += optind;
    if (argc == 2 && strcmp(argv[0], "load") == 0) {
        return load(store, argv[1], name) == 0 ? 0 : 1;
    }
    if (argc == 1 && strcmp(argv[0], "list") == 0 && !name) {
        return list(store) == 0 ? 0 : 1;
    }
    return usage();
}
