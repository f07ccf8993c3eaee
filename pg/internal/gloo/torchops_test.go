//go:build unix

package gloo_test

import (
	"fmt"
	"slices"
)

// opList builds the operations of a job. Each has a number of its own, which its values and results bear.
type opList struct {
	torch *torch
	size  int
	ops   []string
}

func (l *opList) add(name, dtype string, n, root int, op string) {
	l.ops = append(l.ops, fmt.Sprintf("%s %s %d %d %s %d", name, dtype, n, root, op, len(l.ops)))
}

// types are the element types that the version has.
func (l *opList) types() []string {
	types := []string{"float32", "float64", "float16", "int8", "uint8", "int32", "int64"}
	if l.torch.has(2, 1) {
		types = append(types, "bfloat16")
	}
	return types
}

// reductions are the collectives that reduce, and of them those whose tensors have a part for each rank.
func (l *opList) reductions() (all, parts []string) {
	all = []string{"all_reduce", "reduce", "all_reduce_coalesced", "asynchronous"}
	if l.torch.has(2, 3) {
		parts = append(parts, "reduce_scatter_tensor", "reduce_scatter_coalesced")
	}
	if l.torch.has(2, 8) {
		parts = append(parts, "reduce_scatter")
	}
	return all, parts
}

// moves are the collectives that copy, and of them those whose tensors have a part for each rank.
func (l *opList) moves() (all, parts []string) {
	all = []string{"broadcast", "ring", "any"}
	parts = []string{"all_gather", "gather", "scatter", "all_to_all_single", "all_to_all_uneven", "all_gather_coalesced"}
	if l.torch.has(2, 3) {
		parts = append(parts, "all_gather_into", "all_gather_into_coalesced")
	}
	if l.torch.has(2, 12) {
		parts = append(parts, "all_to_all")
	}
	return all, parts
}

// empty reports whether ranks of PyTorch carry out an operation on tensors without elements. No version receives such a message from
// any rank, and 1.13 divides by zero in an all_gather.
func (l *opList) empty(name string) bool {
	return name != "any" && (name != "all_gather" || l.torch.has(2, 1))
}

// short are all operations with all element types on short tensors, and those without tensors.
func (l *opList) short(counts ...int) {
	reduce, reduceParts := l.reductions()
	move, moveParts := l.moves()
	for i, d := range l.types() {
		for k, n := range counts {
			for _, op := range []string{"product", "min", "max"} {
				l.add("all_reduce", d, n, 0, op)
			}
			for _, name := range slices.Concat(reduce, move, reduceParts, moveParts) {
				if n > 0 || l.empty(name) {
					l.add(name, d, n, i+k, "sum")
				}
			}
		}
	}
	l.fixed()
}

// fixed are the operations that have their types and lengths.
func (l *opList) fixed() {
	for i, op := range []string{"band", "bor", "bxor"} {
		l.add("all_reduce", []string{"int32", "uint8", "int64"}[i], 1000, 0, op)
	}
	for _, d := range []string{"float32", "float64"} {
		for _, n := range []int{1, 33, 400} {
			l.add("sparse", d, n, 0, "sum")
		}
		if l.torch.has(2, 8) {
			l.add("all_reduce", d, 1001, 0, "avg")
			l.add("reduce", d, 1001, 1, "avg")
		} else {
			l.add("reduce_scatter_refused", d, 3, 0, "sum")
		}
		if !l.torch.has(2, 12) {
			l.add("all_to_all_refused", d, 3, 0, "sum")
		}
	}
	for root := range l.size {
		for _, name := range []string{"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"} {
			l.add(name, "int64", 1, root, "sum")
		}
	}
	l.add("group", "float32", 1003, 1, "sum")
	l.add("barrier", "int8", 1, 0, "sum")
	l.add("monitored_barrier", "int8", 1, 0, "sum")
	l.add("monitored_barrier", "int8", 2, 0, "sum")
}

// bytesOf is the length of an element.
var bytesOf = map[string]int{"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int32": 4, "int64": 8}

// long are all operations with all element types on 1,001 and 1,000,003 elements and on 20 MB. Tensors that have a part for each rank
// have as much in all parts, but of 1,001 elements in each.
func (l *opList) long() {
	reduce, reduceParts := l.reductions()
	move, moveParts := l.moves()
	const mb = 1_000_000
	for k, length := range []func(bytes, parts int) int{
		func(_, _ int) int { return 1_001 },
		func(_, parts int) int { return 1_000_003 / parts },
		func(bytes, parts int) int { return 20 * mb / bytes / parts },
	} {
		for i, d := range l.types() {
			for _, name := range slices.Concat(reduce, move) {
				l.add(name, d, length(bytesOf[d], 1), i+k, "sum")
			}
			for _, name := range slices.Concat(reduceParts, moveParts) {
				l.add(name, d, length(bytesOf[d], l.size), i+k, "sum")
			}
		}
	}
}
