"""What people read: HTML pages of a conversion, a verification and a difference, and their text for terminals."""
