"""Many runs: suites, sweeps and plans, over all cores of a machine or of a cluster. Sits above wiring."""
