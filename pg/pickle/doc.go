// Package pickle writes and reads plain values in the format of Python's pickle module: None, bool, int, float, str, bytes, list,
// tuple and dict. It serves the object collectives, whose objects are pickles, and the dumps of the flight recorder.
//
//	Python       Go
//	None         nil
//	bool         bool
//	int          int64, *big.Int beyond its range; written also from Go's other integers
//	float        float64; written also from float32
//	str          string, which must be UTF-8
//	bytes        []byte; also read from bytearray
//	list         []any; written also from slices of these types
//	tuple        Tuple
//	dict         *Dict, in the order of its pairs; written also from maps, in the order of their keys
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Reading executes nothing and names no class: every opcode outside the subset is an error with its name and offset.
//  2. Memory is taken only for bytes that are there, and within Limits.
//  3. Values that are read have no cycles. A list or dict that is referred to twice in a pickle is one value in Go. Limits
//     bounds what a walk over all references meets.
//  4. Python reads a value that Marshal writes as the type in the table, and Unmarshal reads it as the type that stands
//     first there.
//
// The format is described in Python's Lib/pickletools.py; written are protocols 2 and 4, read are 0 to 5. Pickles of protocols 0 to
// 2 that hold bytes call a function in Python, and are refused.
//
// The package never reads more than one value: bytes behind it are an error.
package pickle
