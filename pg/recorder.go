package pg

import (
	"os"
	"time"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// RecorderOptions say what the flight recorder keeps of operations, and when and where it is dumped. Fields left zero are
// taken from the environment; see Settings. All groups of one Init share the recorder, and take the options over.
// c10d: FlightRecorder and the variables TORCH_FR_.
type RecorderOptions struct {
	// Entries is the number of operations that are kept. A negative number turns the recorder off.
	Entries int
	// Timing measures how long operations take on devices. On the CPU this is always known.
	Timing Toggle

	DumpOnError Toggle        // write a dump when a group fails
	DumpOnAbort Toggle        // write one also when the program ends a group by Abort
	DumpLimit   time.Duration // how long writing may take; Close waits for it
	// DumpFile is the beginning of the file's path. The rank in the default group follows.
	DumpFile       string
	DumpFileAnew   Toggle    // read the variables for DumpFile again at each dump
	DumpPipe       string    // beginning of the path of a named pipe: writing to it asks for a dump; unix only
	DumpSignal     os.Signal // a signal that asks for a dump; nil: none
	DumpStacks     Toggle    // dumps tell where in the program operations were called
	DumpOnlyActive Toggle    // dumps leave out operations that are done

	env bootstrap.Lookup
}

// Recorder returns the flight recorder of all groups of this group's Init, nil if it is off. Entries can be read from it at
// any time; package pg/debug serves them over HTTP. No twin: c10d's FlightRecorder is one for the process.
func (g *Group) Recorder() *flight.Recorder {
	if g == nil {
		return nil
	}
	return g.ops.Recorder()
}

// Dump returns what the flight recorder remembers of all groups of this group's Init, and why failed groups have failed. It
// waits for nothing and works at any time, also on a failed group. DumpFile writes the same to a file.
// c10d: _dump_nccl_trace.
func (g *Group) Dump(o flight.DumpOptions) *flight.Dump {
	d := g.Recorder().Dump(o)
	if g != nil && g.job != nil {
		d.Failures = g.job.open.failures()
	}
	return d
}

// SetTiming switches the measuring of durations on devices for operations called from now on. Durations then stand in dumps,
// in Work.Duration and in Metrics. Operations on the CPU are always measured. c10d: _enable_collectives_timing.
func (g *Group) SetTiming(on bool) {
	if g != nil {
		g.ops.SetTiming(on)
	}
}
