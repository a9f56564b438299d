"""Traces: on-disk format, importers, synthetic traces and the recorded ones that ship."""
