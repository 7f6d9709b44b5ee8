"""Rules for OpenVINO's CPU plug-in: one module a rule or a family of them, registered with ``rule``.

Each says what it matches, what it makes of it, and where the need for it was seen. For what the plug-in gets
wrong a probe under ``tests/targets/`` runs the plain IR in the real plug-in and is expected to fail: the day
it passes, the rule goes.
"""
