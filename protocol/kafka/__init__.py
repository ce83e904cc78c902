"""The Kafka wire protocol: one file for each API in `schemas/`, compiled for each version; `session.py` is the server's
side of a connection."""
