"""Commands about accounts: users, tokens and limits."""
