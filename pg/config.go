package pg

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// The limits where Config leaves them zero.
const (
	DefaultTimeout        = 30 * time.Minute // of one operation on the CPU
	DefaultDeviceTimeout  = 10 * time.Minute // of one operation on a device. c10d: default_pg_nccl_timeout
	DefaultConnectTimeout = 5 * time.Minute
	DefaultStoreTimeout   = 5 * time.Minute
)

// DefaultMaxObject is the limit where Config leaves MaxObject zero.
const DefaultMaxObject = 1 << 30

// Config says how to form a group. The zero value takes everything from the environment. Groups made from a group take the
// configuration over, but for the fields of GroupOptions. c10d: the arguments of init_process_group and its variables.
type Config struct {
	// Init tells where the ranks meet: "env://" (also when empty), "tcp://host:port", or "file:///path". The queries
	// rank and world_size of a URL, and then Rank and Size, come before the environment.
	Init string
	// Store, if set, is where the ranks meet; then Init is not used, and Rank and Size count. The caller closes it, after
	// all groups. When these are closed on all ranks nothing of them is left in it, and it can be used again.
	Store store.Store
	// Rank is this process's number and Size that of all. With Size 0 both come from Init and the environment.
	Rank, Size int
	// Name tells groups in one store apart; the default is "0".
	Name string

	// The limits. When a limit has passed, a call takes up to a second more to name the ranks that are missing. It does so also if the
	// store does not answer.
	Timeout        time.Duration // one operation on any device, from when it can begin to its end
	ConnectTimeout time.Duration // all ranks finding and linking one another
	StoreTimeout   time.Duration // one call of the store

	// Transport is "shm", "tcp", or "auto" (also when empty): shm if all ranks are on one Linux host, else tcp.
	Transport   string
	Interface   string      // tcp: name or address of the network interface; empty: the one that reaches the store. Gloo: a list with commas
	TLS         *tls.Config // tcp and the TCP store: encrypt
	Compression string      // tcp: "", "s2" or "zstd"
	Checksum    bool        // guard every payload with a CRC-32C
	// Open, if set, makes the mesh in place of Transport. Tests open sim meshes with it.
	Open func(ctx context.Context, c *transport.Config) (transport.Mesh, error)

	Desc string // of the default group, for people; empty is "default_pg"
	// Backends names what carries out the operations on each kind of device: "cpu:host,cuda:peer", or one name for every
	// kind that has it. Empty takes what RegisterBackend registered. Other groups take it over.
	//
	// "gloo" makes this rank one of a job of PyTorch with that backend, on the CPU alone: see docs/gloo.md. Nothing of Transport,
	// Compression, Checksum and Open is used then, and TLS encrypts the links but not the store. "nccl" with Torch makes it one with
	// that backend, on a device alone: see docs/nccl.md. "cpu:gloo,cuda:nccl" has both.
	Backends string
	// Torch is the version of PyTorch that the other ranks run, such as "2.6". Empty is "2.11" where Backends has gloo, and else says
	// that all ranks are colligo's. It must be right for what differs between versions.
	Torch string
	// Device binds the group to one device, unless it is the CPU. The group then takes tensors on that device and on the CPU
	// alone. Its backend is opened when the group forms instead of at first use. Other groups take it over. c10d: device_id.
	Device colligo.Device
	// InitBarrier makes groups meet once more, through the store, when they have formed; then no rank goes on before all
	// hold their handle.
	InitBarrier Toggle
	// CloseBarrier makes Close wait until all ranks close the group, no longer than Timeout, and compare which collective they
	// have called last. If a rank has left one out, or has died, Close fails on all ranks. If the group has failed, Close does not
	// wait and returns why.
	CloseBarrier Toggle

	// MaxObject is the most bytes that one call of pg/object or pg/sparse takes for what other ranks announce; 0 means
	// DefaultMaxObject.
	MaxObject int64
	// ObjectDevice is where objects travel, if not on the CPU; object.OnDevice says it for single calls. Its backend must be a
	// Stager. Groups with ranks of PyTorch that have no other backend than NCCL take their own device. Other groups take it over.
	ObjectDevice colligo.Device

	Algo   map[string]string // collective to planner, before the table; see tuning.Algorithms. Nil takes that of COLLIGO_ALGORITHM
	Tuning []tuning.Rule     // table by which planners are picked, the same on all ranks; nil takes that of COLLIGO_TUNING, or tuning.Default
	Log    *slog.Logger      // nil logs warnings and errors through slog.Default

	Recorder RecorderOptions // what is recorded of operations, and when and where it is dumped
	Watchdog WatchdogOptions // when a group counts as stuck, and what becomes of the process when one has failed
	Debug    DebugOptions    // what is checked to find mistakes

	onDevices time.Duration // limit of an operation on a device; 0: Timeout
	tlsFiles  tlsFiles      // of the environment, where TLS is nil
	gloo      glooDevice    // of the environment, where TLS is nil
}

// withDefaults fills what was left zero and refuses what cannot be.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"Timeout", &c.Timeout, DefaultTimeout}, {"ConnectTimeout", &c.ConnectTimeout, DefaultConnectTimeout},
		{"StoreTimeout", &c.StoreTimeout, DefaultStoreTimeout}} {
		if *d.value < 0 {
			return c, fmt.Errorf("pg: %s is %v", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	switch c.Transport {
	case "":
		c.Transport = "auto"
	case "auto", "shm", "tcp":
	default:
		return c, fmt.Errorf("pg: transport %q, there are auto, shm and tcp", c.Transport)
	}
	switch c.Compression {
	case "", "s2", "zstd":
	default:
		return c, fmt.Errorf("pg: compression %q, there are s2 and zstd", c.Compression)
	}
	if c.MaxObject < 0 {
		return c, fmt.Errorf("pg: MaxObject is %d", c.MaxObject)
	}
	if c.Name == "" {
		c.Name = "0"
	}
	if c.Log == nil {
		c.Log = defaultLog(c.Debug.Level)
	}
	if c.Tuning == nil {
		c.Tuning = tuning.Default()
	}
	if err := c.settleTorch(); err != nil {
		return c, err
	}
	var err error
	if c.Tuning, err = tuning.Prefer(c.Algo, c.Tuning); err != nil {
		err = fmt.Errorf("pg: %w", err)
	}
	return c, err
}

// backends reads what a configuration says of backends, and refuses a device that none of them is for.
func (c *Config) backends() (backend.Selection, error) {
	names, err := backend.ParseSelection(c.Backends)
	if err == nil && c.Device.Kind != colligo.CPU && names.Of(c.Device.Kind) == "" {
		err = fmt.Errorf("bound to %v, for which there is no backend: %s", c.Device, backend.Linked())
	}
	return c.withoutHost(names), err
}
