"""The write-ahead log and the checkpoint: what a start reads before the logs."""
