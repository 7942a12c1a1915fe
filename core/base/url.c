/* URLs are cut as those who connect cut them: the last '@' before the path ends the user. */
#include <base/url.h>

#include <string.h>

bool url_split(const char *text, struct url *ret)
{
    const char *sign = strstr(text, "://");
    const char *at;

    if (!sign) {
        return false;
    }
    *ret = (struct url){ .text = text, .begin = sign + 3 };
    ret->rest = ret->begin + strcspn(ret->begin, "/?#");
    at = memrchr(ret->begin, '@', (size_t)(ret->rest - ret->begin));
    ret->host = at ? at + 1 : ret->begin;
    ret->host_len = (size_t)(ret->rest - ret->host);
    return true;
}

bool url_is_http(const struct url *u)
{
    size_t len = (size_t)(u->begin - u->text);

    return strncmp(u->text, "http://", len) == 0 || strncmp(u->text, "https://", len) == 0;
}
