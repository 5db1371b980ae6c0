"""What is done with versions of models that the built-in trainer has trained: programs that a document
starts in place of an entry point, and what they share. Importing this package does not import torch."""
