"""Saving and reading what a training consists of, each worker its part."""
