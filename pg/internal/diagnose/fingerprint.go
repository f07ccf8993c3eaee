package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo/pg/internal/ranklist"
)

// Fingerprint is what a rank calls, as the other ranks compare it at debug level DETAIL. Its form as JSON goes between ranks.
type Fingerprint struct {
	Coll    string
	Op      string `json:",omitempty"` // of collectives that reduce
	Root    int    `json:",omitempty"`
	Tensors int
	DType   string `json:",omitempty"`
	Device  string `json:",omitempty"` // kind of device
	Shape   string `json:",omitempty"` // of the tensors that all ranks have; empty where they may differ
}

// aspects are what two fingerprints can differ in.
var aspects = []struct {
	name string
	only bool // between calls of the same collective
	of   func(f *Fingerprint) string
}{
	{"collective", false, func(f *Fingerprint) string { return f.Coll }},
	{"reduction", true, func(f *Fingerprint) string { return f.Op }},
	{"root", true, func(f *Fingerprint) string { return fmt.Sprint(f.Root) }},
	{"number of tensors", false, func(f *Fingerprint) string { return fmt.Sprint(f.Tensors) }},
	{"element type", false, func(f *Fingerprint) string { return f.DType }},
	{"device", false, func(f *Fingerprint) string { return f.Device }},
	{"shape", false, func(f *Fingerprint) string { return f.Shape }},
}

// Differences says in what ranks differ and which ranks called what. It is empty where all have called the same. The
// fingerprints are by rank, one of each.
func Differences(ranks []*Fingerprint) string {
	var all []string
	for _, a := range aspects {
		if a.only && len(all) > 0 {
			continue // of different collectives it says nothing
		}
		if sides := sides(ranks, a.of); len(sides) > 1 {
			all = append(all, fmt.Sprintf("%s: %s", a.name, strings.Join(sides, ", ")))
		}
	}
	if all == nil {
		return ""
	}
	return "ranks differ in " + strings.Join(all, "; ")
}

// sides groups the ranks by one aspect of their calls, in the order of each group's first rank.
func sides(ranks []*Fingerprint, of func(*Fingerprint) string) []string {
	by, order := map[string][]int{}, []string(nil)
	for rank, f := range ranks {
		v := of(f)
		if by[v] == nil {
			order = append(order, v)
		}
		by[v] = append(by[v], rank)
	}
	sides := make([]string, len(order))
	for i, v := range order {
		sides[i] = ranklist.Text(by[v]) + " " + cmp.Or(v, "none")
	}
	return sides
}
