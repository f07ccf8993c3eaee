"""Prints golden.txt: values in every protocol of Python's pickle module, one a line: name, protocol, hex."""
import pickle

shared = ["s"]
values = {  # from which protocol on the value needs no class, and the value
    "none": (0, None),
    "true": (0, True),
    "false": (0, False),
    "ints": (0, [0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)]),
    "big": (0, [2**63, -(2**63) - 1, 2**64, 10**30, -(10**700)]),
    "floats": (0, [0.0, -0.0, 1.5, 1e300, float("inf"), float("-inf")]),
    "text": (0, ["", "a", "ä€😀", "back\\slash \\u0041 line\n", "x" * 300]),
    "list": (0, [[], [1], list(range(1001))]),
    "tuple": (0, ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))),
    "dict": (0, {"a": 1, 2: "b", None: {}, (1, "x"): [True], 1.5: 2.5}),
    "shared": (0, [shared, shared, {"k": shared}]),
    "bytes": (3, [b"", b"abc", bytes(range(256))]),
    "bytearray": (5, bytearray(b"array")),
}
for name, (first, v) in values.items():
    for protocol in range(first, 6):
        print(name, protocol, pickle.dumps(v, protocol).hex())
