/* What stands in Accept is a stranger's: whatever is malformed is not in it. */
#include <web/accept.h>

#include <string.h>
#include <strings.h>

#define Q_ONE 1000u /* thousandths, as precise as the header can be */

/* A part of the header, not ended by NUL. */
struct part {
    const char *at;
    size_t len;
};

/* A format under its type, and the version of it that is meant. */
struct offer {
    const char *type;
    const char *version;
    unsigned q; /* the most that a range gives it */
    bool named; /* by its type, not by a wildcard */
};

static struct part trimmed(const char *at, size_t len)
{
    while (len > 0 && (*at == ' ' || *at == '\t')) {
        at++;
        len--;
    }
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
        len--;
    }
    return (struct part){ at, len };
}

/* Up to `stop`; *rest goes behind it. */
static struct part next_part(struct part *rest, char stop)
{
    const char *end = memchr(rest->at, stop, rest->len);
    size_t len = end ? (size_t)(end - rest->at) : rest->len;
    struct part ret = trimmed(rest->at, len);

    rest->at += end ? len + 1 : len;
    rest->len -= end ? len + 1 : len;
    return ret;
}

static bool part_is(struct part p, const char *word)
{
    return p.len == strlen(word) && strncasecmp(p.at, word, p.len) == 0;
}

/* "0.75" in thousandths; what is no weight is 0. */
static unsigned weight_of(struct part p)
{
    unsigned q = 0, unit = Q_ONE;

    for (size_t i = 0; i < p.len; i++) {
        if (i == 1 && p.at[i] == '.') {
            continue;
        }
        if (p.at[i] < '0' || p.at[i] > '9' || i > 4) {
            return 0;
        }
        q += (unsigned)(p.at[i] - '0') * unit;
        unit /= 10;
    }
    return q <= Q_ONE ? q : 0;
}

static bool is_wild(struct part type, const char *of)
{
    size_t group = strcspn(of, "/") + 1;

    return part_is(type, "*/*") || (type.len == group + 1 && type.at[group] == '*' &&
                                    strncasecmp(type.at, of, group) == 0);
}

/* One range: "application/openmetrics-text; version=1.0.0; q=0.5". */
static void take_range(struct part range, struct offer *o)
{
    struct part type = next_part(&range, ';');
    bool named = part_is(type, o->type);
    unsigned q = Q_ONE;

    if (!named && !is_wild(type, o->type)) {
        return;
    }
    while (range.len > 0) {
        struct part value = next_part(&range, ';');
        struct part key = next_part(&value, '=');

        value = trimmed(value.at, value.len);
        if (value.len > 2 && value.at[0] == '"' && value.at[value.len - 1] == '"') {
            value = (struct part){ value.at + 1, value.len - 2 };
        }
        if (part_is(key, "q")) {
            q = weight_of(value);
        } else if (part_is(key, "version") && !part_is(value, o->version)) {
            return;
        }
    }
    /* A range that names the type has the last word over a wildcard. */
    if (named && !o->named) {
        o->named = true;
        o->q = q;
    } else if (named == o->named && q > o->q) {
        o->q = q;
    }
}

enum metric_format accept_metrics(const struct headers *h)
{
    struct offer open = { .type = "application/openmetrics-text", .version = "1.0.0" };
    struct offer text = { .type = "text/plain", .version = "0.0.4" };

    for (uint32_t i = 0; i < h->n; i++) {
        struct part rest = { h->items[i].value, strlen(h->items[i].value) };

        while (strcasecmp(h->items[i].name, "Accept") == 0 && rest.len > 0) {
            struct part range = next_part(&rest, ',');

            take_range(range, &open);
            take_range(range, &text);
        }
    }
    return open.named && open.q > 0 && open.q >= text.q ? METRIC_OPENMETRICS : METRIC_TEXT;
}
