"""EDGES: connections to the cluster's brokers, and the listeners that clients reach them by."""
