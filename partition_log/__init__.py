"""Record batches on disk: partition logs, and the one write-ahead log that makes them durable."""
