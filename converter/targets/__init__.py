"""What one runtime needs said differently than the plain IR says it: rules by name, one package a runtime."""
