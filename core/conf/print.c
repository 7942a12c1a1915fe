/* Print: effective values as YAML that can be loaded again, option tables as documentation. */
#include <conf/conf_int.h>

#include <inttypes.h>
#include <string.h>

static int print_scaled(struct buf *out, int64_t n, const struct conf_unit *units)
{
    while (n % units->factor != 0) {
        units++;
    }
    return buf_printf(out, "%" PRId64 "%s", n / units->factor, units->name);
}

static int print_duration(struct buf *out, int64_t ns)
{
    if (ns < 0) {
        return buf_add_str(out, "never");
    }
    return ns == 0 ? buf_add_str(out, "0s") : print_scaled(out, ns, conf_time_units);
}

static int print_bytes(struct buf *out, int64_t n)
{
    return n == 0 ? buf_add_str(out, "0") : print_scaled(out, n, conf_byte_units);
}

static int print_number(struct buf *out, uint32_t type, int64_t n)
{
    switch (type) {
    case FN_OPT_DURATION:
        return print_duration(out, n);
    case FN_OPT_BYTES:
        return print_bytes(out, n);
    default:
        return buf_printf(out, "%" PRId64, n);
    }
}

/* In double quotes unless it is a plain word for every reader of YAML. */
static int print_text(struct buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./";
    bool letter = (text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z';

    if ((letter || text[0] == '/') && text[strspn(text, plain)] == '\0' &&
        strcmp(text, "true") != 0 && strcmp(text, "false") != 0 && strcmp(text, "null") != 0) {
        return buf_add_str(out, text);
    }
    buf_add_str(out, "\"");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;

        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            buf_printf(out, "\\x%02x", c);
        } else {
            buf_add(out, p, 1);
        }
    }
    return buf_add_str(out, "\"");
}

static int print_list(struct buf *out, const struct fn_strlist *list)
{
    buf_add_str(out, "[");
    for (uint64_t i = 0; i < list->n; i++) {
        buf_add_str(out, i ? ", " : "");
        print_text(out, list->items[i]);
    }
    return buf_add_str(out, "]");
}

static bool is_secret(const struct conf_values *v, uint32_t i)
{
    bool given = v->source[i] && strcmp(v->source[i], "default") != 0;

    return given && (v->opts[i].flags & FN_OPT_MAY_BE_SECRET);
}

int conf_print_option(const struct conf_values *v, uint32_t i, struct buf *out)
{
    const struct fn_opt *o = &v->opts[i];
    const void *field = conf_field(v, o);
    struct fn_strlist list;
    const char *text;

    if (is_secret(v, i)) {
        return buf_add_str(out, "\"***\"");
    }
    switch (o->type) {
    case FN_OPT_STRLIST:
        memcpy(&list, field, sizeof(list));
        return print_list(out, &list);
    case FN_OPT_STR:
    case FN_OPT_CHOICE:
        memcpy(&text, field, sizeof(text));
        return print_text(out, text ? text : "");
    case FN_OPT_BOOL:
        return buf_add_str(out, conf_number(o, field) ? "true" : "false");
    default:
        return print_number(out, o->type, conf_number(o, field));
    }
}

int conf_print(const struct conf_values *v, int indent, struct buf *out)
{
    int r = 0;

    for (uint32_t i = 0; i < v->n_opts && r == 0; i++) {
        const struct fn_opt *o = &v->opts[i];

        if (!v->source[i]) {
            r = buf_printf(out, "%*s# %s is not set\n", indent, "", o->key);
            continue;
        }
        buf_printf(out, "%*s%s: ", indent, "", o->key);
        conf_print_option(v, i, out);
        r = buf_printf(out, "  # %s\n", v->source[i]);
    }
    return r;
}

static int print_choices(struct buf *out, const char *choices)
{
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");

        if (at != choices) {
            buf_add_str(out, at[n] ? ", " : " or ");
        }
        buf_add(out, at, n);
        at += n + (at[n] == '|');
    }
    return 0;
}

