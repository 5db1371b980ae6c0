"""Adapters to batch systems: they translate, and decide nothing."""
