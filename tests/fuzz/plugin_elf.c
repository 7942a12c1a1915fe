/* A plugin's file, before any of its code may run: what is read of it lies in it, and it is refused
 * with a sentence, or has a note. */
#include "fuzz.h"

#include <plugin/plugin_int.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fn_error e = ERR_INIT;
    struct buf lines = BUF_INIT(0);
    struct plugin_check c = { .path = "/p.so", .first = &e, .lines = &lines };
    struct fn_note note;
    int fd = memfd_create("p.so", MFD_CLOEXEC);
    int r;

    fuzz_expect(fd >= 0 && write(fd, data, len) == (ssize_t)len, "no file");
    r = plugin_elf_check(&c, fd, len, &note);
    fuzz_expect(r == 0 || (e.msg[0] && c.n > 0), "refused without a sentence");
    fuzz_expect(lines.len == 0 || buf_text(&lines)[lines.len - 1] == '\n', "%s", buf_text(&lines));
    buf_finish(&lines);
    close(fd);
    return 0;
}