static int print_bounds(struct buf *out, const struct fn_opt *o)
{
    int64_t min = o->min < 0 ? 0 : o->min;

    if (o->min == 0 && o->max == 0) {
        return 0;
    }
    if (o->max == INT64_MAX) {
        buf_add_str(out, ", at least ");
        print_number(out, o->type, min);
    } else {
        buf_add_str(out, ", from ");
        print_number(out, o->type, min);
        buf_add_str(out, " to ");
        print_number(out, o->type, o->max);
    }
    return o->min < 0 ? buf_add_str(out, ", or never") : 0;
}

static int print_int_rule(struct buf *out, const struct fn_opt *o)
{
    bool unit = o->choices && o->choices[0];

    if (o->min == 0 && o->max == 0) {
        return unit ? buf_printf(out, "whole %s", o->choices) : buf_add_str(out, "a whole number");
    }
    buf_printf(out, "%s%s%s%" PRId64, unit ? "whole " : "", unit ? o->choices : "", unit ? " " : "",
               o->min);
    return o->max == INT64_MAX ? buf_add_str(out, " or more")
                               : buf_printf(out, "..%" PRId64, o->max);
}

int conf_print_rule(const struct fn_opt *o, struct buf *out)
{
    bool bounded = o->min != 0 || o->max != 0;

    switch (o->type) {
    case FN_OPT_INT:
        return print_int_rule(out, o);
    case FN_OPT_DURATION:
        buf_add_str(out, "a duration such as 10ms, 2s or 5m");
        return print_bounds(out, o);
    case FN_OPT_BYTES:
        buf_add_str(out, "a size such as 64KiB, 6MiB or 1GiB");
        return print_bounds(out, o);
    case FN_OPT_BOOL:
        return buf_add_str(out, "true or false");
    case FN_OPT_CHOICE:
        return print_choices(out, o->choices);
    case FN_OPT_STRLIST:
        buf_add_str(out, "a list of ");
        if (bounded) {
            buf_printf(out, "%" PRId64 " to %" PRId64 " ", o->min, o->max);
        }
        return buf_add_str(out, "texts such as [a, b]");
    default:
        return bounded
                   ? buf_printf(out, "a text of %" PRId64 " to %" PRId64 " bytes", o->min, o->max)
                   : buf_add_str(out, "a text");
    }
}

/* What stands in the column of the default. */
static int print_default(struct buf *out, const struct fn_opt *o)
{
    if (o->dflt) {
        return buf_printf(out, o->dflt[0] ? "`%s`" : "empty", o->dflt);
    }
    return buf_add_str(out, o->flags & FN_OPT_MAY_BE_ABSENT ? "–" : "required");
}

/* A bar would end the cell of the table. */
static int print_cell(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') {
            buf_add_str(out, "\\");
        }
        buf_add(out, text, 1);
    }
    return 0;
}

int conf_print_reference(const struct fn_opt *opts,
                         const char *(*variable)(void *ud, const char *key), void *ud,
                         struct buf *out)
{
    buf_printf(out, "| key | default | value | %smeaning |\n|---|---|---|%s---|\n",
               variable ? "variable | " : "", variable ? "---|" : "");
    for (const struct fn_opt *o = opts; o && o->key; o++) {
        const char *name = variable ? variable(ud, o->key) : NULL;

        buf_printf(out, "| `%s` | ", o->key);
        print_default(out, o);
        buf_add_str(out, " | ");
        conf_print_rule(o, out);
        if (variable) {
            buf_printf(out, name ? " | `%s`" : " | %s", name ? name : "");
        }
        buf_add_str(out, " | ");
        print_cell(out, o->doc);
        if (o->flags & FN_OPT_MAY_BE_SECRET) {
            buf_add_str(out, " Never printed.");
        }
        buf_add_str(out, " |\n");
    }
    return 0;
}
