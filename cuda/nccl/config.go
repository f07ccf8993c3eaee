package nccl

import (
	"fmt"
	"math"
	"unsafe"
)

// Config is how a communicator is made; the zero value leaves everything to the library. A field that the library is too old
// for is an error.
type Config struct {
	// NonBlocking has calls return before they are through, with InProgress; see Comm.Settle. Since 2.14.
	NonBlocking bool
	// CGAClusterSize, MinCTAs and MaxCTAs bound blocks of the library's kernels. Since 2.17.
	CGAClusterSize, MinCTAs, MaxCTAs int
	// NetName is the network, such as "Socket" or "IB". Since 2.17.
	NetName string
	// SplitShare has parts of a communicator share its resources. Since 2.18.
	SplitShare bool
	// TrafficClass is the network's. Since 2.26.
	TrafficClass int
	// CommName is a name for logs. Since 2.27.
	CommName string
	// CollnetEnable, ShrinkShare, CTAPolicy and NVLSCTAs are the library's fields of these names. Since 2.27.
	CollnetEnable, ShrinkShare bool
	CTAPolicy, NVLSCTAs        int
	// ChannelsPerNetPeer is how many channels of the network a pair of ranks has. Since 2.28.
	ChannelsPerNetPeer int
	// NVLinkCentricSched has the library order its work for NVLink. Since 2.28.
	NVLinkCentricSched bool
	// GraphUsage says which CUDA graphs will have the communicator's operations. Since 2.29.
	GraphUsage GraphUsage
	// RMAContexts is how many contexts one-sided operations have. Since 2.29.
	RMAContexts int
	// MaxP2PPeers is how many peers a rank exchanges messages with. Since 2.30.
	MaxP2PPeers int
	// GraphStreamOrdering has the library order operations that several graphs have captured. Off needs another GraphUsage than
	// GraphsMixed, which is the library's default. Since 2.30.
	GraphStreamOrdering Switch
}

// GraphUsage is which CUDA graphs have operations of a communicator.
type GraphUsage int

// The zero value leaves it to the library, which takes GraphsMixed.
const (
	GraphsNone  GraphUsage = iota + 1 // no graph
	GraphsOne                         // one graph, and nothing beside
	GraphsMixed                       // any number of graphs, and operations outside
)

// Switch is a choice that the zero value leaves to the library.
type Switch int

// The values of a Switch other than the library's own choice.
const (
	On  Switch = 1
	Off Switch = -1
)

// RawConfig has the layout of ncclConfig_t of NCCL 2.30. A library that has a shorter one takes its beginning.
type RawConfig struct {
	size                             uintptr
	magic, version                   uint32
	blocking, cga, minCTAs, maxCTAs  int32
	netName                          *byte
	splitShare, trafficClass         int32
	commName                         *byte
	collnet, policy, shrink, nvlsCTA int32
	perNetPeer, nvlinkCentric        int32
	graphUsage, rmaContexts          int32
	maxPeers, graphOrdering          int32
}

// Blocks reports whether calls return when they are through only.
func (r *RawConfig) Blocks() bool { return r == nil || r.blocking != 0 }

// configMagic and configSince are of every configuration. The others are marks of fields.
const (
	configMagic = 0xcafebeef
	undefined   = math.MinInt32
	configSince = 21400
	newest      = 23000 // the version whose layout RawConfig has
)

// Numbers of the library for values of a Config, by the value. The zero value leaves a field undefined.
var (
	graphNumbers  = map[int]int32{int(GraphsNone): 0, int(GraphsOne): 1, int(GraphsMixed): 2}
	switchNumbers = map[int]int32{int(On): 1, int(Off): 0}
)

// each visits the fields of both configurations by pairs, each pair with the first version that has it. It is the one list of them.
func (c *Config) each(r *RawConfig, v visitor) {
	v.number("cgaClusterSize", &r.cga, &c.CGAClusterSize, 21700)
	v.number("minCTAs", &r.minCTAs, &c.MinCTAs, 21700)
	v.number("maxCTAs", &r.maxCTAs, &c.MaxCTAs, 21700)
	v.text("netName", &r.netName, &c.NetName, 21700)
	v.flag("splitShare", &r.splitShare, &c.SplitShare, 21800)
	v.number("trafficClass", &r.trafficClass, &c.TrafficClass, 22600)
	v.text("commName", &r.commName, &c.CommName, 22700)
	v.flag("collnetEnable", &r.collnet, &c.CollnetEnable, 22700)
	v.number("CTAPolicy", &r.policy, &c.CTAPolicy, 22700)
	v.flag("shrinkShare", &r.shrink, &c.ShrinkShare, 22700)
	v.number("nvlsCTAs", &r.nvlsCTA, &c.NVLSCTAs, 22700)
	v.number("nChannelsPerNetPeer", &r.perNetPeer, &c.ChannelsPerNetPeer, 22800)
	v.flag("nvlinkCentricSched", &r.nvlinkCentric, &c.NVLinkCentricSched, 22800)
	v.choice("graphUsageMode", &r.graphUsage, (*int)(&c.GraphUsage), graphNumbers, 22900)
	v.number("numRmaCtx", &r.rmaContexts, &c.RMAContexts, 22900)
	v.number("maxP2pPeers", &r.maxPeers, &c.MaxP2PPeers, 23000)
	v.choice("graphStreamOrdering", &r.graphOrdering, (*int)(&c.GraphStreamOrdering), switchNumbers, 23000)
}

