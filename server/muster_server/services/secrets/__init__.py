"""Secrets of users and projects: encrypted in the database, delivered to jobs alone."""
