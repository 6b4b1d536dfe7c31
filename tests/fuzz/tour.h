/* Everything that is asked of a store, once, with arguments that are right. A bit for each of eight
** stages: look, list, work, touch runs, raise what ended, go on later, keep house, copy; 0: all. */
#ifndef FUZZ_TOUR_H
#define FUZZ_TOUR_H

#include "world.h"

void tour(world *w, uint8_t stages);

#endif
