"""An API a file: the ledger of its versions, then the table of each message."""
