"""Launchers of Determined."""
