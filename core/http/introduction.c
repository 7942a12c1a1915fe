/* How a proxy introduces a connection: the line or block of the PROXY protocol (haproxy.org,
 * proxy-protocol.txt, version 1 and 2) that stands before everything else, TLS included.
 *
 *   awaited    introduction_await(): nothing else knows the connection yet
 *   admitted   the whole of it came: the connection goes on as its client's, as if that had dialled
 *   dropped    it is no introduction, did not come in time, or the server closes
 *
 * Not one byte behind it is read, so that whoever reads next, TLS or HTTP, begins where it would
 * have begun. Only peers in http.proxies introduce anybody, and each of them must: a connection
 * that has none could come from a stranger who wants to be taken for the proxy. */
#include <http/server_int.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/bind.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define V1_BYTES_MAX 107u /* "PROXY TCP6 ... \r\n" at its longest */
#define V2_HEAD      16u
#define V2_BYTES_MAX 1024u /* with what proxies add about TLS */
#define AWAIT_NS     (10 * ENV_S) /* without a limit for headers */

#define V2_LOCAL   0x20u /* version and command, the halves of byte 12 */
#define V2_PROXY   0x21u
#define V2_INET    1u /* address families, the high half of byte 13 */
#define V2_INET6   2u

static const unsigned char v2_signature[12] = "\r\n\r\n\0\r\nQUIT\n";

struct introduction {
    struct http_server *s;
    TAILQ_ENTRY(introduction) link;
    struct loop_fd w;
    struct env_timer timer;
    struct sockaddr_storage from; /* the proxy, then its client if it names one */
    unsigned char data[V2_BYTES_MAX];
    size_t len;
};

/* ---- what they say -------------------------------------------------------------------------- */

