"""Decisions about notifications: which events make one, who gets it, and when it is sent again."""
