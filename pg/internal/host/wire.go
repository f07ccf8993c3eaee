package host

import (
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// Wire is how operations go over the links of a group: as frames of a mesh, or in the protocol of another library. All methods
// but Check are called by the goroutine that runs the progress engine.
type Wire interface {
	// Check returns why an operation cannot be carried out, before it has a number. Any goroutine calls it.
	Check(o *op.Op) error
	// Poll is called at the begin of every poll. An error ends the group.
	Poll() error
	// Begin plans a collective whose turn has come, and fills in its Start, which is zero.
	Begin(o *op.Op, s *Start) error
	// Message moves a send or receive. It reports whether anything moved and whether the message is over.
	Message(m *Message) (moved, over bool, err error)
	// Clear ends a poll, after all of its messages have had their turn. It reports whether anything moved out of their way.
	Clear() (moved bool)
	// Withdraw gives up payloads that peers have not read, before their memory goes back to the callers.
	Withdraw()
}

// Start is a collective that can begin: its plan, the way of its messages, and its kernel if it reduces. Memory is that of the
// operation's tensors, unless In or Out is given. The input is multiplied by Weight before it is reduced, unless that is 0. With
// Finish the output is finished by that kernel after the plan's last step.
// With Halves, the worker carries out the second of them beside the first. Together they are the Plan.
type Start struct {
	Plan    *plan.Plan
	Halves  *[2]plan.Plan
	Port    engine.Port
	Kernel  engine.Kernel
	Finish  engine.Kernel
	Weight  float64
	In, Out []byte
}
