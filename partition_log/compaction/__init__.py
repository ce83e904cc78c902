"""Log compaction: which log is cleaned next, and one pass over it."""
