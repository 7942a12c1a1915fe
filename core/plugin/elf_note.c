/* A file as a whole, and the note that says what it was built for. */
#include <plugin/elf_int.h>

#include <string.h>

/* 1 = found, 0 = not here, < 0 = damaged. */
static int scan_notes(struct elf *e, const Elf64_Phdr *p, struct fn_note *ret)
{
    uint64_t align = p->p_align == 8 ? 8 : 4;
    uint64_t at = 0;
    uint64_t name_len;
    uint64_t desc_len;
    const char *notes = e->bytes + p->p_offset;
    Elf64_Nhdr nh;

    if (p->p_filesz > NOTES_MAX) {
        return elf_beyond(e, "size of a note segment", p->p_filesz, NOTES_MAX);
    }
    while (p->p_filesz - at >= sizeof(nh)) {
        memcpy(&nh, notes + at, sizeof(nh));
        name_len = ((uint64_t)nh.n_namesz + align - 1) & ~(align - 1);
        desc_len = ((uint64_t)nh.n_descsz + align - 1) & ~(align - 1);
        if (sizeof(nh) + name_len + nh.n_descsz > p->p_filesz - at) {
            return elf_beyond(e, "end of a note", at + sizeof(nh) + name_len + nh.n_descsz,
                           p->p_filesz);
        }
        if (nh.n_namesz == 4 && nh.n_type == FN_NOTE_TYPE && nh.n_descsz >= 8 && align == 4 &&
            memcmp(notes + at + sizeof(nh), FN_NOTE_OWNER, 4) == 0) {
            memcpy(ret, notes + at, sizeof(*ret));
            return 1;
        }
        at += sizeof(nh) + name_len + desc_len;
        if (at > p->p_filesz) {
            return 0;
        }
    }
    return 0;
}

static int find_note(struct elf *e, struct fn_note *ret)
{
    uint32_t i;
    int r;

    for (i = 0; i < e->eh->e_phnum; i++) {
        if (e->ph[i].p_type == PT_NOTE) {
            r = scan_notes(e, &e->ph[i], ret);
            if (r != 0) {
                return r < 0 ? r : 0;
            }
        }
    }
    return plugin_problem(e->c, FN_E_INVALID, "PLG907",
                          "has no note of owner \"" FN_NOTE_OWNER "\"; expected a plugin built "
                          "with FN_PLUGIN_DEFINE");
}

int plugin_elf_check(struct plugin_check *c, const void *bytes, uint64_t size)
{
    struct elf e = { .c = c, .bytes = bytes, .size = size };
    int r = plugin_elf_open(&e);

    r = r < 0 ? r : plugin_elf_check_names(&e);
    return r < 0 ? r : find_note(&e, &c->note);
}
