"""What a job reports while it runs: over its socket, in event files, in its log."""
