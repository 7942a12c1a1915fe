/* The names of a peer's certificate. The first byte says what the rest is:
 *
 *   d   a certificate, DER
 *   n   lines that make one: a letter for the kind, then the name, in which a tilde is a NUL
 *
 * Kinds: U a URI, D a DNS name, C the common name, B one of wide characters, M mail.
 *
 * A peer is allowed if and only if one of its names is, each as a whole; the name that it is told
 * by is the first one, or none, and never a part of one. */
#include "fuzz.h"

#include <net/net_int.h>
#include <openssl/x509v3.h>

#define NAMES_MAX 16u
#define CAP_BYTES 32u /* of the name that is told: long ones do not fit */

static const char *const patterns[] = { "spiffe://fnd/lb/*", "*.runner.example", "one" };
#define PATTERNS_N (sizeof(patterns) / sizeof(patterns[0]))

struct name {
    char kind;
    unsigned char text[300];
    size_t len;
};

static struct net_identity identity = { .peers = (char **)patterns, .n_peers = PATTERNS_N };

/* ---- a certificate of names ------------------------------------------------------------------ */

static void add_alternative(GENERAL_NAMES *names, const struct name *n)
{
    int type = n->kind == 'U' ? GEN_URI : n->kind == 'D' ? GEN_DNS : GEN_EMAIL;
    GENERAL_NAME *g = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();

    fuzz_expect(g && text && ASN1_STRING_set(text, n->text, (int)n->len), "no memory");
    GENERAL_NAME_set0_value(g, type, text);
    fuzz_expect(sk_GENERAL_NAME_push(names, g) > 0, "no memory");
}

static X509 *make_certificate(const struct name *names, uint32_t n)
{
    GENERAL_NAMES *alternatives = GENERAL_NAMES_new();
    X509 *cert = X509_new();

    fuzz_expect(cert && alternatives, "no memory");
    for (uint32_t i = 0; i < n; i++) {
        if (names[i].kind == 'C' || names[i].kind == 'B') {
            fuzz_expect(X509_NAME_add_entry_by_NID(X509_get_subject_name(cert), NID_commonName,
                                                   names[i].kind == 'C' ? V_ASN1_UTF8STRING
                                                                        : V_ASN1_BMPSTRING,
                                                   names[i].text, (int)names[i].len, -1, 0),
                        "no memory");
        } else {
            add_alternative(alternatives, &names[i]);
        }
    }
    fuzz_expect(X509_add1_ext_i2d(cert, NID_subject_alt_name, alternatives, 0, 0) == 1,
                "no memory");
    GENERAL_NAMES_free(alternatives);
    return cert;
}

/* A common name of no byte is none to OpenSSL. */
static uint32_t read_names(struct fuzz_in in, struct name names[NAMES_MAX])
{
    uint32_t n = 0;
    bool has_common = false, common;

    while (in.len > 0 && n < NAMES_MAX) {
        struct fuzz_in line = fuzz_line(&in);
        struct name *name = &names[n];

        name->kind = fuzz_mode(&line, "UDCMB");
        name->len = line.len < sizeof(name->text) ? line.len : sizeof(name->text);
        common = name->kind == 'C' || name->kind == 'B';
        name->len -= name->kind == 'B' ? name->len % 2 : 0; /* two bytes a character */
        if (common && (has_common || name->len == 0)) {
            continue;
        }
        has_common = has_common || common;
        for (size_t i = 0; i < name->len; i++) {
            name->text[i] = line.at[i] == '~' ? 0 : (unsigned char)line.at[i];
        }
        n++;
    }
    return n;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static bool is_whole(const struct name *n, size_t cap)
{
    return n->len > 0 && n->len < cap && !memchr(n->text, 0, n->len);
}

/* The patterns have one star each, or none. */
static bool is_allowed(const struct name *n)
{
    for (size_t i = 0; i < PATTERNS_N && is_whole(n, NET_NAME_BYTES); i++) {
        const char *star = strchr(patterns[i], '*');
        size_t head = star ? (size_t)(star - patterns[i]) : strlen(patterns[i]);
        size_t tail = star ? strlen(star + 1) : 0;

        if (n->len >= head + tail && (star || n->len == head) &&
            memcmp(n->text, patterns[i], head) == 0 &&
            memcmp(n->text + n->len - tail, star ? star + 1 : "", tail) == 0 &&
            !memchr(n->text + head, '/', n->len - head - tail)) {
            return true;
        }
    }
    return false;
}

static const struct name *first_of(const struct name *names, uint32_t n, char kind, size_t cap)
{
    for (uint32_t i = 0; i < n; i++) {
        if (names[i].kind == kind && (cap == 0 || is_whole(&names[i], cap))) {
            return &names[i];
        }
    }
    return NULL;
}

static void expect_name(const char *told, const struct name *n)
{
    size_t len = n && is_whole(n, CAP_BYTES) ? n->len : 0;

    fuzz_expect(strlen(told) == len && memcmp(told, n ? n->text : (unsigned char *)"", len) == 0,
                "\"%s\" is told, not %.*s", told, (int)len, n ? (const char *)n->text : "");
}

static void expect_names(X509 *cert, const struct name *names, uint32_t n)
{
    const struct name *uri = first_of(names, n, 'U', 0), *common = first_of(names, n, 'C', 0);
    const struct name *first = NULL;
    char told[CAP_BYTES];
    bool allowed = false;

    for (uint32_t i = 0; i < n; i++) {
        allowed =
            allowed || (names[i].kind != 'M' && names[i].kind != 'B' && is_allowed(&names[i]));
    }
    for (const char *kind = "UDC"; *kind && !first; kind++) {
        first = first_of(names, n, *kind, CAP_BYTES);
    }
    fuzz_expect(identity_names_peer(&identity, cert, told, sizeof(told)) == allowed,
                "allowed should be %d", allowed);
    expect_name(told, first);
    cert_name(cert, told, sizeof(told));
    expect_name(told, uri ? uri : common);
}

static void read_der(struct fuzz_in in)
{
    const unsigned char *at = (const unsigned char *)in.at;
    X509 *cert = in.len > 0 ? d2i_X509(NULL, &at, (long)in.len) : NULL;
    char told[CAP_BYTES];

    if (cert) {
        identity_names_peer(&identity, cert, told, sizeof(told));
        fuzz_expect(strnlen(told, sizeof(told)) < sizeof(told), "no end of a name");
        cert_name(cert, told, sizeof(told));
        fuzz_expect(strnlen(told, sizeof(told)) < sizeof(told), "no end of a name");
    }
    X509_free(cert);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    struct name names[NAMES_MAX];
    uint32_t n;
    X509 *cert;

    if (fuzz_mode(&in, "nd") == 'd') {
        read_der(in);
        return 0;
    }
    n = read_names(in, names);
    cert = make_certificate(names, n);
    expect_names(cert, names, n);
    X509_free(cert);
    return 0;
}
