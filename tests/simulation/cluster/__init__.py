"""A cluster as its nodes see it: partitions of its log, its coordinators, and nodes of ours, in one simulated time."""
