"""Rules for OpenVINO's CPU plug-in: a module for each family of rules.

The docstring of a rule tells what the plug-in gets wrong, refuses or runs slowly, and draws the layers before and
after. ``seen_in`` of a rule names the releases in which a probe under ``tests/converter/targets/`` showed the fault.
The same probe runs the plain IR in the installed plug-in, and is expected to fail: where it passes, the rule gets
``until``.
"""
