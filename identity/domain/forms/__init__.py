"""Forms: their fields, their steps, and the values that a submitted form sets."""
