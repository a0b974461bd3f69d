from_seed = None  # stands for nkeys; nothing signs
