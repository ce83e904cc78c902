"""The HTTP interface: paths to messages, replies to JSON."""
