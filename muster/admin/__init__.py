"""Questions of whoever operates or analyses groups: what is known of groups, commits, notes and log ends."""
