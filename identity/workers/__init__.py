"""Background work: delivery of webhooks, mails, text messages and logout tokens; kickstart; sweeping."""
