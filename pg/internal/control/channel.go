package control

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Config is what a Channel knows of its group. The functions may be called from any goroutine.
type Config struct {
	Group        string
	Rank, Size   int
	Log          *slog.Logger
	Causes       Causes
	Fingerprints bool                                       // whether ranks compare fingerprints
	Describe     func(transport.Call) string                // words for Message.Call
	Common       func(*transport.Call) (kind, count uint64) // what all ranks must have in common of a collective beside its number
	Number       func(seq uint64) uint64                    // the number that the program counts for a Message.Seq
	Failed       func() error                               // the group's first error, nil while it works
	Left         func() []int                               // the peers that have closed the group; may be nil
	Wake         func()                                     // has the progress engine look again

	// Compare holds what a peer has called in a collective against what this rank called.
	Compare func(peer int, m *Message)

	// Inquire has f called once with where the collective at hand stands, nil if there is none. Failed is set if there is none and the
	// group has failed. The backend calls f under its lock, so f takes no lock of the group, and does not wait. Inquire reports false if
	// nothing is under way. It may be nil.
	Inquire func(f func(s *Standing, failed bool)) bool
}

// Channel is one rank's end of a group's control channel. The zero value keeps progress, and neither sends nor receives.
type Channel struct {
	Progress Progress

	config    Config
	announced announced
	roots     roots
	teller    *time.Timer // of TellHistorySoon
	mesh      atomic.Pointer[transport.Mesh]
	handlers  map[Kind]func(peer int, m *Message)
	queries   queries
	surveying atomic.Bool // a survey is under way
	checks    checks
	barrier   barrier
}

// Init tells the channel of its group, before the mesh opens.
func (c *Channel) Init(config Config) {
	c.config = config
	c.Progress.common = config.Common
	c.handlers = map[Kind]func(int, *Message){
		Query:       c.answer,
		Answer:      c.answered,
		Fingerprint: c.take,
		Barrier:     func(peer int, m *Message) { c.barrier.put(config.Rank, peer, m) },
	}
}

// Handle has messages of a kind go to f, which may be called from several goroutines at once. It is called before the mesh
// opens.
func (c *Channel) Handle(kind Kind, f func(peer int, m *Message)) { c.handlers[kind] = f }

// Use gives the channel the mesh to send over. Messages may arrive before.
func (c *Channel) Use(mesh transport.Mesh) { c.mesh.Store(&mesh) }

// Receive takes a message as it came. A mesh calls it from goroutines of its own.
func (c *Channel) Receive(peer int, b []byte) {
	var m Message
	if err := json.Unmarshal(b, &m); err != nil {
		c.config.Log.Warn("unreadable note", "group", c.config.Group, "rank", c.config.Rank, "peer", peer, "error", err)
		return
	}
	if handle := c.handlers[m.Kind]; handle != nil {
		handle(peer, &m)
		return
	}
	c.config.Log.Warn("unknown note", "group", c.config.Group, "rank", c.config.Rank, "peer", peer, "kind", string(m.Kind))
}

// Tell sends a message to every peer that still listens.
func (c *Channel) Tell(m *Message) {
	if c.mesh.Load() == nil {
		return // no peer is linked
	}
	b, err := json.Marshal(m)
	c.each(func(peer int) { c.post(peer, b, err, "note not sent") })
}

// TellNext sends a message to the next rank, if that still listens.
func (c *Channel) TellNext(m *Message) {
	if c.config.Size > 1 {
		c.send((c.config.Rank+1)%c.config.Size, m, "note not sent")
	}
}

// TellEach sends every peer that still listens a message of its own.
func (c *Channel) TellEach(of func(peer int) *Message) {
	c.each(func(peer int) { c.send(peer, of(peer), "note not sent") })
}

// each calls f for every peer.
func (c *Channel) each(f func(peer int)) {
	for peer := range c.config.Size {
		if peer != c.config.Rank {
			f(peer)
		}
	}
}

// send sends a message to one peer. why is what the log says if that fails.
func (c *Channel) send(peer int, m *Message, why string) {
	if c.mesh.Load() == nil {
		return // linked with that peer, but not yet with all
	}
	b, err := json.Marshal(m)
	c.post(peer, b, err, why)
}

// post sends a message in its written form, unless writing it has failed. The mesh is there.
func (c *Channel) post(peer int, b []byte, err error, why string) {
	if err == nil {
		err = (*c.mesh.Load()).Notify(peer, b)
	}
	if err != nil {
		c.config.Log.Debug(why, "group", c.config.Group, "rank", c.config.Rank, "peer", peer, "error", err)
	}
}

// Stir has queries and monitored barriers look at the group's error again.
func (c *Channel) Stir() {
	c.barrier.stir()
	c.queries.stir()
}

// Lost tells monitored barriers of a peer that is gone.
func (c *Channel) Lost(peer int) { c.barrier.lost(peer) }
