/* Answer: what plugins hand back, looked at where it enters the host and before anything believes
 * it. What breaks the contract of <fn/...> is refused or mended, counted
 * (fn_plugin_bad_answers) and told with the name of the plugin and of the call. [any] */
#ifndef PLUGIN_ANSWER_H
#define PLUGIN_ANSWER_H

#include <plugin/plugin.h>

/* More memory than all machines of a cloud have; a predictor that wants it miscounted. */
#define PLUGIN_ANSWER_MB_MAX (1ull << 44)
/* Of one piece of output: more in one piece is a length that was taken from something else. */
#define PLUGIN_ANSWER_OUTPUT_MAX (64u << 20)
/* Of an id, an address, a tls_name. */
#define PLUGIN_ANSWER_WORD_MAX 255u

/* Of a duration: what is longer means "never" (INT64_MAX), and still can be added to a time. */
#define PLUGIN_ANSWER_DURATION_MAX (366 * 24 * 3600 * ENV_S)

/* Every duration that a plugin gives goes through here: not negative, at most that. */
int64_t plugin_answer_duration(int64_t ns);

/* What `method` returned: 0 to most, or FN_E_*. Another number becomes FN_E_INTERNAL with a
 * sentence in *said. After a failure *said (NULL ok) is whole and carries its code; after another
 * outcome than 0 its text has an end. -> the result to go on with. */
int plugin_answer_result(struct plugin *p, const char *method, int r, int most,
                         struct fn_error *said);
/* `call`, a method of the plugin, between plugin_enter() and plugin_leave(), and what it says, so
 * judged. */
#define PLUGIN_ASK(ret, plugin, where, method, most, said, call)                                   \
    do {                                                                                           \
        struct plugin_crumb crumb_;                                                                \
        plugin_enter(&crumb_, plugin, where, method);                                              \
        (ret) = (call);                                                                            \
        plugin_leave(&crumb_);                                                                     \
        (ret) = plugin_answer_result(plugin, method, ret, most, said);                             \
    } while (0)
/* Mends a text without end, an HTTP status that is none of a failure, an unknown blame or flag, and
 * a negative time. */
void plugin_answer_error(struct plugin *p, const char *method, struct fn_error *said);
/* The same for one that is the plugin's own, copied; NULL is an error without a text. */
struct fn_error plugin_answer_error_copy(struct plugin *p, const char *method,
                                         const struct fn_error *borrowed);
/* A text that the plugin wrote into cap bytes; without end it becomes "". -> it had an end */
bool plugin_answer_text(struct plugin *p, const char *method, char *text, size_t cap);

/* [loop] Pure: whether the host can use an answer of decide() about n runners; if not, `ret` (cap
 * 0: nowhere) says why. A note is looked at by nobody: whoever shows it reads FN_NOTE_MAX bytes. */
bool plugin_answer_decision(const char *method, int r, const struct fn_answer *a, uint32_t n,
                            char *ret, size_t cap);

/* An entry of a pool's list. 0 with a copy whose texts are the plugin's, or FN_E_INVALID. Labels
 * that are none are NULL. */
int plugin_answer_runner(struct plugin *p, const struct fn_runner *said, uint32_t size,
                         struct fn_runner *ret);
/* The name of a group: 1 to FN_GROUP_NAME_MAX bytes. */
bool plugin_answer_group(struct plugin *p, const char *method, const char *group);

/* An entry of a control plane's list: FN_E_INVALID when there is nothing to look at; else 0 with a
 * copy, in which a text that cannot be one is NULL. */
int plugin_answer_machine(struct plugin *p, const struct fn_machine *said, struct fn_machine *ret);
/* A whole list: counts ids and addresses that stand in it twice. `scratch` holds n pointers. */
void plugin_answer_machines(struct plugin *p, const struct fn_machine *list, uint32_t n,
                            const char **scratch);
/* Of `asked` machines; more are FN_E_INTERNAL: nobody knows what was bought. */
int plugin_answer_accepted(struct plugin *p, uint32_t asked, uint32_t accepted,
                           struct fn_error *reterr);

/* How a container ended; what is no end of a kind that we know is an exit code of -1. */
struct fn_exit plugin_answer_exit(struct plugin *p, const struct fn_exit *said);
/* false: not output */
bool plugin_answer_output(struct plugin *p, uint32_t fd, const void *data, size_t len);

/* What an operator adds to a status. 0, or FN_E_INTERNAL: then nothing of it is used. */
int plugin_answer_pairs(struct plugin *p, const char *method, const struct fn_kv *pairs,
                        uint32_t n);

/* Lines that an operator has; the same. */
int plugin_answer_lines(struct plugin *p, const char *method,
                        const struct fn_log_line *const *lines, uint32_t n);

/* What a predictor wants. 0 or FN_E_INTERNAL. */
int plugin_answer_desired(struct plugin *p, int r, uint64_t mb);

#endif
