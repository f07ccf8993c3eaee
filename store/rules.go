package store

import (
	"fmt"
	"strconv"
)

// NextCount returns the number that follows cur when delta is added: the rule of Add. The text cur is decimal, or nothing
// when the key is not present.
func NextCount(cur []byte, present bool, delta int64) (int64, error) {
	var n int64
	if present {
		var err error
		if n, err = strconv.ParseInt(string(cur), 10, 64); err != nil {
			return 0, fmt.Errorf("stored value %.40q is not a number", cur)
		}
	}
	sum := n + delta
	if (sum > n) != (delta > 0) && delta != 0 {
		return 0, fmt.Errorf("%d plus %d exceeds int64", n, delta)
	}
	return sum, nil
}

// CountText is how a counter is stored.
func CountText(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// Exchange is the rule of CompareSet, as PyTorch's stores have it: what the caller is told, and whether desired is to
// be stored.
func Exchange(cur []byte, present bool, expected, desired []byte) (told []byte, stored bool) {
	switch {
	case !present && len(expected) == 0:
		return desired, true
	case !present:
		return expected, false
	case string(cur) == string(expected):
		return desired, true
	}
	return cur, false
}

// Pairs panics unless there are as many keys as values: the check at the door of MultiSet.
func Pairs(keys []string, vals [][]byte) {
	if len(keys) != len(vals) {
		panic(fmt.Sprintf("store: MultiSet with %d keys and %d values", len(keys), len(vals)))
	}
}
