/* Private to the configuration: its files share these. */
#ifndef CONFIG_CONFIG_INT_H
#define CONFIG_CONFIG_INT_H

#include <base/arena.h>
#include <conf/opts.h>
#include <config/config.h>

enum config_section {
    SECTION_TOP,
    SECTION_PROCESS,
    SECTION_LOG,
    SECTION_METRICS,
    SECTION_TRACES,
    SECTION_HTTP,
    SECTION_GRPC,
    SECTION_LB,
    SECTION_RUNNER,
    SECTION_NPM,
    SECTION_API,
    SECTION_STORE,
    SECTION_ADMIN,
    SECTION_PLUGINS,
    SECTIONS_N,
    /* not tables of their own, but places that a variable can go to: */
    SECTION_PLACER,
    SECTION_POOL,
    SECTION_DRIVER,
    SECTION_TLS,
    SECTION_NOWHERE
};

#define CONFIG_TABLES_MAX 4

/* A room's rows, and the pointer in struct config to what they fill. */
struct config_table {
    const struct opt_table *table;
    size_t field;
};

struct config_section_def {
    const char *key; /* "" = top level */
    const char *doc;
    struct config_table tables[CONFIG_TABLES_MAX]; /* of rooms; NULL ends */
    uint32_t sides; /* that it means anything for, bits of enum config_side; 0 = all */
};

enum config_shape { SHAPE_ONE, SHAPE_STACK, SHAPE_LIST };

/* A key of plugins: that names instances. */
struct config_plugin_key {
    const char *key;
    const char *kind;        /* FN_KIND_* */
    enum config_shape shape; /* SHAPE_STACK: each stands on those before it */
    size_t offset;           /* in struct config: of a config_plugin, or of a config_list_plugin */
    uint32_t sides;          /* that have such plugins, bits of enum config_side */
};

extern const struct config_section_def config_sections[SECTIONS_N]; /* sections.c */
/* All rows of a section, which bind into a block of this size. */
const struct fn_opt *config_rows(int section);
uint32_t config_rows_size(int section);
/* Lets the pointers of `c` point at the rooms' structs in that block, once it is bound. */
void config_give(struct config *c, int section);

extern const char *const config_top_others[]; /* keys of the top level that are no options of it */
extern const struct config_plugin_key config_plugin_keys[]; /* key NULL ends */

#define CONFIG_SECTION_OVERRIDES_MAX 32

struct config_private {
    struct arena arena;
    struct conf *file; /* NULL = none */
    struct conf_values *values[SECTIONS_N];
    /* What the variables say, per section; key NULL ends. */
    struct conf_override overrides[SECTION_NOWHERE][CONFIG_SECTION_OVERRIDES_MAX + 1];
    uint32_t sets_n;  /* keys that config_set() was given */
    const char *port; /* FN_PORT, checked */
    const char *grpc_port;
    const char *placer;       /* FN_PLACER: name of the plugin */
    const char *npm;          /* VARIABLE_IS_MANAGER */
    bool node_unknown; /* what `node` says was refused: nothing that depends on it is judged */
};

/* ---- variables (env.c) ----------------------------------------------------------------------- */

/* How the text of a variable becomes the text of an option. */
enum config_form {
    FORM_AS_IS,
    FORM_MSECS,   /* whole ms; negative = never */
    FORM_SECONDS, /* whole seconds or a duration */
    FORM_MB,      /* whole MB */
    FORM_BOOL,    /* 1, t, true, 0, f, false in the usual cases */
    FORM_NOT,     /* the same, inverted */
    FORM_SAID,    /* any text = true, as Docker's programs have it */
    FORM_PORT,    /* 1..65535 */
    FORM_SIZE,    /* bytes; negative = no limit, which is 0 here */
    FORM_LEVEL,   /* in any case; "warning" is "warn", too */
    FORM_NONE     /* accepted without effect */
};

#define VARIABLE_MAY_BE_FILE  (1u << 0) /* <NAME>_FILE names a file with the value */
#define VARIABLE_IS_TRIMMED   (1u << 1) /* of such a file white space is cut */
#define VARIABLE_0_IS_DEFAULT (1u << 2) /* to Go Fn; here 0 is no value of the option */
#define VARIABLE_IS_MANAGER   (1u << 3) /* the pool is the manager's whose address it is */
#define VARIABLE_ALSO_LB      (1u << 4) /* the limit holds at both ends: lb.response_max, too */

struct config_variable {
    const char *name;
    enum config_section section;
    const char *key;
    enum config_form form;
    uint32_t flags;
    const char *doc; /* FORM_NONE: why it has no effect; else NULL */
};

extern const struct config_variable config_variables[]; /* name NULL ends */

