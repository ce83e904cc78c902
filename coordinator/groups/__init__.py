"""The kinds of groups, a package each. They know messages, errors, records and delayed operations; no log, session or
node."""
