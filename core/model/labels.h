/* Labels of runners, as the host keeps them: sorted by key, so that equal sets are equal texts. */
#ifndef MODEL_LABELS_H
#define MODEL_LABELS_H

#include <fn/labels.h>

#define LABELS_BYTES (FN_LABELS_TEXT_MAX + 1)

/* labels: a set as <fn/labels.h> says, or NULL; ret may be the same memory. */
void labels_sort(const char *labels, char ret[LABELS_BYTES]);

#endif
