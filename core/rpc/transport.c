/* What is the same for each transport, and how one is found. */
#include <rpc/rpc_int.h>

#include <dlfcn.h>
#include <limits.h>
#include <plugin/plugin.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUT_COMPACT_BYTES (32u << 10)

struct buf *rpc_stream_out(struct rpc_stream *st)
{
    struct rpc_out *out = &st->out;

    if (out->taken == out->bytes.len) {
        buf_clear(&out->bytes);
        out->taken = 0;
    } else if (out->taken > OUT_COMPACT_BYTES && out->taken > out->bytes.len / 2) {
        buf_consume(&out->bytes, out->taken);
        out->taken = 0;
    }
    return &out->bytes;
}

int rpc_frame(struct buf *out, const void *data, size_t len)
{
    char *p = buf_reserve(out, RPC_PREFIX_BYTES + len);

    if (!p) {
        return FN_E_EXHAUSTED;
    }
    p[0] = 0;
    p[1] = (char)(len >> 24);
    p[2] = (char)(len >> 16);
    p[3] = (char)(len >> 8);
    p[4] = (char)len;
    if (len > 0) {
        memcpy(p + RPC_PREFIX_BYTES, data, len);
    }
    out->len += RPC_PREFIX_BYTES + len;
    return 0;
}

int rpc_stream_send(struct rpc_stream *st, const void *data, size_t len)
{
    int r = rpc_frame(rpc_stream_out(st), data, len);

    if (r == 0) {
        rpc_stream_wrote(st);
    }
    return r;
}

/* ---- what a transport may use ---------------------------------------------------------------- */

void rpc_log_calm(const char *peer, const char *why)
{
    log_stranger(FN_LOG_WARN, "connection closed: the peer exceeded a rate limit", "peer", peer,
                 "error", why);
}

static void log_library(uint32_t level, const char *text)
{
    log_stranger(level, "the library of the transport says", "text", text);
}

void rpc_transport_host_init(struct rpc_transport_host *host, struct loop *loop)
{
    *host = (struct rpc_transport_host){
        .size = sizeof(*host),
        .env = loop_env(loop),
        .loop = loop,
        .fd_add = loop_fd_add,
        .fd_set = loop_fd_set,
        .fd_remove = loop_fd_remove,
        .io_set = net_io_set,
        .io_want_read = net_io_want_read,
        .io_read = net_io_read,
        .io_writev = net_io_writev,
        .io_error = net_io_error,
        .io_peer = net_io_peer,
        .io_close = net_io_close,
        .log_calm = rpc_log_calm,
        .log_library = log_library,
    };
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Never unmapped: its library has threads. */
static int transport_load(const char *path, const char *name, const struct rpc_transport **ret,
                          struct fn_error *reterr)
{
    const struct rpc_transport *t;
    rpc_transport_entry_fn *entry;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!file) {
        return err_set(reterr, FN_E_UNAVAILABLE, "RUN420 transport %s: %.300s", name, dlerror());
    }
    *(void **)&entry = dlsym(file, RPC_TRANSPORT_ENTRY);
    t = entry ? entry() : NULL;
    if (!t || t->size != sizeof(*t) || strcmp(t->build, RPC_TRANSPORT_BUILD) != 0) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN421 %s is of build %s; expected " RPC_TRANSPORT_BUILD
                       ", that of this program",
                       path, t && t->size >= offsetof(struct rpc_transport, create) ? t->build : "?");
    }
    *ret = t;
    return 0;
}

int rpc_transport_find(const char *folder, const char *name, const struct rpc_transport **ret,
                       struct fn_error *reterr)
{
    char path[PATH_MAX];
    int r;

    if (strcmp(name, rpc_transport_nghttp2.name) == 0) {
        *ret = &rpc_transport_nghttp2;
        return 0;
    }
    if ((size_t)snprintf(path, sizeof(path), "%s/grpc-%s.so", folder, name) >= sizeof(path)) {
        return err_set(reterr, FN_E_INVALID, "RUN420 transport %s: its path is too long", name);
    }
    if (access(path, F_OK) < 0) {
        return err_set(reterr, FN_E_NOT_FOUND,
                       "RUN420 transport %s: %s is not there; expected the package "
                       "fnd-transport-%s, or a build with gRPC C core (libgrpc-dev)",
                       name, path, name);
    }
    r = plugin_path_trusted(path, reterr);
    return r < 0 ? r : transport_load(path, name, ret, reterr);
}
