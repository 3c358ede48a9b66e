"""Pure rules: everything decidable from its arguments alone."""
