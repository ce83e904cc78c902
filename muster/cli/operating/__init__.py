"""Commands for operators: what is wrong, who did what, changes that can be undone."""
