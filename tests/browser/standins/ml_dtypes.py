"""Types of this size without arithmetic, for a Pyodide without ml_dtypes: models that have such types are left out."""

from __future__ import annotations

import numpy as np

NAMES = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("int2", "int4", "uint2", "uint4"),
)
globals().update({name: np.dtype([(name, "V1")]) for name in NAMES})
bfloat16 = np.dtype([("bfloat16", "V2")])
