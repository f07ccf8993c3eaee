package control

import (
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/transport"
)

// Kind tells what a message is for.
type Kind string

// The kinds. Their texts go between ranks.
const (
	Abort       Kind = "abort"  // the sender's group has failed
	Query       Kind = "where"  // progress query: which operation have you entered?
	Answer      Kind = "here"   // the answer to a progress query
	Called      Kind = "called" // what the sender has called, for peers to compare
	Fingerprint Kind = "print"  // what the sender calls, at debug level DETAIL
	Dump        Kind = "dump"   // write what is recorded
	Barrier     Kind = "gate"   // of a monitored barrier
	Parting     Kind = "part"   // the sender closes the group; Seq is the last collective that it has called
	Leaving     Kind = "leave"  // the sender leaves the group; Seq is the last collective on devices that can complete with it
)

// Message is what goes between two ranks. Each kind uses some of the fields.
type Message struct {
	Kind     Kind
	Token    uint64 `json:",omitempty"`      // of a query and its answer
	Seq      uint64 `json:",omitempty"`      // of the operation: failed, entered last, or asked about
	Call     string `json:",omitempty"`      // what was called, in words
	History  uint64 `json:",omitempty"`      // hash of all collectives on devices up to Seq
	Cause    string `json:",omitempty"`      // name of a sentinel, see Causes
	Text     string `json:",omitempty"`      // the error
	Suspects []int  `json:"Blame,omitempty"` // ranks at fault, as far as the sender can tell

	Done  uint64 `json:",omitempty"` // the last collective that is complete
	Asked string `json:",omitempty"` // of an answer: the collective that was asked about, in words, where the sender has gone on since
	Sends []int  `json:",omitempty"` // peers of the sender's pending sends
	Recvs []int  `json:",omitempty"` // peers of its pending receives, diagnose.AnyPeer among them

	Sent uint64 `json:",omitempty"` // of a leaving sender: its messages on devices to the receiver of this that are done
	Got  uint64 `json:",omitempty"` // and those from it

	// Of an answer: where the collective stands that the sender is in, as in diagnose.Snapshot.
	Partial bool      `json:",omitempty"` // it follows in another answer, unless bytes move; or the sender has failed
	Stands  *Standing `json:",omitempty"`

	Fingerprint *diagnose.Fingerprint `json:"Print,omitempty"` // of what the sender calls
}

// Standing is where a collective stands, as in diagnose.Snapshot.
type Standing struct {
	At   uint64        `json:",omitempty"`
	From []int         `json:",omitempty"`
	Sent map[int]int64 `json:",omitempty"`
	Got  map[int]int64 `json:",omitempty"`
}

// Cause is a sentinel error and the name by which it goes between ranks.
type Cause struct {
	Name     string
	Sentinel error
}

// Causes are the sentinels that go between ranks. The first that an error matches is its cause.
type Causes []Cause

// name returns the name of an error's cause, empty if it has none.
func (cs Causes) name(err error) string {
	for _, c := range cs {
		if errors.Is(err, c.Sentinel) {
			return c.Name
		}
	}
	return ""
}

// sentinel returns the sentinel with a name, nil if there is none.
func (cs Causes) sentinel(name string) error {
	for _, c := range cs {
		if c.Name == name {
			return c.Sentinel
		}
	}
	return nil
}

// mostSuspects bounds the suspects that a message names.
const mostSuspects = 1024

// Failure makes the message that tells peers of a group's error at an operation.
func (cs Causes) Failure(err error, seq uint64, suspects []int) *Message {
	return &Message{Kind: Abort, Seq: seq, Cause: cs.name(err), Text: Clip(err.Error()), Suspects: suspects[:min(len(suspects), mostSuspects)]}
}

// Reported is an error that a peer has told this rank of.
type Reported struct {
	Peer     int
	Text     string
	Sentinel error
	Suspects []int
}

// Error says which rank reported what.
func (e *Reported) Error() string { return fmt.Sprintf("rank %d reported: %s", e.Peer, e.Text) }

// Unwrap returns the sentinel, nil if there is none.
func (e *Reported) Unwrap() error { return e.Sentinel }

// Reported makes a peer's message the error that it tells of, in a group of so many ranks. It changes the message.
func (cs Causes) Reported(peer, size int, m *Message) *Reported {
	suspects := slices.DeleteFunc(m.Suspects, func(rank int) bool { return rank < 0 || rank >= size })
	return &Reported{peer, m.Text, cs.sentinel(m.Cause), suspects}
}

// Clip shortens a text so that a message with it is no longer than a message may be, escapes included.
func Clip(text string) string {
	const most = transport.MaxNote / 8
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
