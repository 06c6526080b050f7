"""Who is it: one embedding against many."""
