package pg

import (
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
)

func have(ranks []int) string { return ranklist.Verb(ranks, "has", "have") }

func rankList(ranks []int) string { return ranklist.Text(ranks) }

// anyPeer as the peer of a receive takes a message from whichever rank sends first.
const anyPeer = diagnose.AnyPeer

// mostNamed bounds the peers that a rank names.
const mostNamed = diagnose.MostNamed
