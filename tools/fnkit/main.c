/* The command line of fnkit: one table of commands. */
#include "fnkit.h"

#include <stdio.h>
#include <string.h>

static const char usage_text[] =
    "usage: fnkit inspect [--json] FILE...\n"
    "       fnkit check [OPTION...] FILE\n"
    "       fnkit sim --scenario FILE [--seed N] PLUGIN...\n"
    "       fnkit version\n"
    "\n"
    "  inspect  tells what plugin files are, offer, need and import\n"
    "  check    runs the contract suites against a plugin file\n"
    "  sim      runs placers in a simulated cluster and compares them\n"
    "\n"
    "fnkit COMMAND --help tells more. exit codes: 1 the plugin breaks a rule, 64 usage,\n"
    "69 something needed is not there, 78 the file is refused\n";

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("fnkit %s, plugin ABI %d.%d\n", FND_VERSION, FN_ABI_MAJOR, FN_ABI_MINOR);
    return FNKIT_OK;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs(usage_text, stdout);
    return FNKIT_OK;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "inspect", fnkit_inspect },
    { "check", fnkit_check },
    { "sim", fnkit_sim },
    { "version", version },
    { "--version", version },
    { "help", help },
    { "--help", help },
    { "-h", help },
};

int main(int argc, char **argv)
{
    size_t i;

    if (argc < 2) {
        fprintf(stderr, "fnkit: a command is missing\n%s", usage_text);
        return FNKIT_USAGE;
    }
    for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return fnkit_written(commands[i].run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "fnkit: unknown command, got \"%s\"\n%s", argv[1], usage_text);
    return FNKIT_USAGE;
}
