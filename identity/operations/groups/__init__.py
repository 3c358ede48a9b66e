"""Groups, their members, and the roles that they grant."""
