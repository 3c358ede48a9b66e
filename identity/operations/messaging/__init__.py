"""Mail and text messages: templates, rendering, queueing, and notifications to users."""
