package pg

import (
	"fmt"
	"os"
	"time"

	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// Toggle is a switch that a program may leave to the environment.
type Toggle uint8

// The positions. The zero value takes the environment's, or the default of Settings.
const (
	On Toggle = iota + 1
	Off
)

// String is "on", "off", or "unset".
func (t Toggle) String() string {
	switch t {
	case On:
		return "on"
	case Off:
		return "off"
	}
	return "unset"
}

// ErrorMode is what becomes of the process when a group has failed. The group itself ends with its first error in every
// mode, and its operations with it; that is invariant 5.
type ErrorMode uint8

// The modes; those that end the process are never taken unless the program or COLLIGO_ASYNC_ERROR_HANDLING asks for them.
// The numbers of the variable are in brackets.
const (
	CleanUp     ErrorMode = iota + 1 // (2, the default) end what is pending on devices; the process goes on
	NoHandling                       // (0) leave devices to who waits for them: nobody watches operations that nobody waits for
	TearDown                         // (1) end what is pending on devices, then the process with ExitCode
	SkipCleanUp                      // (3) end the process with ExitCode and leave devices as they are, for a debugger
)

// ExitCode is the code with which a watchdog in mode TearDown or SkipCleanUp ends the process.
const ExitCode = 76

// String is the mode's name in logs.
func (m ErrorMode) String() string {
	switch m {
	case CleanUp:
		return "clean up"
	case NoHandling:
		return "no handling"
	case TearDown:
		return "tear down"
	case SkipCleanUp:
		return "skip clean up"
	}
	return "unset"
}

// ends reports whether the process ends with the group.
func (m ErrorMode) ends() bool { return m == TearDown || m == SkipCleanUp }

// DebugLevel is how much groups do to find mistakes. c10d: DebugLevel.
type DebugLevel uint8

// The levels. Detail compares what all ranks call before each collective, which costs a round of messages.
const (
	DebugOff DebugLevel = iota + 1
	DebugInfo
	DebugDetail
)

// String is the level as the environment has it.
func (l DebugLevel) String() string {
	switch l {
	case DebugOff:
		return "OFF"
	case DebugInfo:
		return "INFO"
	case DebugDetail:
		return "DETAIL"
	}
	return "unset"
}

// Watch says how groups look after themselves: what they check, what they record, and what they do when something is late
// or fails. Fields left zero are taken from the environment; see Settings. NewGroup hands it on.
type Watch struct {
	BlockingWait Toggle         // Work.Wait blocks until an operation on a device is done, or is late
	OnError      ErrorMode      // what becomes of the process when a group has failed
	Exit         func(code int) // ends the process in the modes that do; nil is os.Exit. Close waits for it
	Propagate    Toggle         // the first error also goes into the store, for ranks that no note reaches
	NaNCheck     Toggle         // floating point inputs of collectives and sends are searched for NaN
	Debug        DebugLevel
	Desync       Toggle // a timeout also logs one line on every rank's whereabouts

	Monitor    Toggle        // a goroutine looks after watchdogs, drivers, pipes and the store
	Heartbeat  time.Duration // without a sign of life for so long a driver or a watchdog counts as stuck
	CoordCheck time.Duration // how often pipe and store are looked at

	Entries int    // operations that the flight recorder keeps; negative: none
	Timing  Toggle // the recorder measures how long operations take on devices

	DumpOnError    Toggle        // write what is recorded when a group fails
	DumpOnAbort    Toggle        // also when the program ends it by Abort
	DumpLimit      time.Duration // how long writing may take; Close waits for it
	DumpFile       string        // beginning of the file's path; the rank in the default group follows
	DumpFileAnew   Toggle        // read the variables for DumpFile again at each dump
	DumpPipe       string        // beginning of the path of a named pipe that asks for a dump when written to; unix only
	DumpSignal     os.Signal     // a signal that asks for a dump; nil: none
	DumpStacks     Toggle        // dumps say from where operations were called
	DumpOnlyActive Toggle        // dumps leave out what is done

	env bootstrap.Lookup
}

// settle takes what the program has left open from the environment, and else from the table's defaults.
func (c *Config) settle(env bootstrap.Lookup) error {
	w := &c.Watch
	w.env = env
	for name, d := range map[string]time.Duration{"Heartbeat": w.Heartbeat, "CoordCheck": w.CoordCheck, "DumpLimit": w.DumpLimit} {
		if d < 0 {
			return fmt.Errorf("pg: Watch.%s is %v", name, d)
		}
	}
	if w.OnError > SkipCleanUp || w.Debug > DebugDetail {
		return fmt.Errorf("pg: Watch has OnError %d and Debug %d, which are not among the constants", w.OnError, w.Debug)
	}
	for i := range variables {
		s := &variables[i]
		if s.apply == nil || s.given(c) {
			continue
		}
		name, value := s.Name, s.Default
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if v, ok := env(n); ok && v != "" {
				name, value = n, v
				break
			}
		}
		if err := s.apply(c, name, value); err != nil {
			return fmt.Errorf("pg: environment variable %s is %q: %w", name, value, err)
		}
	}
	return nil
}
