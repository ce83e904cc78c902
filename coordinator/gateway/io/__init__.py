"""EDGES: connections to the cluster's brokers, and the listeners through which clients reach them."""
