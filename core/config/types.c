/* Types of node: a new one is a row, everything else asks. */
#include <config/config_int.h>

#include <string.h>

#define BIT(side) (1u << (side))

/* In the order of messages. */
static const struct config_type types[] = {
    { .word = "lb", .sides = BIT(SIDE_LB), .front = SIDE_LB },
    { .word = "pure-runner", .sides = BIT(SIDE_RUNNER), .front = SIDE_RUNNER, .has_port = true },
    { .word = "npm", .sides = BIT(SIDE_NPM), .front = SIDE_NPM, .has_port = true },
    { .word = "full",
      .sides = BIT(SIDE_LB) | BIT(SIDE_RUNNER) | BIT(SIDE_API),
      .front = SIDE_LB,
      .inside = true },
    { .word = "api", .sides = BIT(SIDE_API), .front = SIDE_API },
};
#define TYPES_N (sizeof(types) / sizeof(types[0]))

const struct config_type *config_type_of(const char *word)
{
    for (size_t i = 0; i < TYPES_N; i++) {
        if (strcmp(types[i].word, word) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

/* "lb or full" */
void config_print_types(uint32_t some, struct buf *out)
{
    const char *last = NULL;
    size_t begin = out->len;

    for (size_t i = 0; i < TYPES_N; i++) {
        if (types[i].sides & some) {
            if (last) {
                buf_printf(out, "%s%s", out->len > begin ? ", " : "", last);
            }
            last = types[i].word;
        }
    }
    if (last) {
        buf_printf(out, "%s%s", out->len > begin ? " or " : "", last);
    }
}

bool config_section_applies(const struct config *c, int section)
{
    uint32_t of = config_sections[section].sides;

    return section == SECTION_GRPC ? !c->type->inside : of == 0 || (of & c->type->sides) != 0;
}
