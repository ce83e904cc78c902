"""EDGE: `musterd log move`, which moves groups and offsets between a data folder and the cluster's log."""
