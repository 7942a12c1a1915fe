#include <main/cli.h>
#include <main/run.h>

int main(int argc, char **argv)
{
    return cli_main(argc, argv, run_node);
}
