"""The stack's template: translated as the service does it, and held against rules of our own."""
