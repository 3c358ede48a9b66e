"""Operations that every object shares: generic verbs, search, references, and logs."""
