"""Issuance of tokens: token responses, tokens over the API, and recognition of issued tokens."""
