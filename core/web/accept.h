/* Accept: in which format a scraper wants the metrics page. Pure. [any] */
#ifndef WEB_ACCEPT_H
#define WEB_ACCEPT_H

#include <base/headers.h>
#include <base/metric.h>

/* OpenMetrics 1.0 where the scraper names it and likes text no better (RFC 9110, 12.5.1); else
 * Prometheus text, which also answers those who take neither. */
enum metric_format accept_metrics(const struct headers *h);

#endif
