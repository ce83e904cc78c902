"""EDGE: what connects cores with servers. `driver` decides, `thread` and `loop` move the bytes."""
