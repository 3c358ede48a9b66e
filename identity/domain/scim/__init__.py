"""SCIM 2.0 (RFC 7643, 7644): resources, filters and patches, and their mapping to users and groups."""
