/* What this process uses, as Prometheus' process collectors name it behind Go Fn's prefix:
 * fn_process_cpu_seconds_total, _resident_memory_bytes, _virtual_memory_bytes, _max_fds and
 * _start_time_seconds. Open descriptors are not among them: to count 10 000 of them in /proc holds
 * the loop for tens of milliseconds. */
#ifndef PROCESS_METRICS_H
#define PROCESS_METRICS_H

struct config_buckets;

/* Once per process, before anybody else declares a metric; read anew whenever somebody asks for
 * them. */
void process_metrics_declare(const struct config_buckets *buckets);

#endif
