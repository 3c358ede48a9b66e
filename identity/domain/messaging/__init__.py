"""Rules of mail and messages: templates, their language, and the format of mails."""
