"""EDGE: connections between cores and servers. `driver` decides, `thread` and `loop` move the bytes."""
