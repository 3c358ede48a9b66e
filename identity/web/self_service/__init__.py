"""Pages outside of a login: links of mails, forgotten passwords, and what users change about their own accounts."""
