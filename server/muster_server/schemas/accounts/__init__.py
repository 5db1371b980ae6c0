"""Models of users, and of what belongs to a user or a project."""