// visitor does something with each field of a RawConfig and the field of a Config that means the same.
type visitor interface {
	number(name string, raw *int32, v *int, since int)
	choice(name string, raw *int32, v *int, numbers map[int]int32, since int)
	flag(name string, raw *int32, v *bool, since int)
	text(name string, raw **byte, v *string, since int)
}

// raw returns a configuration as the library takes it, and refuses fields that it does not know. The strings are kept alive
// by the result.
func (c *Config) raw(l *Library) (*RawConfig, error) {
	r := &RawConfig{magic: configMagic, version: uint32(min(l.version, newest)), blocking: 1}
	f := writer{library: l, raw: r, size: unsafe.Sizeof(*r)}
	if f.need("blocking", c.NonBlocking, configSince) {
		r.blocking = 0
	}
	c.each(r, &f)
	r.size = f.size
	return r, f.err
}

// Config returns the fields that are set.
func (r *RawConfig) Config() Config {
	c := Config{NonBlocking: r.blocking == 0}
	c.each(r, reader{})
	return c
}

// writer sets the fields of a RawConfig. It keeps the error of the first one that the library is too old for. The size becomes that of
// the configuration that the library knows, which ends before the first field of a later version.
type writer struct {
	library *Library
	raw     *RawConfig
	size    uintptr
	err     error
}

// need reports whether a field is set. It is an error if the library has it from a later version on only.
func (f *writer) need(name string, set bool, since int) bool {
	l := f.library
	if set && l.version < since && f.err == nil {
		f.err = &TooOldError{Function: "ncclConfig_t." + name, Needs: since, Version: l.Version(), Path: l.Path}
	}
	return set
}

// knows has the configuration end before a field that the library does not have.
func (f *writer) knows(field unsafe.Pointer, since int) {
	if f.library.version < since {
		f.size = min(f.size, uintptr(field)-uintptr(unsafe.Pointer(f.raw)))
	}
}

func (f *writer) number(name string, raw *int32, v *int, since int) {
	f.set(name, raw, *v != 0, int32(*v), since)
}

func (f *writer) choice(name string, raw *int32, v *int, numbers map[int]int32, since int) {
	to, ok := numbers[*v]
	if *v != 0 && !ok && f.err == nil {
		f.err = fmt.Errorf("nccl: ncclConfig_t.%s has no value %d", name, *v)
	}
	f.set(name, raw, *v != 0, to, since)
}

func (f *writer) flag(name string, raw *int32, v *bool, since int) { f.set(name, raw, *v, 1, since) }

func (f *writer) set(name string, raw *int32, set bool, to int32, since int) {
	f.knows(unsafe.Pointer(raw), since)
	if *raw = undefined; f.need(name, set, since) {
		*raw = to
	}
}

func (f *writer) text(name string, raw **byte, v *string, since int) {
	f.knows(unsafe.Pointer(raw), since)
	if f.need(name, *v != "", since) {
		*raw = cString(*v)
	}
}

// reader sets the fields of a Config.
type reader struct{}

func (reader) number(_ string, raw *int32, v *int, _ int) {
	if *raw != undefined {
		*v = int(*raw)
	}
}

func (reader) choice(_ string, raw *int32, v *int, numbers map[int]int32, _ int) {
	for value, n := range numbers {
		if n == *raw {
			*v = value
		}
	}
}

func (reader) flag(_ string, raw *int32, v *bool, _ int) { *v = *raw == 1 }

func (reader) text(_ string, raw **byte, v *string, _ int) { *v = stringAt(*raw) }

// cString returns a string with a zero byte at its end.
func cString(s string) *byte {
	b := append([]byte(s), 0)
	return unsafe.SliceData(b)
}

// stringAt returns a string that ends with a zero byte. That of nil is empty.
func stringAt(b *byte) string {
	if b == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(b), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(b, n))
}
