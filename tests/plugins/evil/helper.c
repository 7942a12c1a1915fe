/* A library of a vendor, beside a plugin. */
__attribute__((visibility("default"))) int helper(void);

int helper(void)
{
    return 1;
}
