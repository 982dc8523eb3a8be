"""The event log, and what is computed from it: metrics, timeline, report."""
