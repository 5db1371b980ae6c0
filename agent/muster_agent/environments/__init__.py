"""Python environments that jobs ask for, built once per node and content."""
