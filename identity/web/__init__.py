"""HTTP: the only room that knows Tornado; no product rule lives here."""
