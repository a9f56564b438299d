"""lightspec-bench: which dynamic speculative-decoding planner is fastest on your workload."""

__version__ = "0.1.0"
