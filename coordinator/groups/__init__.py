"""The kinds of groups, a package each. They know messages, errors, records and what waits; no log, session or node."""
