"""Login transactions: an interrupted authorization request and its login, stored between two pages."""
