"""One module for each queue; see `bench.peers.peer`."""
