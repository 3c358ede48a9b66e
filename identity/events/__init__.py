"""Which events exist, who hears of them, and how they reach a receiver."""
