"""Verification of email addresses, phone numbers and registrations."""
