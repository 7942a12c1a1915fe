/* Prints what reading and writing a call model costs; not part of the tests. */
#include <model/call.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const doc =
    "{\"id\":\"01M7Y55GGNR00040KE2M00000R\",\"status\":\"running\",\"image\":\"regist"
    "ry.example.com/"
    "team/hello:0.0.12\",\"type\":\"sync\",\"url\":\"http://127.0.0.1:28181/t/a1?q=1"
    "\\u0026z=%20x\","
    "\"method\":\"GET\",\"timeout\":30,\"idle_timeout\":30,\"memory\":128,\"config\":"
    "{\"FN_APP_ID\":"
    "\"01M7Y55GGNR00040KE2M00000R\",\"FN_FN_ID\":\"01M7Y55GGNR00040KE2M00000R\",\"FN_"
    "MEMORY\":\"128\""
    ",\"FN_TYPE\":\"sync\",\"X\":\"y\"},\"annotations\":{\"fnproject.io/fn/invokeEndp"
    "oint\":\"http://"
    "127.0.0.1:28181/invoke/01M7Y55GGNR00040KE2M00000R\"},\"headers\":{\"Content-Length\":[\"12\"],"
    "\"Content-Type\":[\"application/json\"],\"Fn-Http-H-Accept\":[\"*/*\"],\"Fn-Http-Method\":"
    "[\"GET\"],\"Fn-Http-Request-Url\":[\"http://127.0.0.1:28181/t/a1?q=1\"],\"Fn-Intent\":"
    "[\"httprequest\"],\"User-Agent\":[\"curl/7.88 something\"]},\"completed_at\":\"0"
    "001-01-01T00:00:"
    "00.000Z\",\"created_at\":\"2026-11-21T04:17:24.501Z\",\"started_at\":\"2026-11-2"
    "1T04:17:24.501Z\""
    ",\"app_id\":\"01M7Y55GGNR00040KE2M00000R\",\"app_name\":\"a1\",\"trigger_id\":"
    "\"01M7Y55GGNR00040"
    "KE2M00000R\",\"fn_id\":\"01M7Y55GGNR00040KE2M00000R\"}";

static double us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(void)
{
    struct buf out = BUF_INIT(0);
    struct arena arena;
    struct call c;
    unsigned char key[SLOT_KEY_BYTES];
    double t0;
    int n = 200000;

    t0 = us();
    for (int i = 0; i < n; i++) {
        arena_init(&arena, 0);
        call_init(&c, &arena);
        if (call_from_json(&c, doc, strlen(doc), NULL) < 0) {
            return 1;
        }
        arena_finish(&arena);
    }
    printf("call_from_json %.2f us (%zu bytes)\n", (us() - t0) / n, strlen(doc));
    arena_init(&arena, 0);
    call_init(&c, &arena);
    call_from_json(&c, doc, strlen(doc), NULL);
    t0 = us();
    for (int i = 0; i < n; i++) {
        buf_clear(&out);
        call_to_json(&c, &out);
    }
    printf("call_to_json %.2f us, same bytes: %s\n", (us() - t0) / n,
           strcmp(buf_text(&out), doc) == 0 ? "yes" : "no");
    t0 = us();
    for (int i = 0; i < n; i++) {
        buf_clear(&out);
        call_identity(&c, "", &out);
    }
    printf("call_identity %.2f us\n", (us() - t0) / n);
    t0 = us();
    for (int i = 0; i < n; i++) {
        call_slot_key(&out, key);
    }
    printf("call_slot_key %.2f us\n", (us() - t0) / n);
    arena_finish(&arena);
    buf_finish(&out);
    return 0;
}
