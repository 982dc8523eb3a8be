"""Arrivals of requests: random processes and closed loops, each with its own named seed."""
