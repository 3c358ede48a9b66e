"""The command `identity import`: users, applications and groups of other products, through the API."""
