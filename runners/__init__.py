"""Runners: carry a planner through a workload, on a simulated or a real clock."""
