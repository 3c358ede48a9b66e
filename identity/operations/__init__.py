"""Operations of the service: one async function per operation, one module per subject."""
