"""EDGE: connections between cores and servers. `driver` has the logic, `thread` and `loop` the sockets."""
