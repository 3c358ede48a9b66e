"""Mail, text messages, their templates and messengers, and notifications and events about users."""
