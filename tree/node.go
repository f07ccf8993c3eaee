package tree

import (
	"math/bits"

	"github.com/colligo-go/colligo/plan"
)

// node is one rank's place in a tree. Ranks are relative to the root, which is 0, until ranked.
type node struct {
	parent   int // plan.None at the root
	children []int
	end      int // the ranks below are those from this one on up to end; only where subtrees are ranges
	depth    int // edges to the root; only in the double tree
}

// ranked returns the node with ranks of the group in the place of ranks relative to the root.
func (t node) ranked(root, size int) node {
	abs := node{parent: t.parent, depth: t.depth}
	if t.parent != plan.None {
		abs.parent = (t.parent + root) % size
	}
	for _, c := range t.children {
		abs.children = append(abs.children, (c+root)%size)
	}
	return abs
}

// binomial returns the place of rel in the binomial tree of size ranks. A rank's parent is the rank without its lowest bit.
// So the ranks below rel are the range from rel to rel plus its lowest bit. Children come in rising order, which is that of
// their subtrees' sizes.
//
//	0 ─┬─ 1          000 ─┬─ 001
//	   ├─ 2 ── 3          ├─ 010 ─── 011
//	   └─ 4 ─┬─ 5         └─ 100 ─┬─ 101
//	         └─ 6                 └─ 110
func binomial(rel, size int) node {
	t, low := node{parent: plan.None}, size
	if rel > 0 {
		low = rel & -rel
		t.parent = rel - low
	}
	t.end = min(rel+low, size)
	for bit := 1; bit < low && rel+bit < size; bit *= 2 {
		t.children = append(t.children, rel+bit)
	}
	return t
}

// flat returns the place of rel in the tree in which all are children of the root.
func flat(rel, size int) node {
	if rel > 0 {
		return node{parent: 0, end: rel + 1}
	}
	t := node{parent: plan.None, end: size}
	for c := 1; c < size; c++ {
		t.children = append(t.children, c)
	}
	return t
}

// inorder returns the place of pos in the tree over positions 1…m, numbered in order, under which 0 is put as the root.
// The lowest bit of a position is its height: all odd positions are leaves, all even ones are not.
//
//	m = 10            8 ──── 0
//	            ┌─────┴────┐
//	            4          10
//	         ┌──┴──┐     ┌─┘
//	         2     6     9
//	        ┌┴┐   ┌┴┐
//	        1 3   5 7
func inorder(pos, m int) node {
	if pos == 0 {
		return node{parent: plan.None, children: []int{1 << (bits.Len(uint(m)) - 1)}}
	}
	t := node{parent: above(pos, m)}
	half := pos & -pos / 2
	if half > 0 {
		t.children = append(t.children, pos-half)
	}
	for half > 0 && pos+half > m {
		half /= 2
	}
	if half > 0 {
		t.children = append(t.children, pos+half)
	}
	for up := pos; up > 0; up = above(up, m) {
		t.depth++
	}
	return t
}

// above returns the parent of position pos in inorder's tree. One level up is one bit more. Where the tree is cut off there,
// the parent is the position whose right side was cut.
func above(pos, m int) int {
	low := pos & -pos
	if up := pos ^ low | low<<1; up <= m {
		return up
	}
	return pos ^ low
}

// double returns the place of rel in one of two trees of size ranks. Both have 0 as root with one child. The second is
// inorder's tree with the positions mirrored (if their number m is even) or shifted by one (if it is odd). So every rank but
// the root is a leaf in one of them at least.
//
//	m = 4    first     4 ── 0        second    1 ── 0
//	                 ┌─┘                       └─┐
//	                 2                           3
//	                ┌┴┐                         ┌┴┐
//	                1 3                         2 4
func double(second bool, rel, size int) node {
	m := size - 1
	there := func(pos int) int { return pos }
	back := there
	switch {
	case second && m%2 == 0:
		there = func(pos int) int { return m + 1 - pos }
		back = there
	case second:
		there = func(pos int) int { return pos%m + 1 }
		back = func(pos int) int { return (pos+m-2)%m + 1 }
	}
	pos := 0
	if rel > 0 {
		pos = there(rel)
	}
	t := inorder(pos, m)
	if t.parent > 0 {
		t.parent = back(t.parent)
	}
	for i, c := range t.children {
		t.children[i] = back(c)
	}
	return t
}

// below returns the end of the range of ranks below child i.
func (t node) below(i int) int {
	if i+1 < len(t.children) {
		return t.children[i+1]
	}
	return t.end
}
