"""Native clients that log in at a broker of the cluster: their logins, and their connections to it."""
