"""What a job may see and touch: levels of isolation, and files that a job has written."""
