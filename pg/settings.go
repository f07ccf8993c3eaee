package pg

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/tuning"
)

// Toggle is a switch that a program may leave to the environment. No twin: PyTorch has variables alone.
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

// Setting is one environment variable. Its own name comes before its aliases, which are PyTorch's. No twin in c10d.
type Setting struct {
	Name    string
	Aliases []string
	Kind    string // "bool", "int", "seconds", "milliseconds", "text", or the words that it may be
	Default string // empty: see Meaning
	Meaning string
}

// String prints the setting on one line.
func (s Setting) String() string {
	names := strings.Join(append([]string{s.Name}, s.Aliases...), ", ")
	if s.Kind == "" {
		return fmt.Sprintf("%s: %s", names, s.Meaning)
	}
	return fmt.Sprintf("%s (%s, default %q): %s", names, s.Kind, s.Default, s.Meaning)
}

// Settings returns every variable that Init reads besides those of launchers. A field of Config that the program has set
// comes before its variable. A value that cannot be read is an error of Init.
//
// At the end come variables of PyTorch and NCCL that Init does not read, without a kind. Nor does it read any that are not
// listed. No twin: PyTorch's documentation lists its variables.
func Settings() []Setting {
	all := make([]Setting, len(variables))
	for i := range variables {
		all[i] = variables[i].Setting
	}
	return all
}

// setting is a line of the table: what is documented, and what it does. A default is read like a value.
type setting struct {
	Setting
	given func(c *Config) bool // the program has set it
	apply func(c *Config, name, value string) error
}

// ofTorch returns the aliases TORCH_NCCL_X and NCCL_X, the older one last.
func ofTorch(x string) []string { return []string{"TORCH_NCCL_" + x, "NCCL_" + x} }

