/* A plugin's file, before any of its code may run: what is read of it lies in it, and it is refused
 * with a sentence, or has a note. */
#include "fuzz.h"

#include <plugin/plugin_int.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fn_error e = ERR_INIT;
    struct buf lines = BUF_INIT(0);
    struct plugin_check c = { .path = "/p.so", .first = &e, .lines = &lines };
    void *bytes = malloc(len); /* aligned, and no byte longer */
    int r;

    fuzz_expect(bytes || len == 0, "no memory");
    memcpy(bytes, data, len);
    r = plugin_elf_check(&c, bytes, len);
    fuzz_expect(r == 0 || (e.msg[0] && c.n > 0), "refused without a sentence");
    fuzz_expect(lines.len == 0 || buf_text(&lines)[lines.len - 1] == '\n', "%s", buf_text(&lines));
    buf_finish(&lines);
    free(bytes);
    return 0;
}
