"""Providers that tests sign in with."""
