"""The administrators' console, `/admin`: server-rendered pages over the API."""
