"""Rules of all objects: resource definitions, search, patches, masking and generated identifiers."""
