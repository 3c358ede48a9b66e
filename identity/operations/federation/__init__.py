"""Logins through identity providers of others: who somebody is by their word, and which user that is here."""
