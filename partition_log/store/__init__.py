"""All logs of a data folder: appends, flushes, checkpoints and recovery."""
