"""Options: every option class, the forms and checks of their values."""
