"""Planners: one policy a file."""
