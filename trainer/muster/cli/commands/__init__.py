"""What each command does: a file for `muster NAME`, or for a group of commands."""
