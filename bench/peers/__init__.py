"""Fencepost beside the queues that others would take: `python -m bench.peers`."""
