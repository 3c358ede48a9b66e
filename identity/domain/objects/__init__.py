"""Rules that every object shares: resource definitions, search, patches, masking, and generated identifiers."""
