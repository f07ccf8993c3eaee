package main

import (
	"fmt"
	"strings"

	"github.com/colligo-go/colligo/cuda/peer"
)

// grids is the flag -try: algorithms and grids for -tune on GPUs.
type grids []peer.Rule

// String is for the flag package.
func (g *grids) String() string {
	var all []string
	for _, c := range *g {
		all = append(all, gridLabel(c))
	}
	return strings.Join(all, ",")
}

// Set reads a list with commas. An entry is an algorithm, blocks x threads, and, if it is to be bounded, the largest tile:
// "tiles 256x256 16Ki".
func (g *grids) Set(text string) error {
	for entry := range strings.SplitSeq(text, ",") {
		c, err := parseGrid(entry)
		if err != nil {
			return fmt.Errorf("%q: %w", entry, err)
		}
		*g = append(*g, c)
	}
	return nil
}

func parseGrid(entry string) (peer.Rule, error) {
	words := strings.Fields(entry)
	if len(words) < 2 || len(words) > 3 {
		return peer.Rule{}, fmt.Errorf("an entry is an algorithm, blocks x threads, and perhaps a tile")
	}
	c := peer.Rule{Algorithm: peer.Algorithm(words[0]), Registered: peer.Algorithm(words[0]).Registered()}
	if _, err := fmt.Sscanf(words[1], "%dx%d", &c.Blocks, &c.Threads); err != nil {
		return c, fmt.Errorf("%q is not blocks x threads", words[1])
	}
	if len(words) == 2 {
		return c, nil
	}
	var err error
	c.Tile, err = parseSize(words[2])
	return c, err
}

// gridLabel prints an entry as Set reads it.
func gridLabel(c peer.Rule) string {
	label := fmt.Sprintf("%s %dx%d", c.Algorithm, c.Blocks, c.Threads)
	if c.Tile > 0 {
		label += " " + formatSize(c.Tile)
	}
	return label
}
