#include "diff.h"
TCase *diff_server_case(void)
{
    return tcase_create("server");
}
