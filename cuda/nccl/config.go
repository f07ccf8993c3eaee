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
	// TrafficClass is the network's. CommName is a name for logs. Since 2.27.
	TrafficClass int
	CommName     string
	// CollnetEnable, ShrinkShare, CTAPolicy and NVLSCTAs are the library's fields of these names. Since 2.27.
	CollnetEnable, ShrinkShare bool
	CTAPolicy, NVLSCTAs        int
}

// RawConfig has the layout of ncclConfig_t of NCCL 2.27. A library that has a shorter one takes its beginning.
type RawConfig struct {
	size                             uintptr
	magic, version                   uint32
	blocking, cga, minCTAs, maxCTAs  int32
	netName                          *byte
	splitShare, trafficClass         int32
	commName                         *byte
	collnet, policy, shrink, nvlsCTA int32
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
	return Config{NonBlocking: r.blocking == 0, CGAClusterSize: set(r.cga), MinCTAs: set(r.minCTAs), MaxCTAs: set(r.maxCTAs),
		NetName: stringAt(r.netName), SplitShare: set(r.splitShare) == 1, TrafficClass: set(r.trafficClass), CommName: stringAt(r.commName),
		CollnetEnable: set(r.collnet) == 1, ShrinkShare: set(r.shrink) == 1, CTAPolicy: set(r.policy), NVLSCTAs: set(r.nvlsCTA)}
}

const (
	configMagic = 0xcafebeef
	undefined   = math.MinInt32
	configSince = 21400
	newest      = 22700 // the version whose layout RawConfig has
)

// raw returns a configuration as the library takes it, and refuses fields that it does not know. The strings are kept alive
// by the result.
func (c *Config) raw(l *Library) (*RawConfig, error) {
	r := &RawConfig{size: l.configSize(), magic: configMagic, version: uint32(min(l.version, newest)), blocking: 1,
		cga: undefined, minCTAs: undefined, maxCTAs: undefined, splitShare: undefined, trafficClass: undefined,
		collnet: undefined, policy: undefined, shrink: undefined, nvlsCTA: undefined}
	var err error
	need := func(name string, set bool, version int) bool {
		if set && l.version < version && err == nil {
			err = &TooOldError{Function: "ncclConfig_t." + name, Needs: version, Version: l.Version(), Path: l.Path}
		}
		return set
	}
	number := func(name string, to *int32, v, version int) {
		if need(name, v != 0, version) {
			*to = int32(v)
		}
	}
	flag := func(name string, to *int32, v bool, version int) {
		if need(name, v, version) {
			*to = 1
		}
	}
	if need("blocking", c.NonBlocking, configSince) {
		r.blocking = 0
	}
	number("cgaClusterSize", &r.cga, c.CGAClusterSize, 21700)
	number("minCTAs", &r.minCTAs, c.MinCTAs, 21700)
	number("maxCTAs", &r.maxCTAs, c.MaxCTAs, 21700)
	if need("netName", c.NetName != "", 21700) {
		r.netName = cString(c.NetName)
	}
	flag("splitShare", &r.splitShare, c.SplitShare, 21800)
	number("trafficClass", &r.trafficClass, c.TrafficClass, newest)
	if need("commName", c.CommName != "", newest) {
		r.commName = cString(c.CommName)
	}
	flag("collnetEnable", &r.collnet, c.CollnetEnable, newest)
	number("CTAPolicy", &r.policy, c.CTAPolicy, newest)
	flag("shrinkShare", &r.shrink, c.ShrinkShare, newest)
	number("nvlsCTAs", &r.nvlsCTA, c.NVLSCTAs, newest)
	return r, err
}

// configSize returns how many bytes of RawConfig the library knows.
func (l *Library) configSize() uintptr {
	var r RawConfig
	switch {
	case l.version < 21700:
		return unsafe.Offsetof(r.cga)
	case l.version < 21800:
		return unsafe.Offsetof(r.splitShare)
	case l.version < newest:
		return unsafe.Offsetof(r.trafficClass)
	}
	return unsafe.Sizeof(r)
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
