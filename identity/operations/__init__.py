"""What the service does: one async function per deed, one module per subject."""
