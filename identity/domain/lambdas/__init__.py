"""Rules of lambdas, and the lambdas that a new instance contains."""
