"""CAPTCHAs: the providers, and the evaluation of their responses."""
