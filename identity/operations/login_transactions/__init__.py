"""Login transactions: an authorization request and its login, stored while a page comes before the response."""
