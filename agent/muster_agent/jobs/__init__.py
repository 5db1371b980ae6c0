"""Allocations on this node: their folders, processes and ends."""
