"""A streaming source that makes a Spark query an ordinary member of a group."""
