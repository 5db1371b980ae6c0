"""Reports: pages of text, charts, tables and media over runs of a project."""
