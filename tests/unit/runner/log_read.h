/* Reads lines as a peer of the runner does. */
#ifndef TEST_LOG_READ_H
#define TEST_LOG_READ_H

#include "world.h"

/* A reader's side of one stream. */
struct log_read {
    struct world *w;
    struct engage_logs logs;
    char text[1 << 18]; /* "fn/call/o:line" of each line, and '\n' */
    uint32_t lines, messages, empty, ends;
    uint64_t lost;
    int status;
    char why[512];
    bool no_memory;
};

void read_open(struct world *w, struct log_read *rd, const char *keys); /* "k=v k=v" */
bool read_one(struct log_read *rd); /* one message; true: it came */
void read_all(struct log_read *rd);
void read_leave(struct log_read *rd);

#endif
