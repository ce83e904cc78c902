"""The console: pages for a browser, rendered by the daemon."""
