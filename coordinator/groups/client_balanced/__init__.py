"""Client-balanced groups: members decide who reads what; the group checks, records and reports."""
