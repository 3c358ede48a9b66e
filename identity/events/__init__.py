"""Events: catalogue, bus, subscriptions, and the delivery of one event to one webhook."""
