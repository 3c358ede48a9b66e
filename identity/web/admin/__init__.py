"""The administrators' page: a client of /api that owns no operation."""
