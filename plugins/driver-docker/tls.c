/* Where the engine is, and the files of a connection by TLS, as Docker's own programs name them:
 * ca.pem, cert.pem and key.pem in one directory. They are read again for each new connection. */
#include "docker.h"
#include "fail.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PORT_PLAIN "2375"
#define PORT_TLS "2376"

/* DOCKER_CERT_PATH or its default. */
static void cert_dir(const struct docker *d, char *ret, size_t cap)
{
    const char *config = getenv("DOCKER_CONFIG");
    const char *home = getenv("HOME");

    if (d->conf->cert_path) {
        snprintf(ret, cap, "%s", d->conf->cert_path);
    } else if (config && *config) {
        snprintf(ret, cap, "%s", config);
    } else {
        snprintf(ret, cap, "%s/.docker", home ? home : "");
    }
}

static int find_file(const char *dir, const char *name, char ret[ENGINE_FILE_MAX],
                     struct fn_error *reterr)
{
    if (snprintf(ret, ENGINE_FILE_MAX, "%s/%s", dir, name) >= ENGINE_FILE_MAX) {
        return fail_platform(reterr, FN_E_INVALID, "cert_path of more than %d bytes",
                             ENGINE_FILE_MAX - 10);
    }
    if (access(ret, R_OK) < 0) {
        return fail_platform(reterr, FN_E_PRECONDITION,
                             "cert_path, got no %.120s: %s; expected ca.pem, cert.pem and key.pem",
                             ret, strerror(errno));
    }
    return 0;
}

static int find_files(struct docker *d, struct fn_error *reterr)
{
    char dir[ENGINE_FILE_MAX];
    int r;

    cert_dir(d, dir, sizeof(dir));
    r = find_file(dir, "ca.pem", d->tls_ca, reterr);
    if (r == 0) {
        r = find_file(dir, "cert.pem", d->tls_cert, reterr);
    }
    return r == 0 ? find_file(dir, "key.pem", d->tls_key, reterr) : r;
}

/* "name", "name:port", "[v6]:port" */
static bool has_port(const char *host)
{
    const char *bracket = strchr(host, ']');

    return strchr(bracket ? bracket : host, ':') != NULL;
}

static int tcp_address(struct docker *d, const char *rest, struct fn_error *reterr)
{
    bool tls = d->conf->tls_verify;

    if (!*rest || strlen(rest) >= 200 || strpbrk(rest, "/ ?#@")) {
        return FN_E_INVALID;
    }
    snprintf(d->base, sizeof(d->base), "%s://%s%s%s", tls ? "https" : "http", rest,
             has_port(rest) ? "" : ":",
             has_port(rest) ? ""
             : tls          ? PORT_TLS
                            : PORT_PLAIN);
    return tls ? find_files(d, reterr) : 0;
}

/* Set for other programs too, as variables are; it must not look as if it had an effect. */
static void tell_unused(struct docker *d)
{
    if (*d->unix_path && (d->conf->tls_verify || d->conf->cert_path)) {
        engine_log(d, FN_LOG_WARN,
                   "tls_verify and cert_path have no effect on an engine at unix://");
    } else if (!d->conf->tls_verify && d->conf->cert_path) {
        engine_log(d, FN_LOG_WARN,
                   "cert_path has no effect without tls_verify: the engine is spoken "
                   "to in plain HTTP");
    }
}

int engine_address(struct docker *d, const char *docker_host, struct fn_error *reterr)
{
    static const char unix_scheme[] = "unix://";
    static const char tcp_scheme[] = "tcp://";
    const char *rest;
    int r = FN_E_INVALID;

    if (strncmp(docker_host, unix_scheme, sizeof(unix_scheme) - 1) == 0) {
        rest = docker_host + sizeof(unix_scheme) - 1;
        if (rest[0] == '/' && strlen(rest) < sizeof(d->unix_path)) {
            memcpy(d->unix_path, rest, strlen(rest) + 1);
            snprintf(d->base, sizeof(d->base), "http://localhost");
            r = 0;
        }
    } else if (strncmp(docker_host, tcp_scheme, sizeof(tcp_scheme) - 1) == 0) {
        r = tcp_address(d, docker_host + sizeof(tcp_scheme) - 1, reterr);
    }
    if (r == FN_E_INVALID) {
        return fail_platform(
            reterr, FN_E_INVALID,
            "docker_host, got \"%.80s\"; expected unix:///path (at most 107 bytes) "
            "or tcp://host:port",
            docker_host);
    }
    tell_unused(d);
    return r;
}

void engine_request_tls(const struct docker *d, struct fn_http_request *rq)
{
    if (*d->tls_ca) {
        rq->tls_ca = d->tls_ca;
        rq->tls_cert = d->tls_cert;
        rq->tls_key = d->tls_key;
    }
}
