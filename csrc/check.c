#include "check.h"

int check_between(const char *name, int64_t value, int64_t low, int64_t high, fp_error *err) {
  if (value >= low && value <= high) return FP_OK;
  return err_set(err, FP_INVALID, "%s is %lld; it must be from %lld to %lld", name,
                 (long long)value, (long long)low, (long long)high);
}

int check_limits(const check_limit *limits, int count, fp_error *err) {
  int code = FP_OK;
  for (int i = 0; code == FP_OK && i < count; i++) {
    code = check_between(limits[i].name, limits[i].value, limits[i].low, limits[i].high, err);
  }
  return code;
}

/* The length of the UTF-8 character at `at`, or 0 where there is none. */
static int character(const unsigned char *at, const unsigned char *end) {
  static const uint32_t lowest[5] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char lead = at[0];
  int bytes = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : (lead & 0xF0) == 0xE0 ? 3
            : (lead & 0xF8) == 0xF0 ? 4 : 0;
  if (bytes == 0 || at + bytes > end) return 0;
  uint32_t code = bytes == 1 ? lead : lead & (uint32_t)(0x7F >> bytes);
  for (int i = 1; i < bytes; i++) {
    if ((at[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (at[i] & 0x3FU);
  }
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < lowest[bytes] || surrogate || code > 0x10FFFF ? 0 : bytes;
}

int check_name(const char *what, span name, int64_t bytes_max, fp_error *err) {
  if (name.bytes <= 0) return err_set(err, FP_INVALID, "%s is empty", what);
  if (name.bytes > bytes_max) {
    return err_set(err, FP_INVALID, "%s has %lld bytes; at most %lld are allowed", what,
                   (long long)name.bytes, (long long)bytes_max);
  }
  const unsigned char *at = (const unsigned char *)name.at, *end = at + name.bytes;
  while (at < end) {
    int bytes = character(at, end);
    if (bytes == 0) return err_set(err, FP_INVALID, "%s is not valid UTF-8", what);
    if (*at == 0) return err_set(err, FP_INVALID, "%s contains a NUL character", what);
    at += bytes;
  }
  return FP_OK;
}
