"""What happens to groups, as it happens: server-sent events and webhooks."""
