"""Client-balanced groups: members decide which member reads which partition; the group checks, records and reports."""
