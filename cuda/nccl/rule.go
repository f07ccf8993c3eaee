package nccl

import (
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// The algorithms of rules.
const (
	// Flat is NCCL's own choice, among all ranks at once.
	Flat = "nccl"
	// TwoLevel reduces within each host by this library's kernels, and between hosts by NCCL (levels.go).
	TwoLevel = "two_level"
)

// Rule picks the algorithm of some all-reduces of ranks on several hosts. The first rule of a table that covers an operation decides. Flat
// carries what no rule covers, and what TwoLevel cannot take.
type Rule struct {
	Coll      plan.Coll // plan.AllReduce
	MaxHosts  int       // 0 is any
	MaxLocal  int       // ranks of each host; 0 is any
	MaxBytes  int       // of the tensor; 0 is any
	Sockets   bool      // only where no rank's host has an adapter of InfiniBand, RoCE or EFA
	Algorithm string
}

// SocketRules is a table for hosts that talk through sockets. No group has it unless its program gives it. With h hosts of l ranks each, a ring of all
// ranks has a host send 2(hl-1)/(hl) of the tensor over the network. In two levels it sends 2(h-1)/h. That is half for two hosts, and
// hardly less for many. The steps within the hosts do not overlap with the network, which counts where each rank has a fast adapter. So
// the table takes two levels for few hosts with sockets. Its bounds come from such counting, and were not measured on a network.
func SocketRules() []Rule {
	return []Rule{
		{Coll: plan.AllReduce, MaxBytes: 256 << 10, Algorithm: Flat},
		{Coll: plan.AllReduce, MaxHosts: 4, Sockets: true, Algorithm: TwoLevel},
	}
}

// String prints the rule, such as "all_reduce ≤4 hosts ≤256 KiB: nccl".
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Coll.String())
	if r.MaxHosts > 0 {
		fmt.Fprintf(&b, " ≤%d hosts", r.MaxHosts)
	}
	if r.MaxLocal > 0 {
		fmt.Fprintf(&b, " ≤%d ranks each", r.MaxLocal)
	}
	if r.MaxBytes > 0 {
		fmt.Fprintf(&b, " ≤%s", colligo.FormatBytes(int64(r.MaxBytes)))
	}
	if r.Sockets {
		b.WriteString(" sockets")
	}
	fmt.Fprintf(&b, ": %s", r.Algorithm)
	return b.String()
}

// checkRules refuses rules that no operation could follow.
func checkRules(all []Rule) error {
	for i, r := range all {
		if r.Coll != plan.AllReduce || r.Algorithm != Flat && r.Algorithm != TwoLevel {
			return fmt.Errorf("nccl: rule %d (%v): there are %s and %s for all_reduce", i, r, Flat, TwoLevel)
		}
		if r.MaxHosts < 0 || r.MaxLocal < 0 || r.MaxBytes < 0 {
			return fmt.Errorf("nccl: rule %d (%v): a bound is negative", i, r)
		}
	}
	return nil
}

// fitting returns the rules for some hosts of some ranks each, of which one has an adapter other than sockets or none has. It is empty if
// no rule takes two levels.
func fitting(all []Rule, hosts, local int, rdma bool) (fit []Rule) {
	two := false
	for _, r := range all {
		if (r.MaxHosts == 0 || hosts <= r.MaxHosts) && (r.MaxLocal == 0 || local <= r.MaxLocal) && !(r.Sockets && rdma) {
			fit = append(fit, r)
			two = two || r.Algorithm == TwoLevel
		}
	}
	if !two {
		return nil
	}
	return fit
}

// algorithmFor returns the algorithm of the first rule that covers so many bytes.
func algorithmFor(rules []Rule, bytes int) string {
	for _, r := range rules {
		if r.MaxBytes == 0 || bytes <= r.MaxBytes {
			return r.Algorithm
		}
	}
	return Flat
}
