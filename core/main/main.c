/* main() of fnd: the command line is core/cli's. */
#include <cli/cli.h>

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
