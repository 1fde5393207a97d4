"""A sweep: its plan, how its runs are made, and what is shown meanwhile."""
