"""Rules of user actions and of actions applied to users."""
