"""The Kafka wire protocol: an API a file in `schemas/`, compiled per version; `session.py` speaks it to a client."""
