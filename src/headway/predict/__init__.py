"""What the scheduler believes: estimates of latency and traffic, with where each came from."""
