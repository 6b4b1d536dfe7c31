#include "storetime.h"

#include <string.h>

#include "sys.h"

static int64_t later_of(int64_t a, int64_t b) { return a > b ? a : b; }

void time_start(store_clock *c, int64_t hand_us) {
  c->hand_us = hand_us;
  c->shortest_lease = 0;
  sys_boot_id(c->boot_id);
}

head time_first(const store_clock *c) {
  head h = {0};
  int64_t boot = sys_boot_us();
  h.offset = (c->hand_us >= 0 ? c->hand_us : sys_wall_us()) - boot;
  h.time = h.offset + boot;
  h.asleep = boot - sys_awake_us();
  memcpy(h.boot_id, c->boot_id, sizeof h.boot_id);
  return h;
}

/* The offset that holds from now on. *stepped: how far the wall clock has jumped ahead of it. */
static int64_t offset_now(const store_clock *c, const head *h, int64_t boot, int64_t *stepped) {
  *stepped = 0;
  int64_t wall = sys_wall_us();
  if (strcmp(c->boot_id, h->boot_id) != 0) return later_of(wall, h->time) - boot;
  int64_t step = wall - boot - h->offset;
  if (step < OFFSET_STEP_US) return h->offset;
  *stepped = step;
  return wall - boot;
}

int64_t time_look(const store_clock *c, const head *h) {
  if (c->hand_us >= 0) return later_of(h->time, c->hand_us);
  int64_t boot = sys_boot_us(), stepped;
  return later_of(h->time, offset_now(c, h, boot, &stepped) + boot);
}

int64_t time_turn(const store_clock *c, head *h, int64_t waited_us, bool *moved) {
  *moved = false;
  if (c->hand_us >= 0) return later_of(h->time, c->hand_us);

  int64_t boot = sys_boot_us(), asleep = boot - sys_awake_us(), stepped;
  int64_t offset = offset_now(c, h, boot, &stepped);
  int64_t now = later_of(h->time, offset + boot);
  bool same_boot = strcmp(c->boot_id, h->boot_id) == 0;
  bool slept = same_boot && asleep - h->asleep > GRACE_STEP_US;
  bool jumped = same_boot && stepped > GRACE_STEP_US;
  bool starved = c->shortest_lease > 0 &&
                 waited_us > later_of(c->shortest_lease / 3, GRACE_WAIT_US_MIN) &&
                 now > h->grace_until + h->longest_lease;
  if (slept || jumped || starved) {
    h->grace_until = now + h->longest_lease;
    *moved = true;
  }
  if (!same_boot || slept || offset != h->offset) {
    *moved = true;
    h->asleep = asleep;
    h->offset = offset;
    memcpy(h->boot_id, c->boot_id, sizeof h->boot_id);
  }
  return now;
}

int64_t time_ahead(const store_clock *c, int64_t now_us) {
  if (c->hand_us >= 0) return 0;
  int64_t ahead_us = now_us - sys_wall_us(); /* store time runs ahead where the wall stepped back */
  return ahead_us > OFFSET_STEP_US ? ahead_us : 0;
}
