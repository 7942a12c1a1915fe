/* Names that carry group and request, the lines of the tools read strictly, and what their
 * errors are in the words of fn_error. */
#include "vbox.h"

#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
#define HEX_BYTES  "0123456789abcdef"
#define DIGITS     "0123456789"
#define GROUP_MAX  63u

/* ---- names ----------------------------------------------------------------------------------- */

int vbox_check_group(const char *group, struct fn_error *reterr)
{
    size_t len = strlen(group);

    if (len > 0 && len <= GROUP_MAX && strspn(group, NAME_BYTES) == len) {
        return 0;
    }
    return fail_platform(reterr, FN_E_INVALID,
                         "group, got \"%.64s\"; expected 1 to %u letters, digits, - _ .", group,
                         GROUP_MAX);
}

int vbox_name(const char *prefix, const char *group, uint64_t request, uint32_t i,
              char ret[VBOX_NAME_MAX + 1], struct fn_error *reterr)
{
    int r = vbox_check_group(group, reterr);

    if (r == 0) {
        snprintf(ret, VBOX_NAME_MAX + 1, "%.32s%.63s-%llx-%u", prefix, group,
                 (unsigned long long)request, i);
    }
    return r;
}

/* How many bytes at the end of name[0..len) are of `set`. */
static size_t tail(const char *name, size_t len, const char *set)
{
    size_t n = 0;

    while (n < len && strchr(set, name[len - n - 1])) {
        n++;
    }
    return n;
}

/* Cuts "<sep><bytes of set>" off the end; the rest's length, or 0. */
static size_t cut(const char *name, size_t len, char sep, const char *set)
{
    size_t n = tail(name, len, set);

    return n > 0 && n < len && name[len - n - 1] == sep ? len - n - 1 : 0;
}

int vbox_id_of(const char *prefix, const char *group, int vagrant, const char *name, size_t len,
               char ret[VBOX_NAME_MAX + 1])
{
    size_t before = strlen(prefix) + strlen(group);
    size_t end;

    if (vagrant) {
        len = cut(name, len, '_', DIGITS);
        len = cut(name, len, '_', DIGITS);
        while (len > 0 && name[len - 1] != '_') {
            len--;
        }
        len = len > 0 ? len - 1 : 0;
    }
    end = cut(name, len, '-', DIGITS);
    end = cut(name, end, '-', HEX_BYTES);
    if (len > VBOX_NAME_MAX || end != before || memcmp(name, prefix, strlen(prefix)) != 0 ||
        memcmp(name + strlen(prefix), group, strlen(group)) != 0) {
        return 0;
    }
    memcpy(ret, name, len);
    ret[len] = '\0';
    return 1;
}

/* ---- texts of the tools ---------------------------------------------------------------------- */

/* The first line, readable; returns ret. */
static const char *shown(const char *text, char *ret, size_t cap)
{
    size_t n = 0;

    for (; n + 1 < cap && text[n] && text[n] != '\n' && text[n] != '\r'; n++) {
        ret[n] = text[n] < ' ' || text[n] > '~' ? '?' : text[n];
    }
    ret[n] = '\0';
    return ret;
}

int vbox_next(const char **at, struct vbox_vm *ret, struct fn_error *reterr)
{
    const char *line = *at;
    size_t len;
    char text[80];

    while (*line == '\n' || *line == '\r') {
        line++;
    }
    if (!*line) {
        return 0;
    }
    len = strcspn(line, "\r\n");
    /* "name" {uuid}: read from its end, a name may have quotes and braces. */
    if (len > VBOX_UUID_LEN + 5 && line[0] == '"' && line[len - 1] == '}' &&
        memcmp(line + len - VBOX_UUID_LEN - 4, "\" {", 3) == 0 &&
        strspn(line + len - VBOX_UUID_LEN - 1, HEX_BYTES "ABCDEF-") == VBOX_UUID_LEN) {
        ret->name = line + 1;
        ret->name_len = len - VBOX_UUID_LEN - 5;
        memcpy(ret->uuid, line + len - VBOX_UUID_LEN - 1, VBOX_UUID_LEN);
        ret->uuid[VBOX_UUID_LEN] = '\0';
        *at = line + len;
        return 1;
    }
    return fail_platform(reterr, FN_E_DATA_LOSS,
                         "VBoxManage list: got \"%s\"; expected \"name\" {uuid} in each line",
                         shown(line, text, sizeof(text)));
}

int vbox_has(const char *list, const char *uuid)
{
    struct vbox_vm vm;

    while (vbox_next(&list, &vm, NULL) > 0) {
        if (strcmp(vm.uuid, uuid) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Four numbers up to 255, not 0.0.0.0, which guests tell before they have one. */
static int ip_ok(const char *ip, size_t len)
{
    unsigned long sum = 0;
    int parts = 0;

    for (size_t i = 0; i < len && parts < 4; parts++) {
        size_t n = strspn(ip + i, DIGITS);
        unsigned long v = n > 0 && n <= 3 ? strtoul(ip + i, NULL, 10) : 256;

        if (v > 255 || (parts < 3 ? ip[i + n] != '.' : i + n != len)) {
            return 0;
        }
        sum += v;
        i += n + 1;
    }
    return parts == 4 && sum > 0;
}

int vbox_address(const char *out, int64_t port, char *ret, size_t cap, struct fn_error *reterr)
{
    static const char value[] = "Value:";
    const char *ip;
    size_t len;
    char text[80];

    if (strncmp(out, "No value set!", 13) == 0) {
        return 0;
    }
    ip = strncmp(out, value, sizeof(value) - 1) == 0 ? out + sizeof(value) - 1 : "";
    ip += strspn(ip, " \t");
    len = strcspn(ip, " \t\r\n");
    if (ip_ok(ip, len)) {
        snprintf(ret, cap, "%.*s:%lld", (int)len, ip, (long long)port);
        return 1;
    }
    if (strncmp(ip, "0.0.0.0", len) == 0 && len == 7) {
        return 0;
    }
    return fail_platform(reterr, FN_E_DATA_LOSS,
                         "VBoxManage guestproperty: got \"%s\"; expected \"Value: \" and an "
                         "address, or \"No value set!\"",
                         shown(out, text, sizeof(text)));
}

const char *vbox_failure(const char *const *argv, const struct fn_exec_result *result, char *ret,
                         size_t cap)
{
    const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *err = result->err ? result->err : "";
    const char *error = strstr(err, "VBoxManage: error:");
    char line[150];

    if (result->exit_code == 0 && !error) {
        return NULL;
    }
    if (argv[1] && strcmp(argv[1], "startvm") == 0 && result->out &&
        strstr(result->out, "successfully started")) {
        return NULL;
    }
    error = error ? error + strlen("VBoxManage: error:") : err;
    shown(error + strspn(error, " \n"), line, sizeof(line));
    snprintf(ret, cap, "%s %s: ended with %d%s%s", program, argv[1] ? argv[1] : "",
             (int)result->exit_code, line[0] ? ": " : "", line);
    return ret;
}
