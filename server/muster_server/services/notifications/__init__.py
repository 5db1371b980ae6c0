"""Notifications: rules and targets of users and projects, inboxes, and sending the outbox."""
