"""Server-side assignors (docs/spec/consumer-group-protocol.md#5): plain functions of members, topics and the previous
target.

Each is a generator, so that thousands of members delay nobody: it yields now and then, with the estimated cost of its
last piece in microseconds, and returns the target. `run` takes it to its end at once.
"""
