"""Headway schedules many tenants' model inference on shared hardware so that each latency SLA holds."""
