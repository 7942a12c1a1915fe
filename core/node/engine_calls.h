/* Engine calls: what a driver asks a Docker engine through fn.http, under Go Fn's names for these
 * calls: fn_docker_api_latency{api_name,api_status}. */
#ifndef NODE_ENGINE_CALLS_H
#define NODE_ENGINE_CALLS_H

#include <http/fetch.h>

/* [init] Counts the exchanges of all plugins from now on that are requests of the Docker API. */
void engine_calls_watch(struct fetch *f);

/* Go Fn's name of a request, "docker_create_container"; NULL: it is none of the Docker API. */
const char *engine_calls_name(const char *method, const char *url);

#endif
