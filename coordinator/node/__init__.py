"""One process's share of the service: events in, effects out."""
