/* Asks for one message at a time, and writes its lines one below the other. */
#include "log_read.h"

#include <check.h>

#include <stdio.h>
#include <string.h>

static int take(struct engage_logs *l, const struct engage_line *lines, uint32_t n)
{
    struct log_read *rd = container_of(l, struct log_read, logs);
    size_t at = strlen(rd->text);

    ck_assert(l->wanted && !rd->ends);
    if (rd->no_memory) {
        return FN_E_EXHAUSTED;
    }
    l->wanted = false;
    for (uint32_t i = 0; i < n; i++) {
        rd->lost += lines[i].lost;
        at += (size_t)snprintf(rd->text + at, sizeof(rd->text) - at, "%s/%s/%s:%.*s\n",
                               lines[i].fn_id, lines[i].call_id, lines[i].of_stderr ? "e" : "o",
                               lines[i].len < 200 ? (int)lines[i].len : 200, lines[i].data);
        ck_assert_uint_lt(at, sizeof(rd->text));
    }
    rd->lines += n;
    rd->messages++;
    rd->empty += n == 0;
    return 0;
}

static void take_end(struct engage_logs *l, int grpc_status, const char *text)
{
    struct log_read *rd = container_of(l, struct log_read, logs);

    rd->ends++;
    rd->status = grpc_status;
    snprintf(rd->why, sizeof(rd->why), "%s", text ? text : "");
}

void read_open(struct world *w, struct log_read *rd, const char *keys)
{
    struct fn_kv kv[8];
    char copy[256];
    uint32_t n = 0;

    snprintf(copy, sizeof(copy), "%s", keys);
    for (char *p = strtok(copy, " "); p; p = strtok(NULL, " ")) {
        kv[n].key = p;
        kv[n].value = strchr(p, '=') + 1;
        *strchr(p, '=') = '\0';
        n++;
    }
    memset(rd, 0, sizeof(*rd));
    rd->w = w;
    rd->logs = (struct engage_logs){ .keys = kv, .n = n, .send = take, .end = take_end };
    w->cb.on_logs(w->cb_ud, &rd->logs);
    fake_env_settle(w->f);
}

bool read_one(struct log_read *rd)
{
    uint32_t was = rd->messages;

    ck_assert_uint_eq(rd->ends, 0);
    if (!rd->logs.wanted) {
        rd->logs.wanted = true;
        rd->w->cb.on_logs_wanted(rd->w->cb_ud, &rd->logs);
    }
    world_run_ms(rd->w, 1);
    return rd->messages > was;
}

void read_all(struct log_read *rd)
{
    while (!rd->ends && read_one(rd)) {
    }
}

void read_leave(struct log_read *rd)
{
    rd->w->cb.on_logs_gone(rd->w->cb_ud, &rd->logs);
}
