"""Two-factor authentication: policy, trusted devices, codes, and methods."""