static uint32_t be16(const unsigned char *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static void set_client(struct sockaddr_storage *to, int family, const void *address, uint32_t port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

    memset(to, 0, sizeof(*to));
    to->ss_family = (sa_family_t)family;
    if (family == AF_INET) {
        memcpy(&v4->sin_addr, address, sizeof(v4->sin_addr));
        v4->sin_port = htons((uint16_t)port);
    } else {
        memcpy(&v6->sin6_addr, address, sizeof(v6->sin6_addr));
        v6->sin6_port = htons((uint16_t)port);
    }
}

/* "PROXY TCP4 192.0.2.1 192.0.2.2 51234 443\r\n"; UNKNOWN: the proxy speaks for itself. */
static bool read_v1(const unsigned char *data, size_t len, struct sockaddr_storage *client)
{
    char line[V1_BYTES_MAX + 1], family, source[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];
    unsigned port, target_port;
    int end = 0;

    memcpy(line, data, len);
    line[len] = '\0';
    if (strncmp(line, "PROXY UNKNOWN", 13) == 0 && (line[13] == ' ' || line[13] == '\r')) {
        return true;
    }
    if (sscanf(line, "PROXY TCP%c %45[0-9a-fA-F.:] %45[0-9a-fA-F.:] %5u %5u\r\n%n", &family, source,
               target, &port, &target_port, &end) != 5 ||
        (size_t)end != len || port > UINT16_MAX || (family != '4' && family != '6')) {
        return false;
    }
    if (inet_pton(family == '4' ? AF_INET : AF_INET6, source, address) != 1) {
        return false;
    }
    set_client(client, family == '4' ? AF_INET : AF_INET6, address, port);
    return true;
}

static bool read_v2(const unsigned char *data, size_t len, struct sockaddr_storage *client)
{
    const unsigned char *addresses = data + V2_HEAD;
    uint32_t family = data[13] >> 4;

    len -= V2_HEAD;
    if (data[12] == V2_LOCAL) { /* a health check of the proxy's own */
        return true;
    }
    if (data[12] != V2_PROXY) {
        return false;
    }
    if (family == V2_INET && len >= 12) {
        set_client(client, AF_INET, addresses, be16(addresses + 8));
    } else if (family == V2_INET6 && len >= 36) {
        set_client(client, AF_INET6, addresses, be16(addresses + 32));
    } else {
        return family != V2_INET && family != V2_INET6; /* of another kind: nobody is named */
    }
    return true;
}

/* The length of the block of version 2, as far as that is known. */
static size_t v2_length(const struct introduction *in)
{
    return in->len < V2_HEAD ? V2_HEAD : V2_HEAD + be16(in->data + 14);
}

enum progress { NOT_ONE, PART, WHOLE };

static enum progress introduction_progress(const struct introduction *in)
{
    size_t known = in->len < sizeof(v2_signature) ? in->len : sizeof(v2_signature);

    if (in->len > 0 && in->data[0] == 'P') {
        return in->data[in->len - 1] == '\n' ? WHOLE : in->len < V1_BYTES_MAX ? PART : NOT_ONE;
    }
    if (memcmp(in->data, v2_signature, known) != 0 || v2_length(in) > V2_BYTES_MAX) {
        return NOT_ONE;
    }
    return in->len >= V2_HEAD && in->len == v2_length(in) ? WHOLE : PART;
}

/* How many of the `n` bytes that wait in the socket, and stand at data + len, belong to it. */
static size_t introduction_part(const struct introduction *in, size_t n)
{
    const unsigned char *next = in->data + in->len;
    size_t wanted = v2_length(in) - in->len;
    const unsigned char *end;

    if (in->data[0] == 'P') {
        wanted = V1_BYTES_MAX - in->len;
        end = memchr(next, '\n', n < wanted ? n : wanted);
        wanted = end ? (size_t)(end - next) + 1 : wanted;
    }
    return n < wanted ? n : wanted;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* fd stays open. */
static void introduction_free(struct introduction *in)
{
    struct http_server *s = in->s;

    loop_fd_remove(s->loop, &in->w);
    env_timer_clear(s->env, &in->timer);
    TAILQ_REMOVE(&s->introductions, in, link);
    s->introductions_n--;
    free(in);
}

static void introduction_drop(struct introduction *in, const char *why)
{
    char peer[64];
    int fd = in->w.fd;

    if (why) {
        net_peer_text((const struct sockaddr *)&in->from, peer, sizeof(peer));
        log_gated(in->s, &in->s->introduction_gate, "a proxy did not introduce its connection",
                  peer, "error", why);
    }
    introduction_free(in);
    close(fd);
}

static void introduction_finish(struct introduction *in)
{
    struct http_server *s = in->s;
    struct sockaddr_storage client = in->from;
    int fd = in->w.fd;
    bool good = in->data[0] == 'P' ? read_v1(in->data, in->len, &client)
                                   : read_v2(in->data, in->len, &client);

    if (!good) {
        introduction_drop(in, "what it sent is not of the PROXY protocol");
        return;
    }
    introduction_free(in);
    server_admit_client(s, fd, &client);
}

static void introduction_on_readable(struct loop_fd *w, uint32_t events)
{
    struct introduction *in = container_of(w, struct introduction, w);
    enum progress progress = PART;

    (void)events;
    while (progress == PART) {
        ssize_t n = recv(w->fd, in->data + in->len, sizeof(in->data) - in->len, MSG_PEEK);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        n = n > 0 ? recv(w->fd, in->data + in->len, introduction_part(in, (size_t)n), 0) : n;
        if (n <= 0) { /* a health check that only connects */
            introduction_drop(in, NULL);
            return;
        }
        in->len += (size_t)n;
        progress = introduction_progress(in);
    }
    if (progress == WHOLE) {
        introduction_finish(in);
    } else {
        introduction_drop(in, "its connection begins with something else");
    }
}

static void introduction_on_timer(struct env_timer *t)
{
    introduction_drop(container_of(t, struct introduction, timer), "it sent nothing in time");
}

int introduction_await(struct http_server *s, int fd, const struct sockaddr_storage *proxy)
{
    struct introduction *in = calloc(1, sizeof(*in));
    int64_t limit_ns = s->config.limits.header_timeout_ns;

    if (!in) {
        return FN_E_EXHAUSTED;
    }
    in->s = s;
    in->from = *proxy;
    in->w.fd = fd;
    in->w.cb = introduction_on_readable;
    in->timer.cb = introduction_on_timer;
    if (loop_fd_add(s->loop, &in->w, LOOP_READ, NULL) < 0) {
        free(in);
        return FN_E_EXHAUSTED;
    }
    TAILQ_INSERT_TAIL(&s->introductions, in, link);
    s->introductions_n++;
    env_timer_set(s->env, &in->timer, env_now_ns(s->env) + (limit_ns ? limit_ns : AWAIT_NS));
    return 0;
}

void introductions_close(struct http_server *s)
{
    struct introduction *in;

    while ((in = TAILQ_FIRST(&s->introductions))) {
        introduction_drop(in, NULL);
    }
}
