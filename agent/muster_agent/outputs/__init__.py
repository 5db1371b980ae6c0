"""Outputs of jobs: the files of their work folders, copied to the storage and back."""
