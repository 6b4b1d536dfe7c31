"""What the testing kit does to a worker and to the clock."""
