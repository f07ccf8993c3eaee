package torch

import (
	"math/bits"

	"github.com/colligo-go/colligo/pg/backend"
)

// The primes of xxHash, by which CPython hashes tuples.
const (
	prime1 = 11400714785074694791
	prime2 = 14029467366897019727
	prime5 = 2870177450012600261
)

// GroupColor is the color by which a group of some ranks of the default group is split from that, where new_group makes it. The ranks
// are sorted. c10d: _process_group_color.
func GroupColor(ranks []int) int {
	acc := uint64(prime5)
	for _, r := range ranks {
		acc += uint64(r) * prime2
		acc = bits.RotateLeft64(acc, 31) * prime1
	}
	if acc += uint64(len(ranks)) ^ (prime5 ^ 3527539); acc == 1<<64-1 {
		acc = 1546275796
	}
	return int(magnitude(acc) % (1 << 31))
}

// SplitColor is the color by which split_group splits some ranks from their parent. The ranks are sorted, and numbered as the parent has
// them. From 2.11 on it is the lowest rank, for hashes of two lists could be equal. c10d: genNcclSplitColor.
func SplitColor(v backend.Version, ranks []int) int {
	switch {
	case v.From(2, 11):
		return ranks[0]
	case !v.From(2, 9):
		return GroupColor(ranks)
	}
	acc := uint64(0)
	for _, r := range ranks {
		acc ^= uint64(r) + 0x9e3779b9 + acc<<6 + acc>>2
	}
	return int(magnitude(acc) % (1<<31 - 1))
}

// magnitude is the absolute value of a signed number.
func magnitude(n uint64) uint64 {
	if int64(n) < 0 {
		return -n
	}
	return n
}
