/* fn.yaml with all its sections, and scenarios of the simulator. The first byte says which, 'f' or
 * 's'; 'y': a file whose tree nobody has an option for.
 *
 * A file is refused with sentences, or accepted without; what is accepted is printed, and nothing of
 * it is in two places. Files are read, so that the input is one in memory. */
#include "fuzz.h"

#include <config/config.h>
#include <sim/scenario.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRINTED_MAX (4u << 20)
#define PATH_BYTES  64

static int write_file(struct fuzz_in in, char path[PATH_BYTES])
{
    int fd = memfd_create("fn.yaml", MFD_CLOEXEC);

    fuzz_expect(fd >= 0 && write(fd, in.at, in.len) == (ssize_t)in.len, "no file");
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

static void expect_told(int r, bool bad, struct conf_problems *p)
{
    fuzz_expect((r < 0) == bad, "%d with %u problems: %s", r, p->n, buf_text(&p->text));
    fuzz_expect(!bad || p->text.len > 0, "refused without a sentence");
}

static void read_config(struct fuzz_in in)
{
    static char *const none[] = { NULL };
    struct conf_problems p;
    struct config *c = NULL;
    char path[PATH_BYTES];
    int fd = write_file(in, path), r;

    conf_problems_init(&p);
    r = config_load(path, none, &c, &p);
    expect_told(r, p.n > 0, &p);
    config_destroy(c);
    conf_problems_finish(&p);
    close(fd);
}

static void read_scenario(struct fuzz_in in)
{
    struct conf_problems p;
    struct scenario *sc = NULL;
    char path[PATH_BYTES];
    int fd = write_file(in, path), r;

    conf_problems_init(&p);
    r = scenario_load(path, NULL, 0, &sc, &p);
    expect_told(r, p.n > 0, &p);
    scenario_destroy(sc);
    conf_problems_finish(&p);
    close(fd);
}

/* Every node of a tree is in it once, behind its parent, and has a place. */
static uint32_t count_nodes(const struct conf_node *n, uint32_t depth)
{
    uint32_t count = 1;

    fuzz_expect(depth <= CONF_DEPTH_MAX + 1, "depth %u", depth);
    fuzz_expect(n->line >= 1 && n->column >= 1, "place %d:%d", n->line, n->column);
    for (const struct conf_node *child = n->first; child; child = child->next) {
        fuzz_expect(child->parent == n, "another parent");
        fuzz_expect((child->key != NULL) == (n->type == CONF_MAP), "a key outside of a map");
        count += count_nodes(child, depth + 1);
    }
    return count;
}

static void read_tree(struct fuzz_in in)
{
    struct conf_problems p;
    struct conf *c = NULL;
    int r;

    conf_problems_init(&p);
    r = conf_parse("fn.yaml", in.at, in.len, &c, &p);
    expect_told(r, p.n > 0, &p);
    if (c && conf_root(c)) {
        fuzz_expect(count_nodes(conf_root(c), 0) <= CONF_NODES_MAX + 1, "too many nodes");
    }
    conf_destroy(c);
    conf_problems_finish(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "fys");

    if (mode == 'f') {
        read_config(in);
    } else if (mode == 's') {
        read_scenario(in);
    } else {
        read_tree(in);
    }
    return 0;
}
