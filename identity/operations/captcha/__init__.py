"""Verification of CAPTCHAs at their providers."""
