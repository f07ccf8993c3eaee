package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// DefaultMemory is how much memory a rank's symmetric heap takes at most where Options leave it zero, in bytes.
const DefaultMemory = 96 << 20

// Options say how a group's backend is made. All ranks give the same, except Driver. The zero value is the default.
type Options struct {
	Memory  int           // bytes of a rank's symmetric heap, or of the memory pinned to stage, at most; DefaultMemory if 0
	Rules   []Rule        // table by which algorithms are picked; nil takes DefaultRules
	Timeout time.Duration // how long an operation may stay unfinished before the group fails; the group's if 0
	Driver  *cuda.Driver  // nil opens the machine's; tests give a simulated one
	// Staged has everything go through pinned host memory and the group's transport, as it does without asking where GPUs
	// cannot reach each other. Rules then mean nothing.
	Staged bool

	host     string        // in tests, which host the rank believes to be on
	launch   time.Duration // in tests, how long that host takes to launch a kernel; measured if 0
	farewell time.Duration // in tests, how long a rank that closes waits for its peers at a peaceful end; the constant's if 0
}

type optionsKey struct{}

// With gives options to the first operation of a group on a device, which opens the backend with them.
func With(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// optionsOf returns the options of a context, with defaults filled in.
func optionsOf(ctx context.Context) (Options, error) {
	o, _ := ctx.Value(optionsKey{}).(Options)
	if err := o.fill(); err != nil {
		return o, err
	}
	if o.Driver != nil {
		return o, nil
	}
	var err error
	o.Driver, err = cuda.Open()
	return o, err
}

// DriverOf returns the driver by which operations with this context run: that of the options, else the machine's. The error is that of
// options which ask for what there is not, or of cuda.Open.
func DriverOf(ctx context.Context) (*cuda.Driver, error) {
	o, err := optionsOf(ctx)
	return o.Driver, err
}

// fill puts in the defaults that need neither a group nor a driver, and checks the rest.
func (o *Options) fill() error {
	if o.Memory < 0 || o.Timeout < 0 {
		return fmt.Errorf("options ask for %d bytes of memory and a timeout of %v", o.Memory, o.Timeout)
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.farewell == 0 {
		o.farewell = streamorder.Farewell
	}
	if o.Rules == nil {
		o.Rules = DefaultRules()
	}
	return checkRules(o.Rules)
}

// OnStream says which stream the caller works on, of the device of its tensors. Operations wait for that stream, run on it when
// they are not asynchronous, and Wait makes it wait. Without OnStream it is the legacy default stream.
//
// The stream must not be destroyed before the group has an operation on another one, or is closed. The watchdog looks there for how far the
// device has come.
func OnStream(ctx context.Context, s cuda.Stream) context.Context {
	return streamorder.OnStream(ctx, s)
}
