package nccl

import (
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

// Config returns the fields that are set.
func (r *RawConfig) Config() Config {
	set := func(v int32) int {
		if v == undefined {
			return 0
		}
		return int(v)
	}
	c := Config{NonBlocking: r.blocking == 0, CGAClusterSize: set(r.cga), MinCTAs: set(r.minCTAs), MaxCTAs: set(r.maxCTAs),
		NetName: stringAt(r.netName), SplitShare: set(r.splitShare) == 1, TrafficClass: set(r.trafficClass), CommName: stringAt(r.commName),
		CollnetEnable: set(r.collnet) == 1, ShrinkShare: set(r.shrink) == 1, CTAPolicy: set(r.policy), NVLSCTAs: set(r.nvlsCTA),
		ChannelsPerNetPeer: set(r.perNetPeer), NVLinkCentricSched: set(r.nvlinkCentric) == 1, RMAContexts: set(r.rmaContexts),
		MaxP2PPeers: set(r.maxPeers)}
	if r.graphUsage != undefined {
		c.GraphUsage = GraphUsage(r.graphUsage + 1)
	}
	if r.graphOrdering != undefined {
		c.GraphStreamOrdering = Switch(2*r.graphOrdering - 1)
	}
	return c
}

const (
	configMagic = 0xcafebeef
	undefined   = math.MinInt32
	configSince = 21400
	newest      = 23000 // the version whose layout RawConfig has
)

// layouts are the ends of ncclConfig_t in RawConfig, by the version that is the first to have more.
var layouts = []struct {
	before int
	size   uintptr
}{
	{21700, unsafe.Offsetof(RawConfig{}.cga)},
	{21800, unsafe.Offsetof(RawConfig{}.splitShare)},
	{22600, unsafe.Offsetof(RawConfig{}.trafficClass)},
	{22700, unsafe.Offsetof(RawConfig{}.commName)},
	{22800, unsafe.Offsetof(RawConfig{}.perNetPeer)},
	{22900, unsafe.Offsetof(RawConfig{}.graphUsage)},
	{23000, unsafe.Offsetof(RawConfig{}.maxPeers)},
}

// raw returns a configuration as the library takes it, and refuses fields that it does not know. The strings are kept alive
// by the result.
func (c *Config) raw(l *Library) (*RawConfig, error) {
	r := &RawConfig{size: l.configSize(), magic: configMagic, version: uint32(min(l.version, newest)), blocking: 1}
	f := fields{library: l}
	if f.need("blocking", c.NonBlocking, configSince) {
		r.blocking = 0
	}
	f.number("cgaClusterSize", &r.cga, c.CGAClusterSize, 21700)
	f.number("minCTAs", &r.minCTAs, c.MinCTAs, 21700)
	f.number("maxCTAs", &r.maxCTAs, c.MaxCTAs, 21700)
	f.text("netName", &r.netName, c.NetName, 21700)
	f.flag("splitShare", &r.splitShare, c.SplitShare, 21800)
	f.number("trafficClass", &r.trafficClass, c.TrafficClass, 22600)
	f.text("commName", &r.commName, c.CommName, 22700)
	f.flag("collnetEnable", &r.collnet, c.CollnetEnable, 22700)
	f.number("CTAPolicy", &r.policy, c.CTAPolicy, 22700)
	f.flag("shrinkShare", &r.shrink, c.ShrinkShare, 22700)
	f.number("nvlsCTAs", &r.nvlsCTA, c.NVLSCTAs, 22700)
	f.number("nChannelsPerNetPeer", &r.perNetPeer, c.ChannelsPerNetPeer, 22800)
	f.flag("nvlinkCentricSched", &r.nvlinkCentric, c.NVLinkCentricSched, 22800)
	f.number("graphUsageMode", &r.graphUsage, int(c.GraphUsage), 22900)
	if c.GraphUsage != 0 {
		r.graphUsage-- // the library's numbers begin at 0
	}
	f.number("numRmaCtx", &r.rmaContexts, c.RMAContexts, 22900)
	f.number("maxP2pPeers", &r.maxPeers, c.MaxP2PPeers, 23000)
	f.number("graphStreamOrdering", &r.graphOrdering, int(c.GraphStreamOrdering), 23000)
	if c.GraphStreamOrdering == Off {
		r.graphOrdering = 0
	}
	return r, f.err
}

// fields sets fields of a RawConfig, and keeps the error of the first one that the library is too old for.
type fields struct {
	library *Library
	err     error
}

// need reports whether a field is set. It is an error if the library has it from a later version on only.
func (f *fields) need(name string, set bool, version int) bool {
	l := f.library
	if set && l.version < version && f.err == nil {
		f.err = &TooOldError{Function: "ncclConfig_t." + name, Needs: version, Version: l.Version(), Path: l.Path}
	}
	return set
}

func (f *fields) number(name string, to *int32, v, version int) {
	*to = undefined
	if f.need(name, v != 0, version) {
		*to = int32(v)
	}
}

func (f *fields) flag(name string, to *int32, v bool, version int) {
	*to = undefined
	if f.need(name, v, version) {
		*to = 1
	}
}

func (f *fields) text(name string, to **byte, v string, version int) {
	if f.need(name, v != "", version) {
		*to = cString(v)
	}
}

// configSize returns how many bytes of RawConfig the library knows.
func (l *Library) configSize() uintptr {
	for _, x := range layouts {
		if l.version < x.before {
			return x.size
		}
	}
	return unsafe.Sizeof(RawConfig{})
}

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
