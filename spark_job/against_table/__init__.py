"""What the next run would change in the tables of a configuration, found without Java."""
