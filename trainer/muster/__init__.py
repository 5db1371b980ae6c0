"""Muster's training SDK. Importing it needs nothing but the standard library."""

__version__ = "0.1.0"
