/* main() of fnd: the command line is core/cli's. */
#include <cli/cli.h>

#include <fcntl.h>
#include <unistd.h>

/* A closed one of the first three would become the number of a socket, which then got what is
 * printed. Nothing takes what goes to a closed output: that is told. */
static void open_closed(void)
{
    static const char *const stand_in[] = { "/dev/null", "/dev/full", "/dev/null" };

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)!open(stand_in[fd], O_RDWR); /* the lowest that is free */
        }
    }
}

int main(int argc, char **argv)
{
    open_closed();
    return cli_main(argc, argv);
}
