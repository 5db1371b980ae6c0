"""The processes of an allocation: their walls, their start, and how each of them ended."""
