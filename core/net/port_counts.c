/* The families of port_counts.h. */
#include <net/port_counts.h>

static struct metric *of_port(const char *metric, enum metric_kind kind, const char *help,
                              const char *port)
{
    static const char *const labels[] = { "port", NULL };
    const struct metric_def def = { .name = metric, .help = help, .kind = kind, .labels = labels };

    return metric_series(metric_declare(&def), &port);
}

void port_counts_init(struct port_counts *c, const char *name)
{
    c->open = of_port("fn_port_connections", METRIC_GAUGE, "Connections to a port that are open.",
                      name);
    c->accepted = of_port("fn_port_accepted", METRIC_COUNTER,
                          "Connections that came to a port.", name);
    c->turned_away = of_port("fn_port_turned_away", METRIC_COUNTER,
                             "Connections that a port closed at once: by a limit, for want of "
                             "descriptors or memory, or of somebody who may not come there.",
                             name);
    c->unshaken = of_port("fn_port_handshakes_failed", METRIC_COUNTER,
                          "TLS handshakes that failed, but for those that the client left.", name);
    c->received = of_port("fn_port_received_bytes", METRIC_COUNTER,
                          "Bytes that came to a port, without what TLS adds.", name);
    c->sent = of_port("fn_port_sent_bytes", METRIC_COUNTER,
                      "Bytes that a port sent, without what TLS adds.", name);
}
