package tuning

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestText writes tables and reads them back.
func TestText(t *testing.T) {
	odd := []Rule{
		{Coll: plan.AllReduce, Algo: "ring", Lanes: 2, ChunkBytes: 1537},
		{Coll: plan.AllToAll, Medium: "tcp", MinSize: 3, Cores: Crowded, MaxBytes: 1000, Algo: "rotation", ChunkBytes: 64 << 10},
		{Coll: plan.Broadcast, Medium: "shm", MaxSize: 4, Cores: Enough, MaxBytes: 3 << 30, Algo: "chain"},
		{Coll: plan.ReduceScatter, Algo: "halving"},
		{Coll: plan.Broadcast, Medium: "tcp", Cores: Spare, OverBytes: 1000, MaxBytes: 1 << 20, Algo: "chain", Lanes: 2},
	}
	for _, table := range [][]Rule{Default(), odd, {}} {
		text := Format(table)
		got, err := Parse("# a comment\n\n" + strings.ReplaceAll(text, "\n", "  \n"))
		require.NoError(t, err, text)
		require.Equal(t, table, got)
	}
	require.Equal(t, "all_to_all tcp ranks 3- crowded up to 1000 B: rotation, lanes 1, chunks of 64 KiB", odd[1].String())
	require.Equal(t, "broadcast tcp spare-cores over 1000 B up to 1 MiB: chain, lanes 2", odd[4].String())
	short, err := Parse("all_reduce: direct")
	require.NoError(t, err)
	require.Equal(t, []Rule{{Coll: plan.AllReduce, Algo: "direct"}}, short)
}

func TestTextRefused(t *testing.T) {
	for line, says := range map[string]string{
		"all_reduce direct":                        "no colon",
		"all_reduced: direct":                      "all_reduced",
		"all_reduce: fastest":                      `no algorithm "fastest"`,
		"all_reduce udp: direct":                   `"udp" is no condition`,
		"all_reduce up to 4 KB: direct":            `"4 KB" is no size`,
		"all_reduce up to 99999999999 TiB: direct": "is no size",
		"all_reduce over much: direct":             `"over" is no condition`,
		"all_reduce over 4 KB: direct":             `"4 KB" is no size`,
		"all_reduce ranks two: direct":             "invalid syntax",
		"all_reduce: direct, lanes 3":              "3 lanes",
		"all_reduce: direct, pieces of 4 B":        "neither an algorithm",
		"all_reduce ranks: direct":                 `"ranks" is no condition`,
	} {
		_, err := Parse("# first\n" + line + "\n")
		require.ErrorContains(t, err, says, line)
		require.ErrorContains(t, err, "line 2, ")
	}
}

// TestAlgorithms reads tables on one line, and refuses what is unknown with a list of what there is.
func TestAlgorithms(t *testing.T) {
	got, err := ParseAlgorithms("all_reduce:ring, broadcast:chain")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"all_reduce": "ring", "broadcast": "chain"}, got)
	for text, says := range map[string]string{
		"all_reduce":                        `"all_reduce" names no algorithm: want COLLECTIVE:ALGORITHM`,
		"all_reduce:ring,":                  `"" names no algorithm`,
		"all_reduce:fastest":                `all_reduce has no algorithm "fastest"; there are direct, recursive_doubling, halving_doubling, circulant, double_tree, ring`,
		"allreduce:ring":                    `there is no collective "allreduce" with algorithms; there are all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, gather, scatter, barrier`,
		"send:ring":                         `there is no collective "send" with algorithms; there are all_reduce,`,
		"all_reduce:ring,all_reduce:direct": "all_reduce is named twice, with ring and direct",
	} {
		_, err := ParseAlgorithms(text)
		require.ErrorContains(t, err, says, text)
	}
	for _, name := range collectives() {
		c, err := plan.ParseColl(name)
		require.NoError(t, err)
		for _, algo := range Algorithms(c) {
			_, err := ParseAlgorithms(name + ":" + algo)
			require.NoError(t, err)
		}
	}
}

// FuzzParse holds Format and Parse to each other.
func FuzzParse(f *testing.F) {
	f.Add(Format(Default()))
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(table))
		require.NoError(t, err)
		require.Equal(t, table, again)
	})
}

// TestOver picks by bytes on both sides of a limit.
func TestOver(t *testing.T) {
	table := []Rule{{Coll: plan.AllReduce, OverBytes: 100, MaxBytes: 200, Algo: "direct"}}
	for bytes, algo := range map[int]string{0: "ring", 100: "ring", 101: "direct", 200: "direct", 201: "ring"} {
		require.Equal(t, algo, Pick(table, plan.AllReduce, Place{Size: 4}, bytes).Algo, bytes)
	}
}

// TestCores picks by how many cores there are for the ranks.
func TestCores(t *testing.T) {
	table := []Rule{{Coll: plan.AllReduce, Cores: Spare, Algo: "double_tree"}, {Coll: plan.AllReduce, Cores: Crowded, Algo: "direct"}, {Coll: plan.AllReduce, Cores: Enough, Algo: "circulant"}}
	require.Equal(t, "direct", Pick(table, plan.AllReduce, Place{Size: 4, Crowded: true}, 8).Algo)
	require.Equal(t, "circulant", Pick(table, plan.AllReduce, Place{Size: 4}, 8).Algo)
	require.Equal(t, "double_tree", Pick(table, plan.AllReduce, Place{Size: 4, Spare: true}, 8).Algo)
}
