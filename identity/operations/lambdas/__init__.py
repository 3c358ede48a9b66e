"""Lambdas: administrators' JavaScript, validated, stored and invoked."""
