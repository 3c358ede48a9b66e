"""Rules of mail and messages: the template language, templates, and mail headers."""
