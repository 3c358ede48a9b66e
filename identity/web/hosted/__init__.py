"""The pages that a person sees: they call the same operations as the API."""
