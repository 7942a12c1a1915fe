/* What a node pool manager sends to pool/npm. The first byte says what the rest is:
 *
 *   m   a fnd.Membership: its head, members and labels     h   a historic LBGroupMembership
 *   d   a DemandAnswer                                     g   three memberships, one after the other
 *
 * Members are told once each, in order, within their limits; a group holds what it was given. */
#include "fuzz.h"

#include <groups.h>
#include <wire.h>

#define LISTS_N 3
#define STEP_NS 20000000000LL

static uint32_t read_members(struct fuzz_in in, int historic, struct group *g)
{
    struct wire_members at = wire_members(in.at, in.len, historic);
    struct wire_member m;
    uint32_t n = 0;
    int r;

    while ((r = wire_next_member(&at, &m)) == 1) {
        fuzz_expect(strnlen(m.id, sizeof(m.id)) <= WIRE_ID_MAX &&
                        strnlen(m.address, sizeof(m.address)) <= WIRE_ADDRESS_MAX,
                    "no end of a text");
        fuzz_expect(++n <= in.len, "more members than bytes");
        if (g) {
            group_member(g, &m);
        }
    }
    return n;
}

static void read_labels(struct fuzz_in in)
{
    struct wire_members at = wire_members(in.at, in.len, 0);
    char labels[FN_LABELS_TEXT_MAX + 1];
    uint32_t n = 0;

    while (wire_next_labels(&at, labels) == 1) {
        fuzz_expect(strnlen(labels, sizeof(labels)) <= FN_LABELS_TEXT_MAX, "no end of labels");
        fuzz_expect(++n <= in.len, "more sets than bytes");
    }
}

static void read_membership(struct fuzz_in in)
{
    struct wire_head head;

    if (wire_read_head(in.at, in.len, &head) == 0) {
        fuzz_expect(strnlen(head.group, sizeof(head.group)) <= WIRE_GROUP_MAX, "no end");
    }
    read_members(in, 0, NULL);
    read_labels(in);
}

static void read_answer(struct fuzz_in in)
{
    struct wire_note note;

    for (uint32_t kind = WIRE_OBJECTION; kind <= WIRE_STATE; kind++) {
        if (wire_read_note(in.at, in.len, kind, &note) == 0) {
            fuzz_expect(strnlen(note.text, sizeof(note.text)) <= WIRE_NOTE_MAX, "no end");
        }
    }
}

static void read_lists(struct fuzz_in in)
{
    struct groups groups;
    struct group *g;

    memset(&groups, 0, sizeof(groups));
    g = groups_get(&groups, "default", 0);
    for (int i = 0; g && i < LISTS_N; i++) {
        struct fuzz_in list = fuzz_line(&in);

        group_list_begin(g);
        read_members(list, 0, g);
        group_list_end(g, i * STEP_NS);
        group_expire(g, i * STEP_NS + STEP_NS / 2);
        for (uint32_t k = 1; k < g->n; k++) {
            fuzz_expect(strcmp(g->members[k].id, g->members[k - 1].id) != 0, "%s twice",
                        g->members[k].id);
        }
    }
    groups_finish(&groups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "mhdg");
    char *copy = fuzz_copy(in.at, in.len);

    in.at = copy;
    switch (mode) {
    case 'm': read_membership(in); break;
    case 'h': read_members(in, 1, NULL); break;
    case 'd': read_answer(in); break;
    default: read_lists(in); break;
    }
    free(copy);
    return 0;
}
