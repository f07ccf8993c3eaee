package pg

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/control"
)

// Recorder returns the flight recorder of all groups of this group's Init, nil if it is off. Entries can be read from it at
// any time; package pg/debug serves them over HTTP. No twin: c10d's FlightRecorder is one for the process.
func (g *Group) Recorder() *flight.Recorder {
	if g == nil {
		return nil
	}
	return g.ops.Recorder()
}

// Dump returns what the flight recorder remembers of all groups of this group's Init, and why failed groups have failed. It
// describes the communicators of NCCL, too. It waits for nothing and works at any time, also on a failed group. DumpFile writes the same to a file.
// c10d: _dump_nccl_trace.
func (g *Group) Dump(o flight.DumpOptions) *flight.Dump {
	d := g.Recorder().Dump(o)
	if g != nil && g.handler.dumper != nil {
		g.handler.dumper.fill(d)
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

// DumpFile writes what the flight recorder holds to the file for this rank, over what was there, and returns its path.
// Config.Recorder says where the file is and what is left out.
//
// It may be called at any time before Close, and works when the group has failed. The context bounds the wait; a write that
// the system holds up goes on behind it. Errors leave the group as it was. c10d: _dump_nccl_trace, which returns what
// DumpFile writes.
func (g *Group) DumpFile(ctx context.Context) (string, error) {
	if g == nil || g.rank < 0 {
		return "", fmt.Errorf("pg: dump: %w", ErrNotMember)
	}
	path, err := g.handler.dumpFile(ctx, g.config.Recorder.DumpStacks == On)
	if err != nil {
		err = fmt.Errorf("pg: group %s: dump of rank %d: %w", g.name, g.rank, err)
	}
	return path, err
}

// RequestDumps asks all ranks of the group to write their dumps, and writes this rank's. It does not wait for the others',
// and works when the group has failed. Errors are those of this rank's dump, and leave the group as it was. c10d:
// broadcastDumpSignal of ProcessGroupNCCL.
func (g *Group) RequestDumps(ctx context.Context) error {
	if g != nil && g.rank >= 0 && g.size > 1 {
		g.control.Tell(&control.Message{Kind: control.Dump})
	}
	_, err := g.DumpFile(ctx)
	return err
}
