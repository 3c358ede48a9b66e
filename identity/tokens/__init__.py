"""Access, refresh and ID tokens and the keys that sign them; the sole importer of jose."""
