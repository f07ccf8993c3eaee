package pg

import "time"

// WatchdogOptions say when a group counts as stuck, and what becomes of the process when it has failed. Fields left zero are
// taken from the environment; see Settings. Groups made from a group take them over.
// c10d: Watchdog and HeartbeatMonitor of ProcessGroupNCCL.
type WatchdogOptions struct {
	// OnError says what becomes of devices and of the process when a group has failed.
	OnError ErrorMode
	// Exit ends the process in the modes that do; nil is os.Exit. Close waits for it.
	Exit func(code int)
	// BlockingWait makes Work.Wait block until an operation on a device is done or its time is over.
	BlockingWait Toggle
	// Propagate also puts the first error into the group's store, for ranks that no note reaches. Ranks look there, too.
	Propagate Toggle
	// Monitor looks after the watchdog, the progress engine, and a Close that hangs.
	Monitor Toggle
	// Heartbeat is how long they may show no sign of life before they count as stuck.
	Heartbeat time.Duration
	// CoordCheck is how often the monitor looks at the store and at the pipe that asks for dumps.
	CoordCheck time.Duration
}

// ErrorMode is what becomes of devices and of the process when a group has failed. In every mode the group itself ends with
// its first error, and its operations with it: invariant 5. c10d: ErrorHandlingMode.
type ErrorMode uint8

// The modes. The two that end the process are never taken unless the program or COLLIGO_ASYNC_ERROR_HANDLING asks for them.
// The numbers of that variable are in brackets.
const (
	CleanUp     ErrorMode = iota + 1 // (2, the default) end what is pending on devices; the process goes on
	NoHandling                       // (0) leave devices to their callers: nothing finds an operation late for which no caller waits
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
