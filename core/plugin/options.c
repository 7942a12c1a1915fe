/* Checks option tables, so that binding fn.yaml to them cannot write outside of the conf struct and
 * every default is known to be good before anybody uses it. */
#include <plugin/plugin_int.h>

#include <conf/table.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPT_KEY_MAX 64

/* fmt: of what is behind the option's name. */
__attribute__((format(printf, 5, 6))) static void
option_problem(struct plugin_check *c, int code, const char *who, const struct fn_opt *o,
               const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    plugin_problem(c, code, "PLG910", "%s: option %s: %s", who, o->key, text);
}

static uint32_t type_size(uint32_t type)
{
    switch (type) {
    case FN_OPT_STR:
    case FN_OPT_CHOICE:
        return sizeof(const char *);
    case FN_OPT_INT:
    case FN_OPT_DURATION:
    case FN_OPT_BYTES:
        return sizeof(int64_t);
    case FN_OPT_BOOL:
        return sizeof(uint32_t);
    case FN_OPT_STRLIST:
        return sizeof(struct fn_strlist);
    default:
        return 0;
    }
}

static bool key_ok(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return n > 0 && n <= OPT_KEY_MAX && s[n] == '\0' && s[0] >= 'a' && s[0] <= 'z';
}

/* What fn.yaml says about the plugin itself: an option of that name could never be set. */
static bool is_taken(const char *key)
{
    return strcmp(key, "use") == 0 || strcmp(key, "file") == 0 || strcmp(key, "name") == 0 ||
           strcmp(key, "sha256") == 0;
}

/* Why the default is no good, or NULL. */
static const char *default_fault(const struct fn_opt *o)
{
    static const char *const rules[] = { [FN_OPT_INT] = "a whole number",
                                         [FN_OPT_DURATION] = "a duration like 10ms",
                                         [FN_OPT_BYTES] = "a size like 64KiB",
                                         [FN_OPT_BOOL] = "true or false" };
    int64_t n;
    int r;

    if (o->type == FN_OPT_CHOICE) {
        return opt_is_choice(o, o->dflt) ? NULL : "one of its choices";
    }
    r = o->type == FN_OPT_STRLIST ? 0 : opt_number(o, o->dflt, &n);
    return r == FN_E_RANGE ? "a value within its bounds" : r < 0 ? rules[o->type] : NULL;
}

static bool check_texts(struct plugin_check *c, const char *who, uint32_t i,
                        const struct fn_opt *o)
{
    char shown[96];

    if (!plugin_mem_text(c->mem, o->key) || !key_ok(o->key)) {
        plugin_problem(c, FN_E_INVALID, "PLG910",
                       "%s: option %u: key, got %s; expected 1 to %d of a-z, 0-9, _ and -%s", who,
                       i,
                       plugin_mem_text(c->mem, o->key)
                           ? plugin_quote(o->key, strlen(o->key), shown, sizeof(shown))
                           : "no text",
                       OPT_KEY_MAX,
                       plugin_mem_text(c->mem, o->key) ? "" : ", or NULL as the end of the list");
        return false;
    }
    if (is_taken(o->key)) {
        plugin_problem(c, FN_E_INVALID, "PLG910",
                       "%s: option %u: key, got %s; expected another one: use, file, name and "
                       "sha256 are fn.yaml's own",
                       who, i, o->key);
        return false;
    }
    if (!o->doc || !plugin_mem_text(c->mem, o->doc) || !o->doc[0]) {
        option_problem(c, FN_E_INVALID, who, o, "doc; expected one sentence");
        return false;
    }
    if ((o->dflt && !plugin_mem_text(c->mem, o->dflt)) ||
        (o->choices && !plugin_mem_text(c->mem, o->choices))) {
        option_problem(c, FN_E_INVALID, who, o, "default or choices is not a terminated text");
        return false;
    }
    return true;
}

