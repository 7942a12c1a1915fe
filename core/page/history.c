/* A ring; as JSON it begins with its oldest value. */
#include <page/history.h>

#include <model/json.h>
#include <base/err.h>
#include <string.h>

void history_add(struct history *h, const int64_t *values, int64_t wall_ns)
{
    memcpy(h->values[h->n++ % HISTORY_N], values, sizeof(h->values[0]));
    h->wall_ns = wall_ns;
}

static int put_series(const struct history *h, uint32_t s, struct buf *out)
{
    uint64_t first = h->n > HISTORY_N ? h->n - HISTORY_N : 0;
    int r = jw_string(out, h->names[s]) | buf_add_str(out, ":[");

    for (uint64_t i = first; i < h->n; i++) {
        r |= i > first ? buf_add_str(out, ",") : 0;
        r |= jw_int(out, h->values[i % HISTORY_N][s]);
    }
    return r | buf_add_str(out, "]");
}

int history_print(const struct history *h, struct buf *out)
{
    int r = buf_printf(out, "{\"step_s\":%d,\"at_ms\":%lld,\"values\":{", HISTORY_STEP_S,
                       (long long)(h->wall_ns / 1000000));

    for (uint32_t s = 0; s < HISTORY_SERIES_MAX && h->names[s]; s++) {
        r |= (s ? buf_add_str(out, ",") : 0) | put_series(h, s, out);
    }
    return r | buf_add_str(out, "}}") ? FN_E_EXHAUSTED : 0;
}
