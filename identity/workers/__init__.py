"""Loops beside the requests: deliver webhooks, run the kickstart, sweep what expired."""
