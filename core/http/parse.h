/* Parse: heads of HTTP/1.1 requests and answers under strict rules, and the chunked coding.
 *
 * A head is scanned line by line, by rules that know what each refusal is called. http-parser is
 * the oracle of the tests (tests/unit/http/test_oracle.c): what is taken here it takes, too, with
 * the same framing. No I/O, no clock; the outcome depends on the bytes alone, not on how they were
 * split. Private to core/http, and to tools/broker, which compiles it in. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include <base/headers.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARSE_METHOD_MAX 32

/* Why input is refused: the status to answer with and one sentence. */
struct refusal {
    int status;
    char text[160];
};

/* FN_E_INVALID */
int refuse(struct refusal *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct parse_limits {
    size_t head_bytes_max; /* whole head */
    size_t line_bytes_max; /* first line */
    uint32_t fields_max;
};

/* Progress of looking for the end of a head; zeroed at its start. */
struct parse_seek {
    size_t from; /* bytes already looked at */
    bool line_seen; /* the first line is complete */
};

/* Length of the head that starts at data, its empty line included; 0 = more bytes are needed; < 0 =
 * refused. A head that is certain to be bad may be returned short, up to its first bad line end:
 * parse_request() and parse_answer() name the mistake. */
int64_t parse_seek_end(struct parse_seek *seek, const char *data, size_t len,
                       const struct parse_limits *limits, struct refusal *r);

/* What the framing fields say. */
struct parse_framing {
    bool chunked;
    bool has_length;
    uint64_t length;
    bool keep_alive;
};

struct parsed_request {
    const char *method;
    const char *target;
    const char *path;
    const char *query; /* or NULL */
    const char *host;  /* "" when absent */
    struct headers headers;
    struct parse_framing framing;
    bool http10;
    bool expects_continue;
};

struct parsed_answer {
    int status;
    struct headers headers;
    struct parse_framing framing;
    bool http10;
};

/* Parses the head of len bytes at data. Everything in *ret lives in arena: headers as sent, names
 * in canonical form. 0, or FN_E_INVALID with *r, or FN_E_EXHAUSTED when out of memory. */
int parse_request(struct arena *arena, const char *data, size_t len,
                  const struct parse_limits *limits, struct parsed_request *ret,
                  struct refusal *r);
int parse_answer(struct arena *arena, const char *data, size_t len,
                 const struct parse_limits *limits, struct parsed_answer *ret, struct refusal *r);

bool parse_is_token(const char *s, size_t len);
bool parse_is_token_char(char c);
/* No control byte but tab. */
bool parse_is_value(const char *s, size_t len);

/* Decoder of the chunked coding; zeroed at the start of a body. */
struct chunked {
    int state;
    uint64_t left;       /* of the chunk, then of its size while it is read */
    uint32_t digits;
    uint32_t line_bytes; /* of the running extension */
    uint64_t overhead;   /* bytes that are not data, less what is usual */
    uint64_t trailer_bytes;
    bool in_name;        /* of a trailer line */
    uint64_t at;         /* bytes of the body consumed; of the bad byte after an error */
};

/* The line before a chunk of len bytes; its length. */
#define CHUNK_LINE_BYTES 18 /* 16 digits, CRLF */
size_t chunked_line(char ret[CHUNK_LINE_BYTES], size_t len);

enum chunked_outcome { CHUNKED_INVALID = -1, CHUNKED_MORE, CHUNKED_DATA, CHUNKED_END };

/* Consumes from *p up to end. CHUNKED_DATA: the bytes at *ret_data are body; call again. MORE: all
 * consumed. END: *p is behind the body. */
enum chunked_outcome chunked_step(struct chunked *c, const char **p, const char *end,
                                  const char **ret_data, size_t *ret_len);

#endif
