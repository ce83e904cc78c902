"""Other people's clients against a server: see README.md beside this file."""
