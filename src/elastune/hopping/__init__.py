"""Model hopping (Cerebro): schedules, partitions, and which trial visits which partition next."""