// variables is the one list of variables.
var variables = []setting{
	seconds("COLLIGO_TIMEOUT_SEC", nil, "1800", "limit of one operation, from when it can begin to its end; if neither it nor the program says, 600 on devices",
		func(c *Config) *time.Duration { return &c.Timeout }),
	seconds("COLLIGO_CONNECT_TIMEOUT_SEC", nil, "300", "limit of reaching the store and of all ranks finding and linking one another",
		func(c *Config) *time.Duration { return &c.ConnectTimeout }),
	switched("COLLIGO_BLOCKING_WAIT", ofTorch("BLOCKING_WAIT"), "0", "Work.Wait holds the caller until an operation on a device is done, and no longer than its timeout",
		func(c *Config) *Toggle { return &c.Watchdog.BlockingWait }),
	{Setting{"COLLIGO_ASYNC_ERROR_HANDLING", ofTorch("ASYNC_ERROR_HANDLING"), "0 1 2 3", "2",
		"when a group has failed: 0 leave devices to who waits, 1 clean up and end the process, 2 clean up, 3 end the process at once; " +
			"of the aliases 1 and 3 count as 2, for torchrun sets 1 for every process, and no process ends unasked"},
		func(c *Config) bool { return c.Watchdog.OnError != 0 }, applyErrorMode},
	switched("COLLIGO_PROPAGATE_ERROR", []string{"TORCH_NCCL_PROPAGATE_ERROR"}, "0", "put the first error into the group's store, and look for others' there",
		func(c *Config) *Toggle { return &c.Watchdog.Propagate }),
	switched("COLLIGO_NAN_CHECK", []string{"TORCH_NCCL_NAN_CHECK"}, "0", "refuse inputs that hold a NaN",
		func(c *Config) *Toggle { return &c.Debug.NaNCheck }),
	{Setting{"COLLIGO_DEBUG", []string{"TORCH_DISTRIBUTED_DEBUG"}, "OFF INFO DETAIL", "OFF",
		"INFO logs each group as it forms, on its rank 0: size, hosts, media, interface, table; DETAIL also compares what all ranks call before each collective, " +
			"and turns COLLIGO_DESYNC_DEBUG on"},
		func(c *Config) bool { return c.Debug.Level != 0 }, applyDebug},
	switched("COLLIGO_INIT_BARRIER", []string{"TORCH_DIST_INIT_BARRIER"}, "0",
		"groups that have formed meet once more through the store; those of their own links they always do",
		func(c *Config) *Toggle { return &c.InitBarrier }),
	switched("COLLIGO_CLOSE_BARRIER", nil, "0", "Close waits for all ranks, and finds a rank that has left a collective out or died",
		func(c *Config) *Toggle { return &c.CloseBarrier }),
	switched("COLLIGO_DESYNC_DEBUG", ofTorch("DESYNC_DEBUG"), "0", "on a timeout log where every rank is",
		func(c *Config) *Toggle { return &c.Debug.Desync }),
	switched("COLLIGO_ENABLE_MONITORING", []string{"TORCH_NCCL_ENABLE_MONITORING"}, "1", "watch the watchdog and whoever drives a group",
		func(c *Config) *Toggle { return &c.Watchdog.Monitor }),
	{Setting{"COLLIGO_HEARTBEAT_TIMEOUT_SEC", []string{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"}, "seconds", "480",
		"how long these may show no sign of life; 0 is as long as they like"},
		func(c *Config) bool { return c.Watchdog.Heartbeat != 0 }, applyHeartbeat},
	millis("COLLIGO_COORD_CHECK_MILSEC", []string{"TORCH_NCCL_COORD_CHECK_MILSEC"}, "1000", "how often the dump pipe and the store are looked at",
		func(c *Config) *time.Duration { return &c.Watchdog.CoordCheck }),
	{Setting{"COLLIGO_FR_BUFFER_SIZE", []string{"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, "int", strconv.Itoa(flight.DefaultCapacity),
		"operations that the flight recorder keeps; 0 turns it off"},
		func(c *Config) bool { return c.Recorder.Entries != 0 }, applyEntries},
	switched("COLLIGO_ENABLE_TIMING", ofTorch("ENABLE_TIMING"), "0", "the flight recorder measures durations on devices",
		func(c *Config) *Toggle { return &c.Recorder.Timing }),
	switched("COLLIGO_DUMP_ON_TIMEOUT", []string{"TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"}, "1", "dump the flight recorder when a group fails",
		func(c *Config) *Toggle { return &c.Recorder.DumpOnError }),
	switched("COLLIGO_EXTRA_DUMP_ON_EXEC", []string{"TORCH_NCCL_EXTRA_DUMP_ON_EXEC"}, "0", "dump it also when the program ends a group by Abort",
		func(c *Config) *Toggle { return &c.Recorder.DumpOnAbort }),
	millis("COLLIGO_WAIT_TIMEOUT_DUMP_MILSEC", []string{"TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}, "15000", "how long a dump may take",
		func(c *Config) *time.Duration { return &c.Recorder.DumpLimit }),
	path("COLLIGO_FR_DUMP_TEMP_FILE", dumpAliases(), "beginning of a dump's path, the rank follows; by default colligo/trace_rank_ in XDG_CACHE_HOME or in .cache of HOME",
		func(c *Config) *string { return &c.Recorder.DumpFile }),
	switched("COLLIGO_FR_DUMP_DYNAMIC_FILE_NAME", []string{"TORCH_FR_DUMP_DYNAMIC_FILE_NAME"}, "0", "read that variable again at each dump",
		func(c *Config) *Toggle { return &c.Recorder.DumpFileAnew }),
	path("COLLIGO_DEBUG_INFO_PIPE_FILE", []string{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"}, "beginning of the path of a named pipe, rank and .pipe follow: whatever is written to it asks for a dump",
		func(c *Config) *string { return &c.Recorder.DumpPipe }),
	switched("COLLIGO_INCLUDE_STACK_TRACE", []string{"TORCH_INCLUDE_STACK_TRACE"}, "1", "dumps say from where operations were called",
		func(c *Config) *Toggle { return &c.Recorder.DumpStacks }),
	switched("COLLIGO_INCLUDE_ONLY_ACTIVE", []string{"TORCH_INCLUDE_ONLY_ACTIVE"}, "0", "dumps leave out what is done",
		func(c *Config) *Toggle { return &c.Recorder.DumpOnlyActive }),
	{Setting{"COLLIGO_TUNING", nil, "text", "", "path of a table by which algorithms are picked on the CPU, as bench -tune -out writes it; the same table on all ranks"},
		func(c *Config) bool { return c.Tuning != nil }, applyTuning},
	{Setting{"COLLIGO_ALGORITHM", nil, "text", "", "algorithms on the CPU that come before any table, as in all_reduce:ring,broadcast:chain; the same on all ranks"},
		func(c *Config) bool { return c.Algo != nil }, applyAlgorithm},
	{Setting{"COLLIGO_TRANSPORT", nil, "auto shm tcp", "auto", "medium between ranks; auto is shm if all are on one Linux host, else tcp"},
		func(c *Config) bool { return c.Transport != "" || c.Open != nil }, applyTransport},
	text("COLLIGO_INTERFACE", "name or address of the network interface for tcp; by default the one that reaches the store", func(c *Config) *string { return &c.Interface }),
	text("COLLIGO_COMPRESSION", "s2 or zstd compresses between hosts; by default nothing does", func(c *Config) *string { return &c.Compression }),
	tlsFile("COLLIGO_TLS_CERT", "", "path of this rank's certificate; with the next two it encrypts tcp and the store, and lets in who has a certificate of the authority alone", func(f *tlsFiles) *string { return &f.cert }),
	tlsFile("COLLIGO_TLS_KEY", "", "path of the certificate's key", func(f *tlsFiles) *string { return &f.key }),
	tlsFile("COLLIGO_TLS_CA", "", "path of the certificate of the job's authority", func(f *tlsFiles) *string { return &f.ca }),
	tlsFile("COLLIGO_TLS_NAME", "job", "name that the certificates of all ranks have", func(f *tlsFiles) *string { return &f.name }),
	{Setting{glooTransport, nil, "TCP TCP_TLS", "TCP", "of groups with the backend gloo: TCP_TLS encrypts the links between ranks, but not the store; it needs the next three, and counts where neither " +
		"Config.TLS nor the files before are set"}, func(c *Config) bool { return c.TLS != nil }, applyGlooTransport},
	glooFile(glooKey, "path of the key of this rank's certificate", func(f *tlsFiles) *string { return &f.key }),
	glooFile(glooCert, "path of this rank's certificate", func(f *tlsFiles) *string { return &f.cert }),
	glooFile(glooCA, "path of the certificate of the job's authority", func(f *tlsFiles) *string { return &f.ca }),

	without("TORCH_NCCL_HIGH_PRIORITY", "streams belong to backends, and their priority to the backend's options"),
	without("TORCH_NCCL_RETHROW_CUDA_ERRORS", "errors of a device are always the group's"),
	without("TORCH_NCCL_CUDA_EVENT_CACHE", "events are always reused"),
	without("TORCH_NCCL_AVOID_RECORD_STREAMS", "an operation keeps its tensors alive"),
	without("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "there is no allocator to hook into"),
	without("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "there is no C++ stack"),
	without("TORCH_FR_CPP_STACK", "there is no C++ stack"),
	without("TORCH_NCCL_TRACE_CPP_STACK", "the older name of TORCH_FR_CPP_STACK"),
	without("TORCH_NCCL_USE_COMM_NONBLOCKING", "where NCCL carries operations, nccl.With says by Config.NonBlocking whether its calls return before they are through"),
	without("TORCH_NCCL_NONBLOCKING_TIMEOUT", "NCCL's calls that return early are awaited no longer than an operation may take, by Config.Timeout or Options.Timeout of nccl.With"),
	unread("NCCL_DEBUG", "where NCCL carries operations, its library reads this and all of its other variables; COLLIGO_DEBUG and Config.Log say what is logged here"),
	unread("NCCL_DEBUG_FILE", "as NCCL_DEBUG; Config.Log says where logs go that are written here"),
	without("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "there is no such warning; by NCCL, messages of a group that is bound to a device "+
		"wait for its collectives where other ranks are PyTorch's, else they have communicators of their own"),
}

// settle takes what the program has left open from the environment, and else from the table's defaults.
func (c *Config) settle(env bootstrap.Lookup) error {
	c.Recorder.env = env
	desync := c.Debug.Desync
	if v, ok := env("COLLIGO_TIMEOUT_SEC"); c.Timeout == 0 && (!ok || v == "") {
		c.onDevices = DefaultDeviceTimeout
	}
	for name, d := range map[string]time.Duration{"Watchdog.Heartbeat": c.Watchdog.Heartbeat, "Watchdog.CoordCheck": c.Watchdog.CoordCheck,
		"Recorder.DumpLimit": c.Recorder.DumpLimit} {
		if d < 0 {
			return fmt.Errorf("pg: %s is %v", name, d)
		}
	}
	if c.Watchdog.OnError > SkipCleanUp || c.Debug.Level > DebugDetail {
		return fmt.Errorf("pg: Watchdog.OnError is %d and Debug.Level %d, which are not among the constants", c.Watchdog.OnError, c.Debug.Level)
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
	if c.Debug.Level == DebugDetail && desync == 0 {
		c.Debug.Desync = On
	}
	if c.TLS != nil {
		return nil
	}
	var err error
	c.TLS, err = c.tlsFiles.load()
	return err
}

func dumpAliases() []string {
	return []string{"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
}

func without(name, why string) setting {
	return setting{Setting: Setting{Name: name, Meaning: "no meaning here: " + why}}
}

// unread is a variable that Init does not read, and another library does.
func unread(name, by string) setting {
	return setting{Setting: Setting{Name: name, Meaning: "not read here: " + by}}
}

var (
	errBool   = errors.New("want y, yes, 1, t or true, or n, no, 0, f or false")
	errNumber = errors.New("want a whole number above 0")
)

func switched(name string, aliases []string, def, meaning string, field func(*Config) *Toggle) setting {
	return setting{Setting{name, aliases, "bool", def, meaning}, func(c *Config) bool { return *field(c) != 0 },
		func(c *Config, _, value string) (err error) {
			*field(c), err = parseToggle(value)
			return err
		}}
}

func parseToggle(value string) (Toggle, error) {
	switch strings.ToLower(value) {
	case "y", "yes", "1", "t", "true":
		return On, nil
	case "n", "no", "0", "f", "false":
		return Off, nil
	}
	return 0, errBool
}

func seconds(name string, aliases []string, def, meaning string, field func(*Config) *time.Duration) setting {
	return limit(name, aliases, "seconds", def, meaning, time.Second, field)
}

func millis(name string, aliases []string, def, meaning string, field func(*Config) *time.Duration) setting {
	return limit(name, aliases, "milliseconds", def, meaning, time.Millisecond, field)
}

func limit(name string, aliases []string, kind, def, meaning string, unit time.Duration, field func(*Config) *time.Duration) setting {
	return setting{Setting{name, aliases, kind, def, meaning}, func(c *Config) bool { return *field(c) != 0 },
		func(c *Config, _, value string) error {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 || n > math.MaxInt64/int64(unit) {
				return fmt.Errorf("%w of %s", errNumber, kind)
			}
			*field(c) = time.Duration(n) * unit
			return nil
		}}
}

func path(name string, aliases []string, meaning string, field func(*Config) *string) setting {
	return setting{Setting{name, aliases, "text", "", meaning}, func(c *Config) bool { return *field(c) != "" },
		func(c *Config, _, value string) error {
			*field(c) = value
			return nil
		}}
}

func text(name, meaning string, field func(*Config) *string) setting {
	return path(name, nil, meaning, field)
}

func tlsFile(name, def, meaning string, field func(*tlsFiles) *string) setting {
	return setting{Setting{name, nil, "text", def, meaning}, func(c *Config) bool { return c.TLS != nil },
		func(c *Config, _, value string) error {
			*field(&c.tlsFiles) = value
			return nil
		}}
}

func glooFile(name, meaning string, field func(*tlsFiles) *string) setting {
	return setting{Setting{name, nil, "text", "", meaning}, func(c *Config) bool { return c.TLS != nil },
		func(c *Config, _, value string) error {
			*field(&c.gloo.tlsFiles) = value
			return nil
		}}
}

func applyGlooTransport(c *Config, _, value string) error {
	c.gloo.transport = value
	return nil // another value matters to a group over Gloo alone
}

func applyTransport(c *Config, _, value string) error {
	switch value {
	case "auto", "shm", "tcp":
		c.Transport = value
		return nil
	}
	return errors.New("want auto, shm or tcp")
}

// applyHeartbeat takes 0 for no limit, as PyTorch's tests give it.
func applyHeartbeat(c *Config, _, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(time.Second) {
		return errors.New("want a whole number of seconds from 0")
	}
	if c.Watchdog.Heartbeat = time.Duration(n) * time.Second; n == 0 {
		c.Watchdog.Heartbeat = math.MaxInt64
	}
	return nil
}

func applyErrorMode(c *Config, name, value string) error {
	modes := map[string]ErrorMode{"0": NoHandling, "1": TearDown, "2": CleanUp, "3": SkipCleanUp}
	m, ok := modes[value]
	if !ok {
		return errors.New("want 0, 1, 2 or 3")
	}
	if m.ends() && name != "COLLIGO_ASYNC_ERROR_HANDLING" {
		m = CleanUp
	}
	c.Watchdog.OnError = m
	return nil
}

func applyDebug(c *Config, _, value string) error {
	for l := DebugOff; l <= DebugDetail; l++ {
		if strings.EqualFold(value, l.String()) {
			c.Debug.Level = l
			return nil
		}
	}
	return errors.New("want OFF, INFO or DETAIL")
}

func applyTuning(c *Config, _, value string) error {
	if value == "" {
		return nil
	}
	text, err := os.ReadFile(value)
	if err == nil {
		c.Tuning, err = tuning.Parse(string(text))
	}
	return err
}

func applyAlgorithm(c *Config, _, value string) (err error) {
	if value != "" {
		c.Algo, err = tuning.ParseAlgorithms(value)
	}
	return err
}

func applyEntries(c *Config, _, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxEntries {
		return fmt.Errorf("want a whole number from 0 to %d", maxEntries)
	}
	if c.Recorder.Entries = n; n == 0 {
		c.Recorder.Entries = -1
	}
	return nil
}

// maxEntries bounds the memory of the flight recorder.
const maxEntries = 1 << 24
