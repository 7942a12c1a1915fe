/* What functions and their calls may ask for, and what they get by default, as with Go Fn. */
#ifndef MODEL_LIMITS_H
#define MODEL_LIMITS_H

#define MODEL_MEM_MB_DEFAULT    128
#define MODEL_MEM_MB_MAX        8192
#define MODEL_CPU_MILLI_MAX     1024000
#define MODEL_TIMEOUT_S_DEFAULT 30
#define MODEL_TIMEOUT_S_MAX     300
#define MODEL_IDLE_S_DEFAULT    30
#define MODEL_IDLE_S_MAX        3600
#define MODEL_NAME_MAX          255     /* bytes */
#define MODEL_TEXT_MAX          1048576 /* of what the API bounds by its body: sources, URLs */

/* Of an app, a function or a trigger each. */
#define MODEL_ANNOTATIONS_MAX      100
#define MODEL_ANNOTATION_KEY_MAX   128 /* bytes */
#define MODEL_ANNOTATION_BYTES_MAX 512 /* of the value as JSON */

#endif