static void check_option(struct plugin_check *c, const char *who, const struct fn_factory *f,
                         const struct fn_opt *o)
{
    uint32_t size = type_size(o->type);
    char shown[96];
    const char *fault;

    if (size == 0) {
        option_problem(c, FN_E_UNIMPLEMENTED, who, o, "type, got %u; expected 1 to %u", o->type,
                       FN_OPT_CHOICE);
        return;
    }
    if (o->offset > f->conf_size || size > f->conf_size - o->offset) {
        option_problem(c, FN_E_INVALID, who, o,
                       "%u bytes at offset %u; expected an end within conf_size %u", size,
                       o->offset, f->conf_size);
    } else if (o->offset % (size == 4 ? 4 : 8) != 0) {
        option_problem(c, FN_E_INVALID, who, o, "offset, got %u; expected a multiple of %u",
                       o->offset, size == 4 ? 4u : 8u);
    }
    if (o->flags & ~(FN_OPT_MAY_BE_ABSENT | FN_OPT_MAY_BE_SECRET)) {
        option_problem(c, FN_E_UNIMPLEMENTED, who, o, "flags, got 0x%x; expected known ones",
                       o->flags);
    }
    if (o->reserved0 != 0) {
        option_problem(c, FN_E_UNIMPLEMENTED, who, o, "reserved0, got 0x%x; expected 0",
                       o->reserved0);
    }
    if (o->min > o->max) {
        option_problem(c, FN_E_INVALID, who, o, "min %lld is above max %lld",
                       (long long)o->min, (long long)o->max);
        return;
    }
    if (o->type == FN_OPT_CHOICE && (!o->choices || !o->choices[0])) {
        option_problem(c, FN_E_INVALID, who, o, "choices; expected words");
        return;
    }
    fault = o->dflt ? default_fault(o) : NULL;
    if (fault) {
        option_problem(c, FN_E_INVALID, who, o, "default, got %s; expected %s",
                       plugin_quote(o->dflt, strlen(o->dflt), shown, sizeof(shown)), fault);
    }
}

/* Same key, or two options in the same bytes. */
static void check_against(struct plugin_check *c, const char *who, const struct fn_opt *o,
                          const struct fn_opt *other)
{
    uint64_t end = (uint64_t)o->offset + type_size(o->type);
    uint64_t other_end = (uint64_t)other->offset + type_size(other->type);

    if (strcmp(o->key, other->key) == 0) {
        option_problem(c, FN_E_INVALID, who, o, "listed twice");
    } else if (o->offset < other_end && other->offset < end) {
        option_problem(c, FN_E_INVALID, who, o, "shares bytes of its conf struct with option %s",
                       other->key);
    }
}

void plugin_opts_check(struct plugin_check *c, const char *who, const struct fn_factory *f)
{
    const struct fn_opt *opts = f->opts;
    uint32_t i;
    uint32_t j;

    if (f->conf_size > PLUGIN_CONF_MAX) {
        plugin_problem(c, FN_E_INVALID, "PLG910", "%s: conf_size, got %u; expected at most %d",
                       who, f->conf_size, PLUGIN_CONF_MAX);
    }
    if (!opts) {
        return;
    }
    for (i = 0;; i++) {
        if (i == PLUGIN_OPTS_MAX || !plugin_mem_table(c->mem, &opts[i], sizeof(opts->key), 8)) {
            plugin_problem(c, FN_E_INVALID, "PLG910",
                           "%s: opts, got %u options without an end in the plugin's data; "
                           "expected an entry without a key as the end, behind at most %d",
                           who, i, PLUGIN_OPTS_MAX - 1);
            return;
        }
        if (!opts[i].key) {
            return;
        }
        if (!plugin_mem_table(c->mem, &opts[i], sizeof(opts[i]), 8) ||
            !check_texts(c, who, i, &opts[i])) {
            return;
        }
        check_option(c, who, f, &opts[i]);
        for (j = 0; j < i; j++) {
            check_against(c, who, &opts[i], &opts[j]);
        }
    }
}
