/* What `fnd why` and the operator's page ask of the calls that ended, and what strangers wrote into
 * those calls: errors of functions, words of runners, notes of placers. A line for each step,
 * its first letter says which:
 *
 *   b ID    a call begins, which is the one that the next lines speak of
 *   e TEXT  its error         n TEXT  the placer's note         t TEXT  a runner that refused it
 *   .       it ends           r N     the ring has another size, 0 to 9
 *   ? ID    a question        x       one for the id that ended last, but for its first letter
 *
 * A call is found as long as it is among the last that ended, and only then; whatever it says is
 * printed as JSON that another reader takes. */
#include "fuzz.h"

#include <jansson.h>
#include <lb/why.h>

#define RING      4u
#define CALLS_MAX 256u

/* The ids of the calls that ended, in order: the ring is their last ones. */
struct model {
    char ids[CALLS_MAX][CALL_ID_LEN + 1];
    uint32_t n, kept, cap;
};

static struct why *why;
static struct why_entry *now;

static void put_text(char *to, size_t cap, struct fuzz_in text)
{
    char *copy = fuzz_text(text.at, text.len);

    trace_copy(to, cap, copy);
    free(copy);
}

/* Ids are the node's own: letters and digits. */
static void put_id(char to[CALL_ID_LEN + 1], struct fuzz_in text)
{
    put_text(to, CALL_ID_LEN + 1, text);
    for (char *at = to; *at; at++) {
        *at = (char)('0' + (unsigned char)*at % 10);
    }
}

/* As a plugin gives it: raw bytes, perhaps without an end. */
static void put_note(char to[FN_NOTE_MAX], struct fuzz_in text)
{
    memset(to, 0, FN_NOTE_MAX);
    memcpy(to, text.at, text.len < FN_NOTE_MAX ? text.len : FN_NOTE_MAX);
}

static void put_try(struct trace *t, struct fuzz_in text)
{
    struct trace_try *at = &t->tries[t->tries_n < TRACE_TRIES ? t->tries_n : TRACE_TRIES - 1];

    *at = (struct trace_try){ .how = (uint8_t)fuzz_byte(&text), .begun_ns = 1, .ended_ns = 2 };
    put_text(at->address, sizeof(at->address), text);
    put_text(at->text, sizeof(at->text), text);
    put_note(at->note, text);
    t->tries_n++;
}

static void ends(struct model *m)
{
    if (!now) {
        return;
    }
    now->ended = true;
    now->ended_ns = 10;
    if (m->n < CALLS_MAX && m->cap > 0) {
        memcpy(m->ids[m->n++], now->id, sizeof(now->id));
        m->kept += m->kept < m->cap;
    }
    why_end(why, now);
    now = NULL;
}

static void begins(struct model *m, struct fuzz_in text)
{
    ends(m);
    now = m->n < CALLS_MAX ? why_begin(why) : NULL;
    fuzz_expect(now || m->cap == 0 || m->n == CALLS_MAX, "no entry");
    if (now) {
        put_id(now->id, text);
    }
}

static void resizes(struct model *m, struct fuzz_in text)
{
    ends(m);
    m->cap = fuzz_byte(&text) % 10;
    fuzz_expect(why_resize(why, m->cap) == 0, "not resized");
    m->kept = m->kept < m->cap ? m->kept : m->cap;
}

static void expect_json(const struct why_entry *e)
{
    struct buf out = BUF_INIT(0);
    json_t *read;

    fuzz_expect(why_print(e, 20, &out) == 0, "not printed");
    read = json_loads(buf_text(&out), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    fuzz_expect(json_is_object(read), "no JSON: %s", buf_text(&out));
    json_decref(read);
    buf_finish(&out);
}

static void asks(const struct model *m, const char *id)
{
    const struct why_entry *found = why_find(why, id);
    struct fn_error e = ERR_INIT;
    bool is_there = false;

    for (uint32_t i = m->n - m->kept; i < m->n; i++) {
        is_there = is_there || strcmp(m->ids[i], id) == 0;
    }
    fuzz_expect((found != NULL) == is_there, "%s: %s", id, found ? "found" : "not found");
    if (found) {
        fuzz_expect(strcmp(found->id, id) == 0, "%s for %s", found->id, id);
        expect_json(found);
    } else {
        fuzz_expect(why_unknown(why, id, 20, &e) == FN_E_NOT_FOUND && e.msg[0], "no sentence");
    }
}

static void asks_text(const struct model *m, struct fuzz_in text)
{
    char *id = fuzz_text(text.at, text.len);

    asks(m, id);
    free(id);
}

static void asks_alike(const struct model *m)
{
    char id[CALL_ID_LEN + 1] = "";

    memcpy(id, m->n ? m->ids[m->n - 1] : id, sizeof(id));
    id[0] = id[0] ? 'x' : '\0';
    asks(m, id);
}

static void step(struct model *m, struct fuzz_in line)
{
    switch (fuzz_byte(&line)) {
    case 'b':
        begins(m, line);
        break;
    case 'e':
        now ? put_text(now->error, sizeof(now->error), line) : (void)0;
        break;
    case 'n':
        now ? put_note(now->trace.note, line) : (void)0;
        break;
    case 't':
        now ? put_try(&now->trace, line) : (void)0;
        break;
    case '.':
        ends(m);
        break;
    case 'r':
        resizes(m, line);
        break;
    case 'x':
        asks_alike(m);
        break;
    default:
        asks_text(m, line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct model m;
    struct fuzz_in in = fuzz_begin(data, len);
    uint32_t kept;

    m = (struct model){ .cap = RING };
    fuzz_expect(why_create(RING, &why) == 0, "no memory");
    while (in.len > 0) {
        step(&m, fuzz_line(&in));
    }
    ends(&m);
    for (kept = 0; why_at(why, kept); kept++) {
        expect_json(why_at(why, kept));
    }
    fuzz_expect(kept == m.kept, "%u of %u calls", kept, m.kept);
    why_destroy(why);
    return 0;
}
