/* What the files of this room share. */
#ifndef FENCEPOST_GAUGE_PART_H
#define FENCEPOST_GAUGE_PART_H

#include "gauge.h"

/* A finding, of which no more than GAUGE_FINDINGS_MAX are said. */
void gauge_say(pack *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs, passes and records. *highest: of the numbers in them. */
int gauge_check_flow(txn *t, pack *p, int64_t *highest, fp_error *err);

#endif
