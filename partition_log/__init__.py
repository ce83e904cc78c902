"""Record batches on disk: partition logs, and the one write-ahead log that makes them durable.

    compaction/  inspection/     the log cleaner; `musterd log`
    store/                       all logs of a data folder: appends, flushes, checkpoints, recovery
    log/                         one partition's log
    segments/  producers/  wal/  segment files and indexes; producer state; the write-ahead log and the checkpoint
    disk/                        the disk's protocol and open files

Each row imports only the rows below it.
"""
