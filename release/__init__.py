"""Building and preparing a release: `make dist` and `make release`."""
