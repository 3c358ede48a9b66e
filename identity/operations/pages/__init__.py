"""Operations behind the hosted and self-service pages."""