/* Reads the variables into c->priv. */
void config_env_read(struct config *c, char *const *environ_, struct conf_problems *p);
/* The variable of an option, or NULL. */
const char *config_variable_of(enum config_section section, const char *key);

/* ---- what a reload may change (live.c) ------------------------------------------------------- */

/* A sentence for the reference. */
void config_print_live(enum config_section section, struct buf *out);

/* ---- types of node (types.c) ----------------------------------------------------------------- */

const struct config_type *config_type_of(const char *word); /* NULL: there is none */
/* "lb or full": those that have one of these sides. */
void config_print_types(uint32_t sides, struct buf *out);
/* Whether the section means anything for this type of node. */
bool config_section_applies(const struct config *c, int section);

/* ---- each side of this node (sides.c) -------------------------------------------------------- */

void config_sides_plugins(struct config *c, struct conf_problems *p);
void config_sides_effect(const struct config *c, struct conf_problems *p);

struct config_side_part {
    /* What nobody said about its plugins, and what may not stand together; NULL: it has none. */
    void (*plugins)(struct config *c, struct conf_problems *p);
    /* What has no effect, or one that nobody means; NULL: nothing. */
    void (*effect)(const struct config *c, struct conf_problems *p);
};
#define CONFIG_SIDE(NAME, name) extern const struct config_side_part config_side_##name;
CONFIG_SIDES(CONFIG_SIDE)
#undef CONFIG_SIDE

/* Values by themselves and against each other (check.c). */
void config_check_values(struct config *c, struct conf_problems *p);

/* What they name on this machine (paths.c). */
void config_check_paths(struct config *c, struct conf_problems *p);

/* ---- parts of the file ----------------------------------------------------------------------- */

/* What has no effect, or one that nobody means (effect.c). */
void config_effect_check(const struct config *c, struct conf_problems *p);
void config_plugins_read(struct config *c, struct conf_problems *p);
/* The keys of plugins: that name instances, NULL at the end, in the config's arena. */
const char *const *config_plugin_names(const struct config *c);
struct config_plugin *config_plugin_one(const struct config *c, const struct config_plugin_key *k);
struct config_plugin config_plugin_default(const char *kind, const char *use, const char *where);
/* The list is this one. */
void config_plugin_only(struct config *c, struct config_list_plugin *list,
                        struct config_plugin plugin);
/* Tells what plugin_judge() says of a running instance. */
void config_plugin_judge(const struct config_plugin *plugin, const struct plugin *running,
                         struct conf_problems *p);
void config_plugin_override(struct config_plugin *plugin, const struct conf_override *from);
/* Refuses a second instance of a name: metrics, `fnd shadow` and other plugins tell those of a kind
 * apart by it. */
void config_plugin_twice(const struct config_plugin *plugin, const struct config_plugin *first,
                         struct conf_problems *p);
struct config_list_plugin *config_plugin_list(const struct config *c,
                                              const struct config_plugin_key *k);
void config_apps_read(struct config *c, struct conf_problems *p);
void config_tls_read(struct config *c, struct conf_problems *p);

/* ---- memory, places and sentences (values.c) ------------------------------------------------- */

/* The sentence behind the code of a line; *code is "" when there is none. */
const char *config_split_code(const char *line, char code[8]);
/* A line that begins with its own code, "PLG915 name: text", with the position behind the code. */
void config_tell(struct conf_problems *p, const char *where, const char *line);
/* "fn.yaml:7:5", "FN_PORT" or "default". */
const char *config_source_of(const struct config *c, enum config_section section, const char *key);
/* Nobody gave it. */
bool config_is_default(const struct config *c, enum config_section section, const char *key);
/* The value of an option is refused, under the code and the place of who gave it. */
void config_refuse(const struct config *c, enum config_section section, const char *key,
                   const char *got, const char *rule, struct conf_problems *p);

/* Text of `n` as position, in the config's arena. */
const char *config_where(const struct config *c, const struct conf_node *n);
/* conf_bind() of a small map (an app, a function) whose values are copied into `ret` (size bytes),
 * and their texts into the config's arena. */
void config_bind_into(struct config *c, struct conf_node *map, const char *what,
                      const struct fn_opt *opts, void *ret, uint32_t size, const char *const *skip,
                      struct conf_problems *p);
/* Zeroed memory of the config. NULL: there is none, which config_load() tells when the part that is
 * being read has ended. The same holds of all texts in the config's arena. */
void *config_alloc(const struct config *c, size_t size);

/* Tables of the small maps, for the reference. */
extern const struct fn_opt config_app_opts[];
extern const struct fn_opt config_fn_opts[];
extern const struct fn_opt config_trigger_opts[];
extern const struct fn_opt config_tls_opts[];

/* Where files of the product are that lie beside the program, by the name of their folder. */
const char *config_find_dir(struct config *c, const char *name);

#endif
