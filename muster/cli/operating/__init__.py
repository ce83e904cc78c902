"""Commands for operators: problems, an audit of changes, and changes that can be undone."""
