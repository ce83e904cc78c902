"""One file for each API: the list of its versions, then the table of each message."""
