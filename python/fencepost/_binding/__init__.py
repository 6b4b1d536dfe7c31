"""The core as Python sees it: one call of C each, laid out, made, read. ffi and lib are here."""
