"""What clients decide without I/O: fetching, producing, where a consumer stands, client-balanced groups."""
