"""Commands that explain how training fares, and predict it."""
