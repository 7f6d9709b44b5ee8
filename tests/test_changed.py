"""Tests that reach changed lines, chosen from what was recorded."""

from __future__ import annotations

from tests import changed

DIFF = """\
--- a/converter/cost.py
+++ b/converter/cost.py
@@ -12 +12 @@ def one
-    return 1
+    return 2
@@ -30,0 +31,2 @@
+    more
+    lines
--- a/ir_runtime/new.py
+++ b/ir_runtime/new.py
@@ -3,2 +3 @@
-a
-b
+c
"""


def test_ranges_are_those_of_the_old_side() -> None:
    assert changed.changed_lines(DIFF) == {"converter/cost.py": [(12, 12), (30, 30)], "ir_runtime/new.py": [(3, 4)]}


def test_the_quickest_tests_of_changed_functions_run() -> None:
    slow = changed.SECONDS - 1
    reached = {
        "converter/cost.py": [
            (10, 14, [(0.1, "one"), (slow, "slow"), (2.0, "two")]),
            (28, 40, [(0.2, "three")]),
            (50, 60, [(0.1, "elsewhere")]),
        ]
    }
    assert changed.reaching(reached, {"converter/cost.py": [(12, 12)], "ir_runtime/a.py": [(1, 1)]}) == {"one", "slow"}
    assert changed.reaching(reached, {"converter/cost.py": [(12, 12), (30, 30)]}) == {"one", "three", "slow"}
