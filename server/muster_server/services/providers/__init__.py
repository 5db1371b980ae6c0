"""Providers of pools: what they are to do, and the pilots that they have submitted."""
