/* What every exported function asks of its arguments, before anything else: below api they are
** asserted. */
#ifndef FENCEPOST_CHECK_H
#define FENCEPOST_CHECK_H

#include "err.h"

/* FP_INVALID with the name of the argument, its value, and the limit it breaks. */
int check_between(const char *name, int64_t value, int64_t low, int64_t high, fp_error *err);
/* The same of several, in their order. */
typedef struct check_limit {
  const char *name;
  int64_t value, low, high;
} check_limit;
int check_limits(const check_limit *limits, int count, fp_error *err);
/* A text that names something: not empty, not too long, no NUL, valid UTF-8. */
int check_name(const char *what, span name, int64_t bytes_max, fp_error *err);

#endif
