"""Models of what explains how training fares, and predicts it."""
