/* Every route of the API. */
#include <api/api_int.h>

#include <string.h>

/* Apps come and go by an admin's word; what is in them is deployed.
 *
 * Answers of PUT and of a lookup by source have no URLs, as Go Fn's. */
const struct api_route api_routes[] = {
    { "GET", "/v2/apps", ROLE_READ, &store_app_list, ask_list, tell_list },
    { "POST", "/v2/apps", ROLE_ADMIN, &store_app_add, ask_new, tell_one },
    { "GET", "/v2/apps/:app_id", ROLE_READ, &store_app_get, ask_one, tell_one },
    { "PUT", "/v2/apps/:app_id", ROLE_DEPLOY, &store_app_change, ask_change, tell_one },
    { "DELETE", "/v2/apps/:app_id", ROLE_ADMIN, &store_app_remove, ask_one, NULL },

    { "GET", "/v2/fns", ROLE_READ, &store_fn_list, ask_list, tell_list },
    { "POST", "/v2/fns", ROLE_DEPLOY, &store_fn_add, ask_new, tell_one },
    { "GET", "/v2/fns/:fn_id", ROLE_READ, &store_fn_get, ask_one, tell_one },
    { "PUT", "/v2/fns/:fn_id", ROLE_DEPLOY, &store_fn_change, ask_change, tell_plain },
    { "DELETE", "/v2/fns/:fn_id", ROLE_DEPLOY, &store_fn_remove, ask_one, NULL },
    { "GET", "/v2/fns/:fn_id/calls", ROLE_READ, NULL, NULL, NULL },
    { "GET", "/v2/fns/:fn_id/calls/:call_id", ROLE_READ, NULL, NULL, NULL },
    { "GET", "/v2/fns/:fn_id/calls/:call_id/log", ROLE_READ, NULL, NULL, NULL },

    { "GET", "/v2/triggers", ROLE_READ, &store_trigger_list, ask_list, tell_list },
    { "POST", "/v2/triggers", ROLE_DEPLOY, &store_trigger_add, ask_new, tell_one },
    { "GET", "/v2/triggers/:trigger_id", ROLE_READ, &store_trigger_get, ask_one, tell_one },
    { "PUT", "/v2/triggers/:trigger_id", ROLE_DEPLOY, &store_trigger_change, ask_change,
      tell_plain },
    { "DELETE", "/v2/triggers/:trigger_id", ROLE_DEPLOY, &store_trigger_remove, ask_one, NULL },

    { "GET", "/v2/runner/apps/:app_id/triggerBySource/:trigger_type/*trigger_source", ROLE_READ,
      &store_trigger_by_source, ask_source, tell_plain },
    { "GET", "/v2/runner/changes", ROLE_READ, NULL, ask_changes, tell_changes }, /* fnd's own */

    { .method = NULL },
};

/* A parameter has at least a byte. */
bool route_matches(const char *pattern, const char *path, struct arena *arena,
                   const char **ret_params)
{
    uint32_t n = 0;

    while (*pattern == '/' && *path == '/') {
        size_t want = strcspn(pattern + 1, "/");
        size_t have = pattern[1] == '*' ? strlen(path + 1) : strcspn(path + 1, "/");

        if (pattern[1] == '*' || (pattern[1] == ':' && have > 0)) {
            if (ret_params && !(ret_params[n++] = arena_strndup(arena, path + 1, have))) {
                return false;
            }
        } else if (want != have || memcmp(pattern + 1, path + 1, have) != 0) {
            return false;
        }
        pattern += 1 + want;
        path += 1 + have;
    }
    return !*pattern && !*path;
}

bool api_owns_path(const char *path)
{
    return strncmp(path, "/v2/", 4) == 0;
}

const char *api_route_of(const char *path)
{
    for (const struct api_route *r = api_routes; r->method; r++) {
        if (route_matches(r->pattern, path, NULL, NULL)) {
            return r->pattern;
        }
    }
    return "invalid";
}
