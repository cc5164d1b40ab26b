"""The stack's template: translation as SAM does it, and checks by our own rules."""
