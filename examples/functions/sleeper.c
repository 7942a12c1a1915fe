/* sleeper: the body says for how many milliseconds; then it answers "slept <ms>". */
#include "sample.h"

#define SLEEP_MAX_MS (3600u * 1000)

static int sleeper(struct fdk_call *call, void *ud)
{
    uint64_t ms;

    (void)ud;
    if (!sample_number(fdk_body(call, NULL), SLEEP_MAX_MS, &ms)) {
        (void)fdk_answer_printf(call, "body, got \"%.40s\"; expected milliseconds, 0..%u\n",
                                fdk_body(call, NULL), SLEEP_MAX_MS);
        return -EINVAL;
    }
    sample_wait_ms(ms);
    return fdk_answer_printf(call, "slept %llu\n", (unsigned long long)ms);
}

int main(void)
{
    return fdk_handle(sleeper, NULL) < 0;
}
