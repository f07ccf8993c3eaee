package bootstrap

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// List is the members of a group to be made of another one, in the order of their ranks in the new group.
type List struct {
	Ranks  []int // in the other group
	Name   string
	Global []int // in the default group
}

// AllRanks lists the ranks of a group.
func AllRanks(size int) []int {
	all := make([]int, size)
	for r := range all {
		all[r] = r
	}
	return all
}

// CheckRanks refuses a list that is empty, names a rank twice or one that is not among size.
func CheckRanks(ranks []int, size int) error {
	if len(ranks) == 0 {
		return errors.New("no ranks")
	}
	for i, r := range ranks {
		if r < 0 || r >= size || slices.Contains(ranks[:i], r) {
			return fmt.Errorf("rank %d of %d is out of range or named twice", r, size)
		}
	}
	return nil
}

// Disjoint sorts each list and refuses a rank that two of them name.
func Disjoint(ranks [][]int) ([]List, error) {
	if len(ranks) == 0 {
		return nil, errors.New("no lists of ranks")
	}
	in := map[int]int{}
	lists := make([]List, len(ranks))
	for i, l := range ranks {
		lists[i].Ranks = slices.Sorted(slices.Values(l))
		for _, r := range l {
			if first, named := in[r]; named && first != i {
				return nil, fmt.Errorf("rank %d is in both %v and %v", r, ranks[first], l)
			}
			in[r] = i
		}
	}
	return lists, nil
}

// longestText bounds the text of lists that a rank sends, in bytes.
const longestText = 16 << 10

// Describe returns lists as a text for Differ, cut to a bound, and a hash of the whole text. By the hash ranks find out whether
// they make the same groups.
func Describe(lists []List) (text []byte, sum int64) {
	ranks := make([][]int, len(lists))
	for i, l := range lists {
		ranks[i] = l.Ranks
	}
	text, _ = json.Marshal(ranks) // numbers can be marshalled
	h := fnv.New64a()
	h.Write(text)
	return text[:min(len(text), longestText)], int64(h.Sum64())
}

// Differ words in what the lists of another rank, from its Describe, differ from this rank's.
func Differ(theirs []byte, ours []List) string {
	var lists [][]int
	mine, _ := Describe(ours)
	switch err := json.Unmarshal(theirs, &lists); {
	case err != nil || len(lists) != 1 || len(ours) != 1:
		return fmt.Sprintf("the groups are of ranks %s, here they are of %s", theirs, mine)
	case len(lists[0]) != len(ours[0].Ranks):
		return fmt.Sprintf("the group has %d ranks, %v, here it has %d, %v", len(lists[0]), lists[0], len(ours[0].Ranks), ours[0].Ranks)
	}
	return fmt.Sprintf("the group is of ranks %v, here it is of %v", lists[0], ours[0].Ranks)
}

// ByColor groups ranks, whose color and key are at 2*rank, by color in ascending order. Ranks of color none are left out.
func ByColor(all []int64, none int64) []List {
	ranks := make([]int, 0, len(all)/2)
	for r := range len(all) / 2 {
		if all[2*r] != none {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return slices.Compare(all[2*a:2*a+2], all[2*b:2*b+2]) })
	var lists []List
	for i, r := range ranks {
		if i == 0 || all[2*r] != all[2*ranks[i-1]] {
			lists = append(lists, List{})
		}
		l := &lists[len(lists)-1]
		l.Ranks = append(l.Ranks, r)
	}
	return lists
}

// made counts the groups that are made of one, by which they are named.
type made struct {
	mu     sync.Mutex
	groups int            // with numbers in their names
	dups   int            // of backends
	splits int            // calls that split the group
	hashed map[string]int // groups with hashes in their names, by their ranks
}

// NameAll gives the groups that are made of this one their names: numbers that count them, or hashes of their ranks. It returns how many
// have been counted.
func (f *Formation) NameAll(lists []List, hashed bool) (counted int) {
	m := &f.made
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range lists {
		l := &lists[i]
		l.Global = make([]int, len(l.Ranks))
		for j, r := range l.Ranks {
			l.Global[j] = f.Ranks[r]
		}
		if hashed {
			l.Name = f.Name + "/" + m.nextHash(l.Global)
			continue
		}
		m.groups++
		l.Name = fmt.Sprintf("%s/%d", f.Name, m.groups)
	}
	return m.groups
}

// CountTo has the next group be named as if so many had been counted. Ranks that have counted different numbers agree so.
func (f *Formation) CountTo(counted int) {
	f.made.mu.Lock()
	defer f.made.mu.Unlock()
	f.made.groups = counted
}

// NameByTorch gives the groups the names that they have in ranks of PyTorch. Numbers count the groups of the job, from the given
// one on. Hashes are of their ranks and of the number of groups that the process is in.
func (f *Formation) NameByTorch(lists []List, hashed bool, number, groups int) {
	for i := range lists {
		l := &lists[i]
		l.Global = slices.Clone(l.Ranks)
		l.Name = strconv.Itoa(number + i)
		if hashed {
			l.Name = HashedName(l.Global, groups)
		}
	}
}

// NameDup names one more duplicate of the group.
func (f *Formation) NameDup() string {
	f.made.mu.Lock()
	defer f.made.mu.Unlock()
	f.made.dups++
	return fmt.Sprintf("%s/dup%d", f.Name, f.made.dups)
}

// CountSplit returns how often the group has been split before.
func (f *Formation) CountSplit() int {
	f.made.mu.Lock()
	defer f.made.mu.Unlock()
	f.made.splits++
	return f.made.splits - 1
}

// nextHash names one more group of the same ranks. Here, groups of the same ranks are counted. In c10d all groups count that
// the process is in, so ranks whose other groups differ in number miss one another. Where c10d's names work, these are the
// same.
func (m *made) nextHash(global []int) string {
	if m.hashed == nil {
		m.hashed = map[string]int{}
	}
	key := fmt.Sprint(global)
	m.hashed[key]++
	return HashedName(global, m.hashed[key])
}

// HashedName is SHA-1 of "r0_r1_..._n" in hexadecimal, as c10d names a group of these ranks of the default group.
func HashedName(ranks []int, n int) string {
	var b strings.Builder
	for _, r := range append(slices.Clone(ranks), n) {
		if b.Len() > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strconv.Itoa(r))
	}
	sum := sha1.Sum([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}
