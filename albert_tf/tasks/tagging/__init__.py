"""Tags of words: entities, and parts of speech."""
