/* Heads of HTTP/1.1: requests ('q') and answers ('a'), the second byte says in which pieces they
 * come (fuzz_pieces()).
 *
 * What a head means must not depend on its pieces. Whatever is taken, http-parser takes, too, with
 * the same framing, but for what it is known to be wrong about (tests/unit/http/test_oracle.c); and
 * nothing is taken that two readers could understand as two messages. */
#include "fuzz.h"

#include <base/arena.h>
#include <http/parse.h>
#include <http_parser.h>
#include <strings.h>

static const struct parse_limits limits = { 16384, 4096, 50 };

/* The end of the head as it is found in pieces; < 0 refused, 0 not there. */
static int64_t seek(struct fuzz_pieces pieces, struct fuzz_in in, struct refusal *r)
{
    struct parse_seek seek = { 0 };
    int64_t end = 0;
    size_t have = 0;

    while (end == 0 && have < in.len) {
        char *copy;

        have += fuzz_piece(&pieces, in.len - have);
        copy = fuzz_copy(in.at, have);
        end = parse_seek_end(&seek, copy, have, &limits, r);
        free(copy);
    }
    return end;
}

/* See test_oracle.c for what http-parser gets wrong. */
static bool is_known(const struct headers *h, struct fuzz_in in)
{
    static const char word[] = "Transfer-Encoding";

    if (fuzz_is_beyond_oracle(in)) {
        return true;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        if (strlen(h->items[i].name) > strlen(word) &&
            strncasecmp(h->items[i].name, word, strlen(word)) == 0) {
            return true;
        }
    }
    return false;
}

static void expect_oracle(struct fuzz_in in, bool answer, const struct parse_framing *f, int status)
{
    static const http_parser_settings no_callbacks;
    http_parser p;
    size_t used;

    http_parser_init(&p, answer ? HTTP_RESPONSE : HTTP_REQUEST);
    used = http_parser_execute(&p, &no_callbacks, in.at, in.len);
    fuzz_expect(HTTP_PARSER_ERRNO(&p) == HPE_OK && used == in.len, "%s: %.*s",
                http_errno_description(HTTP_PARSER_ERRNO(&p)), (int)in.len, in.at);
    fuzz_expect(f->chunked == ((p.flags & F_CHUNKED) != 0), "%.*s", (int)in.len, in.at);
    fuzz_expect(f->has_length == ((p.flags & F_CONTENTLENGTH) != 0), "%.*s", (int)in.len, in.at);
    fuzz_expect(!f->has_length || f->length == p.content_length, "%.*s", (int)in.len, in.at);
    fuzz_expect((unsigned)status == p.status_code, "%.*s", (int)in.len, in.at);
}

static void expect_sound(const struct headers *h, const struct parse_framing *f)
{
    fuzz_expect(!(f->chunked && f->has_length), "two framings");
    fuzz_expect(h->n <= limits.fields_max, "%u fields", h->n);
    for (uint32_t i = 0; i < h->n; i++) {
        const char *name = h->items[i].name, *value = h->items[i].value;

        fuzz_expect(parse_is_token(name, strlen(name)), "\"%s\"", name);
        fuzz_expect(parse_is_value(value, strlen(value)), "\"%s\"", value);
    }
}

/* Texts that are taken have no byte that ends a line where they are used. */
static void expect_plain(const char *text)
{
    for (; *text; text++) {
        fuzz_expect((unsigned char)*text > ' ' && *text != 0x7f, "byte %u in a target", *text);
    }
}

static void read_request(struct arena *arena, struct fuzz_in in)
{
    struct parsed_request q = { 0 };
    struct refusal r = { 0 };

    if (parse_request(arena, in.at, in.len, &limits, &q, &r) < 0) {
        fuzz_expect(r.status >= 400 && r.status < 600 && r.text[0], "%d %s", r.status, r.text);
        return;
    }
    expect_sound(&q.headers, &q.framing);
    expect_plain(q.target);
    expect_plain(q.path);
    fuzz_expect(parse_is_token(q.method, strlen(q.method)), "%s", q.method);
    if (!is_known(&q.headers, in)) {
        expect_oracle(in, false, &q.framing, 0);
    }
}

static void read_answer(struct arena *arena, struct fuzz_in in)
{
    struct parsed_answer a = { 0 };
    struct refusal r = { 0 };

    if (parse_answer(arena, in.at, in.len, &limits, &a, &r) < 0) {
        fuzz_expect(r.text[0], "a refusal without a sentence");
        return;
    }
    expect_sound(&a.headers, &a.framing);
    fuzz_expect(a.status >= 100 && a.status < 600, "%d", a.status);
    if (!is_known(&a.headers, in)) {
        expect_oracle(in, true, &a.framing, a.status);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    bool answer = fuzz_mode(&in, "qa") == 'a';
    struct fuzz_pieces pieces = fuzz_pieces(&in);
    struct refusal whole = { 0 }, cut = { 0 };
    struct fuzz_pieces one = { .fixed = SIZE_MAX };
    struct arena arena;
    int64_t end = seek(one, in, &whole);
    int64_t again = seek(pieces, in, &cut);

    http_parser_set_max_header_size(UINT32_MAX);
    fuzz_expect((end < 0) == (again < 0) && whole.status == cut.status, "%lld in one piece, %lld",
                (long long)end, (long long)again);
    if (end > 0) {
        char *head = fuzz_copy(in.at, (size_t)end);

        fuzz_expect(again > 0, "%lld in one piece, %lld", (long long)end, (long long)again);
        in = (struct fuzz_in){ head, (size_t)end };
        arena_init(&arena, 0);
        if (answer) {
            read_answer(&arena, in);
        } else {
            read_request(&arena, in);
        }
        arena_finish(&arena);
        free(head);
    }
    return 0;
}
