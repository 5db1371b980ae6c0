"""Arithmetic on timelines of devices: communication, computation, what overlaps, and who waits for whom.

Needs the standard library alone. Apart from the reader of files, everything here is pure.
"""
