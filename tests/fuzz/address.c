/* What people write for addresses and values. The first byte says what the rest is:
 *
 *   a   an address to listen at or to dial     n   a network
 *   p   escapes of a URL                       f   a proxy's header (its name, a line end, its value)
 *   v   a number, duration, size or word       i   an image's name
 *   u   a URL
 *
 * What is printed of an address or network is read as the same one, and a URL is cut where libcurl,
 * which connects, cuts it. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <base/addr.h>
#include <base/headers.h>
#include <base/percent.h>
#include <base/url.h>
#include <conf/conf.h>
#include <curl/curl.h>
#include <http/server_int.h>
#include <image.h>
#include <net/network.h>

#define MEMORY_MAX (1u << 20)

static void read_address(const char *text)
{
    char host[ADDR_HOST_MAX + 3], again_text[ADDR_HOST_MAX + ADDR_PORT_MAX + 5];
    struct addr a, again;

    if (addr_parse(text, &a) < 0) {
        return;
    }
    fuzz_expect(!a.path || a.path[0] == '/', "%s", text);
    addr_is_everywhere(&a);
    addr_is_local(&a);
    if (!a.path) {
        addr_print_host(&a, host);
        snprintf(again_text, sizeof(again_text), "%s:%s", host, a.port);
        fuzz_expect(addr_parse(again_text, &again) == 0, "%s of %s", again_text, text);
        fuzz_expect(strcmp(a.host, again.host) == 0 && strcmp(a.port, again.port) == 0, "%s of %s",
                    again_text, text);
    }
}

static void read_network(const char *text)
{
    char printed[INET6_ADDRSTRLEN];
    struct net_network n, one;

    if (net_network_parse(text, &n) == 0) {
        fuzz_expect(n.bits <= 128, "%u bits", n.bits);
        fuzz_expect(net_network_has(&n, &n.address), "%s is not in itself", text);
        net_address_print(&n.address, printed, sizeof(printed));
        fuzz_expect(net_network_parse(printed, &one) == 0 && one.bits == 128, "%s of %s", printed,
                    text);
        fuzz_expect(memcmp(&one.address, &n.address, sizeof(n.address)) == 0, "%s of %s", printed,
                    text);
    }
}

static void read_escapes(struct fuzz_in in)
{
    struct arena arena;

    arena_init(&arena, MEMORY_MAX);
    for (int plus = 0; plus < 2; plus++) {
        const char *out = percent_decode(&arena, in.at, in.len, plus);

        fuzz_expect(!out || strlen(out) <= in.len, "longer than it was");
    }
    arena_finish(&arena);
}

static void read_forwarded(const char *name, const char *value)
{
    struct net_network proxy;
    struct http_server s = { .proxies = &proxy, .proxies_n = 1 };
    struct net_address client;
    struct headers h;
    struct arena arena;

    fuzz_expect(net_network_parse("10.0.0.0/8", &proxy) == 0, "10.0.0.0/8");
    arena_init(&arena, MEMORY_MAX);
    headers_init(&h, &arena);
    client_header_set(&s, name);
    if (headers_add(&h, "X-Forwarded-For", value) == 0 && headers_add(&h, "Forwarded", value) == 0 &&
        client_behind(&s, &h, &client)) {
        fuzz_expect(!net_network_has(&proxy, &client), "a proxy of ours is the client: %s", value);
    }
    arena_finish(&arena);
}

static void read_value(const char *text)
{
    int64_t n;
    bool b;

    if (conf_parse_duration(text, &n) == 0) {
        fuzz_expect(n >= -1, "%s is %lld ns", text, (long long)n);
    }
    if (conf_parse_bytes(text, &n) == 0) {
        fuzz_expect(n >= 0, "%s is %lld bytes", text, (long long)n);
    }
    conf_parse_int(text, &n);
    conf_parse_bool(text, &b);
    conf_quote(text);
}

static void read_image(const char *text)
{
    struct fn_error e = ERR_INIT;
    struct image_name im;

    if (image_parse(text, &im, &e) == 0) {
        fuzz_expect(im.tag[0] && im.repository[0] && im.path[0], "%s", text);
        fuzz_expect(!strstr(im.repository, "..") && !strpbrk(im.repository, " \t\r\n%?#"), "%s",
                    text);
    } else {
        fuzz_expect(e.msg[0] && !strpbrk(e.msg, "\r\n"), "%s", e.msg);
    }
}

/* host:port of a URL as libcurl reads it, or NULL. */
static char *curl_server(const char *text)
{
    CURLU *u = curl_url();
    char *host = NULL, *port = NULL, *both = NULL;

    if (curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
        fuzz_expect(asprintf(&both, "%s:%s", host, port) > 0, "no memory");
    }
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return both;
}

static void read_url(const char *text)
{
    struct url u;
    char *whole, *cut, *server;

    if (!url_split(text, &u) || !url_is_http(&u) || u.host_len == 0) {
        return; /* nobody takes one without a host; libcurl would look behind the next slash */
    }
    fuzz_expect(asprintf(&cut, "%.*s%.*s/", (int)(u.begin - u.text), u.text, (int)u.host_len,
                         u.host) > 0,
                "no memory");
    whole = curl_server(text);
    server = curl_server(cut);
    fuzz_expect(!whole || (server && strcmp(server, whole) == 0), "%s is at %s, and %s of %s", text,
                whole, server ? server : "none", cut);
    free(server);
    free(whole);
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "anpfviu");
    struct fuzz_in first = { "", 0 };
    char *name, *text;

    if (mode == 'f') {
        first = fuzz_line(&in);
    }
    name = fuzz_text(first.at, first.len);
    text = fuzz_text(in.at, in.len);
    switch (mode) {
    case 'a': read_address(text); break;
    case 'n': read_network(text); break;
    case 'p': read_escapes(in); break;
    case 'f': read_forwarded(name, text); break;
    case 'v': read_value(text); break;
    case 'u': read_url(text); break;
    default: read_image(text); break;
    }
    free(text);
    free(name);
    return 0;
}
