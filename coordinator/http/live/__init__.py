"""Server-sent events and webhooks: changes of groups, as they happen."""
