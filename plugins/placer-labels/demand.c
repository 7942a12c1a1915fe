/* Reads the annotation without a JSON library, which costs more than a decision, and finds the
 * place of the demand by its hash. */
#include "demand.h"

#include "hash.h"
#include "labelled.h"

/* ---- annotations ----------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* The text at `at`, of which a label's would need no escapes, and what is behind it; NULL: none. */
static const char *take_text(const char *at, const char **ret, size_t *ret_len)
{
    if (*at != '"') {
        return NULL;
    }
    *ret = at + 1;
    *ret_len = strcspn(at + 1, "\"\\");
    at += 1 + *ret_len;
    return *at == '"' ? skip_blanks(at + 1) : NULL;
}

/* A key or a value. */
static int put(char **to, const char *end, const char *text, size_t len, char behind)
{
    if (fn_label_word(text) != len || (size_t)(end - *to) < len + 1) {
        return FN_E_INVALID;
    }
    memcpy(*to, text, len);
    (*to)[len] = behind;
    *to += len + 1;
    return 0;
}

/* "key": "value", behind what is there. What comes behind it; NULL: no pair, or no room. */
static const char *take_pair(const char *at, char **to, const char *end)
{
    const char *key, *value;
    size_t key_len, value_len;

    at = take_text(at, &key, &key_len);
    at = at && *at == ':' ? take_text(skip_blanks(at + 1), &value, &value_len) : NULL;
    return at && put(to, end, key, key_len, '=') == 0 && put(to, end, value, value_len, ',') == 0
               ? at
               : NULL;
}

/* {"key": "value", ...} becomes "key=value,...". */
static const char *take_object(const char *at, char ret[DEMAND_TEXT_BYTES])
{
    const char *end = ret + DEMAND_TEXT_BYTES;
    char *to = ret;

    at = skip_blanks(at + 1);
    while (*at != '}') {
        at = take_pair(at, &to, end);
        if (!at || (*at != ',' && *at != '}')) {
            return NULL;
        }
        if (*at == ',') {
            at = skip_blanks(at + 1);
            if (*at == '}') {
                return NULL;
            }
        }
    }
    *(to > ret ? to - 1 : to) = '\0';
    return skip_blanks(at + 1);
}

int demand_read(const char *json, char ret[DEMAND_TEXT_BYTES])
{
    char words[DEMAND_TEXT_BYTES];
    const char *text;
    size_t len;

    ret[0] = '\0';
    json = skip_blanks(json);
    if (*json == '{') {
        json = take_object(json, ret);
    } else {
        json = take_text(json, &text, &len);
        if (!json || len >= sizeof(words)) {
            return FN_E_INVALID;
        }
        memcpy(words, text, len);
        words[len] = '\0';
        (void)labels_of_words(words, ret);
    }
    return json && *json == '\0' && !fn_labels_fault(ret) ? 0 : FN_E_INVALID;
}

/* ---- places ---------------------------------------------------------------------------------- */

void demands_use(struct demands *d, uint32_t place, int64_t now_ns)
{
    d->list[place].used = ++d->turns;
    d->list[place].used_ns = now_ns;
}

uint32_t demands_take(struct demands *d, const char *text, int64_t now_ns)
{
    uint32_t hash = (uint32_t)text_hash(text);
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < DEMANDS_MAX; i++) {
        const struct demand *x = &d->list[i];

        if (x->generation != 0 && x->hash == hash && strcmp(x->text, text) == 0) {
            demands_use(d, i, now_ns);
            return i;
        }
        oldest = x->used < d->list[oldest].used ? i : oldest;
    }
    d->generations += d->generations == UINT32_MAX ? 2 : 1;
    d->list[oldest].generation = d->generations;
    d->list[oldest].hash = hash;
    memcpy(d->list[oldest].text, text, strlen(text) + 1);
    demands_use(d, oldest, now_ns);
    return oldest;
}
