"""The command line with all of its commands, for tools that read it."""

from muster.cli.app import command_line

app = command_line()
