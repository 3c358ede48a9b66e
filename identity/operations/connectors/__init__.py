"""Connectors: logins that another system, over HTTP or LDAP, authenticates."""
