"""Real servers for tests: a private PostgreSQL, an in-process client."""
