"""Operations behind single endpoints: introspection, revocation, userinfo, discovery, logins and tokens."""
