"""The HTTP edge against a scripted coordinator: what is asked, what is shown, what is refused."""
