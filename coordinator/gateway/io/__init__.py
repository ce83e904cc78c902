"""EDGES: connections to the cluster's brokers and the listeners in front of them."""
