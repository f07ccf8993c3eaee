package pg

import (
	"os"
	"time"

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
