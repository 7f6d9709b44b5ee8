"""The verdict on an IR: findings, report, statement, and the commands that give it."""
