"""The command line against a node made of dictionaries, by way of the client's real connections' interface."""
