#ifndef FENCEPOST_DRIVER_SHIM_H
#define FENCEPOST_DRIVER_SHIM_H

void expect(int holds, const char *what); /* or the program ends */
/* The lock shim, in files of its own in `folder`. */
void drive_shim(const char *folder);

#endif
