"""EDGE: the log and the nodes' group at the cluster's brokers."""
