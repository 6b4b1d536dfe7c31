"""The worker's rooms: what is taken, by whom it is run, how it ends, and what keeps it alive."""
