/* A server that answers every request with 600 bytes, to measure what core/http costs by itself:
 *   build/bench_http 127.0.0.1:18080 & wrk -t1 -c64 -d5 http://127.0.0.1:18080/ */
#include <http/server.h>
#include <stdio.h>
#include <string.h>

static char answer[600];

static void on_request(void *ud, struct http_request *req)
{
    (void)ud;
    http_answer(req, 200, NULL, req->body->bytes.len ? req->body->bytes.data : answer,
                req->body->bytes.len ? req->body->bytes.len : sizeof(answer));
}

int main(int argc, char **argv)
{
    struct http_server_config config = {
        .listen = argc > 1 ? argv[1] : "127.0.0.1:18080",
        .limits = { .header_bytes_max = 32768,
                    .headers_max = 100,
                    .request_line_max = 8192,
                    .body_bytes_max = 6291456,
                    .header_timeout_ns = 10 * ENV_S,
                    .body_timeout_ns = 60 * ENV_S,
                    .body_rate_min = 1024,
                    .write_stall_ns = 30 * ENV_S,
                    .idle_timeout_ns = 60 * ENV_S,
                    .connections_max = 10000,
                    .connections_per_ip_max = 256,
                    .out_bytes_high = 65536 },
        .on_request = on_request,
    };
    struct http_server *server;
    struct fn_error err = ERR_INIT;
    struct loop *loop;

    memset(answer, 'x', sizeof(answer));
    if (loop_create(NULL, &loop, &err) < 0 ||
        http_server_create(loop, &config, &server, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 69;
    }
    loop_run(loop);
    return 0;
}
