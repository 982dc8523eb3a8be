"""The composition root: from a scenario to a wired engine, driver, policy and estimator."""
