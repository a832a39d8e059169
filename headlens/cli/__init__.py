"""The command line: one file for each command, nothing heavy imported before a command runs."""
