"""JavaScript of administrators: run in processes of its own, each invocation in a fresh engine with limits."""
