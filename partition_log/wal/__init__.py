"""The write-ahead log and the checkpoint, which a start reads before the logs."""
