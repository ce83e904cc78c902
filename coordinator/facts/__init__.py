"""Views and notes: what operators are told of groups, members and acts."""
