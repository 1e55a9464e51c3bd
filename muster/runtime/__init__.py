"""What both worlds share: carrying out a plan, progress and restart accounting, and the record's tables."""
