"""Logins: password verification, the second step, known devices, login records, and threat detection."""
