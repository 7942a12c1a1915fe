#include <cli/cli.h>
#include <node/run.h>

int main(int argc, char **argv)
{
    return cli_main(argc, argv, run_node);
}
