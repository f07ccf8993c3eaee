package nccl_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
)

// TestOldVersion has the errors of one old version word by word.
func TestOldVersion(t *testing.T) {
	devices := cudasim.New(cudasim.Config{Devices: 1})
	cudasim.Limit(t, devices)
	defer devices.Close()
	old, err := ncclsim.New(devices.Driver(), 21000).Library()
	require.NoError(t, err)
	require.Equal(t, "2.10.0", old.Version())
	_, err = old.NewComm(new(nccl.UniqueID), 0, 1, nccl.Config{NonBlocking: true})
	require.EqualError(t, err, "nccl: ncclConfig_t.blocking needs NCCL 2.14.0 or newer (NCCL version 2.10.0, simulated)\n"+
		"nccl: ncclCommInitRankConfig needs NCCL 2.14.0 or newer (NCCL version 2.10.0, simulated)")
	_, err = old.MemAlloc(64)
	require.EqualError(t, err, "nccl: ncclMemAlloc needs NCCL 2.19.0 or newer (NCCL version 2.10.0, simulated)")
	_, _, _, err = old.Reduced(colligo.Float8E5M2, colligo.KindSum)
	require.ErrorContains(t, err, "need NCCL 2.24.0 or newer")
	as, per := old.Moved(colligo.Float8E5M2)
	require.Equal(t, nccl.Uint8, as)
	require.Equal(t, 1, per)
	require.Equal(t, "2.4.8", nccl.FormatVersion(2408))
}

// versioned is a library of some version with a communicator of one rank on its only device.
type versioned struct {
	l   *nccl.Library
	c   *nccl.Comm
	sim *ncclsim.Sim
	at  cuda.Pointer
}

// functions are what a program calls, with the first version that has it, as a number of VersionCode.
var functions = []struct {
	name  string
	since int
	call  func(v *versioned) error
}{
	{"ncclAllReduce", 0, func(v *versioned) error {
		sum, err := v.c.Reduction(colligo.Float32, colligo.KindSum)
		return errors.Join(err, v.c.AllReduce(v.at, v.at, 4, sum, 0))
	}},
	{"ncclReduce", 0, func(v *versioned) error {
		sum, err := v.c.Reduction(colligo.Float32, colligo.KindSum)
		return errors.Join(err, v.c.Reduce(v.at, v.at, 4, sum, 0, 0))
	}},
	{"ncclReduceScatter", 0, func(v *versioned) error {
		sum, err := v.c.Reduction(colligo.Float32, colligo.KindSum)
		return errors.Join(err, v.c.ReduceScatter(v.at, v.at, 4, sum, 0))
	}},
	{"ncclAllGather", 0, func(v *versioned) error { return v.c.AllGather(v.at, v.at, 4, colligo.BFloat16, 0) }},
	{"ncclBroadcast", 0, func(v *versioned) error { return v.c.Broadcast(v.at, v.at+64, 4, colligo.Float8E4M3FN, 0, 0) }},
	{"ncclBcast", 0, func(v *versioned) error { return v.c.Broadcast(v.at, v.at, 4, colligo.Float32, 0, 0) }},
	{"ncclCommInitAll", 0, func(v *versioned) error {
		all, err := v.l.NewComms([]int{0})
		if err != nil {
			return err
		}
		return all[0].Close()
	}},
	{"ncclCommCuDevice", 0, func(v *versioned) error { _, err := v.c.Device(); return err }},
	{"ncclCommGetAsyncError", 0, func(v *versioned) error { return v.c.AsyncError() }},
	{"ncclSend", 20700, func(v *versioned) error { return v.message(true) }},
	{"ncclRecv", 20700, func(v *versioned) error { return v.message(false) }},
	{"ncclRedOpCreatePreMulSum", 21100, func(v *versioned) error {
		r, err := v.c.PremulSum(colligo.Float32, []byte{0, 0, 0x80, 0x3f})
		return errors.Join(err, v.c.AllReduce(v.at, v.at, 4, r, 0), r.Release())
	}},
	{"ncclCommInitRankConfig", 21400, func(v *versioned) error {
		c, err := v.l.NewComm(new(nccl.UniqueID), 0, 1, nccl.Config{NonBlocking: true})
		if err != nil {
			return err
		}
		return errors.Join(settled(c), c.Abort())
	}},
	{"ncclCommFinalize", 21400, func(v *versioned) error { return v.c.Finalize() }},
	{"ncclCommSplit", 21800, func(v *versioned) error {
		c, err := v.c.Split(3, 0, nccl.Config{})
		if err != nil {
			return err
		}
		return c.Close()
	}},
	{"ncclCommRegister", 21900, func(v *versioned) error {
		r, err := v.c.Register(v.at, 64)
		if err != nil {
			return err
		}
		return r.Close()
	}},
	{"ncclMemAlloc", 21900, func(v *versioned) error {
		at, err := v.l.MemAlloc(64)
		if err != nil {
			return err
		}
		return v.l.MemFree(at)
	}},
	{"ncclMemFree", 21900, func(v *versioned) error {
		var old *nccl.TooOldError
		if err := v.l.MemFree(3); errors.As(err, &old) { // that there is no such memory is another error
			return err
		}
		return nil
	}},
	{"ncclCommInitRankScalable", 22300, func(v *versioned) error {
		id, err := v.l.NewUniqueID()
		if err != nil {
			return err
		}
		c, err := v.l.NewCommScalable([]nccl.UniqueID{*id}, 0, 1, nccl.Config{})
		if err != nil {
			return err
		}
		return c.Close()
	}},
	{"ncclCommWindowRegister", 22700, func(v *versioned) error {
		r, err := v.c.RegisterWindow(v.at, 64, 0)
		if err != nil {
			return err
		}
		return r.Close()
	}},
	{"ncclCommShrink", 22700, func(v *versioned) error {
		all, err := v.l.NewComms([]int{0, 1})
		if err != nil {
			return err
		}
		part, err := all[0].Shrink([]int{1}, nccl.Config{}, nccl.ShrinkAbort)
		if err == nil && part.Size() != 1 {
			err = fmt.Errorf("%d ranks are left of two", part.Size())
		}
		return errors.Join(err, all[0].Abort(), all[1].Abort())
	}},
}

// message sends 4 elements to itself, or tries one half of that.
func (v *versioned) message(send bool) error {
	err := v.c.GroupStart()
	one, other := v.c.Send(v.at, 4, colligo.Float32, 0, 0), v.c.Recv(v.at+64, 4, colligo.Float32, 0, 0)
	if !send {
		one, other = other, one
	}
	return errors.Join(err, one, v.c.GroupEnd())
}

func settled(c *nccl.Comm) error {
	for {
		if d := c.Dump(); d["state"] != "in progress" {
			return c.AsyncError()
		}
		time.Sleep(time.Millisecond)
	}
}

// fields are the fields of a configuration, with the first version that has each.
var fields = []struct {
	name  string
	since int
	c     nccl.Config
}{
	{"blocking", 21400, nccl.Config{NonBlocking: true}},
	{"cgaClusterSize", 21700, nccl.Config{CGAClusterSize: 2}},
	{"minCTAs", 21700, nccl.Config{MinCTAs: 2}},
	{"maxCTAs", 21700, nccl.Config{MaxCTAs: 2}},
	{"netName", 21700, nccl.Config{NetName: "Socket"}},
	{"splitShare", 21800, nccl.Config{SplitShare: true}},
	{"trafficClass", 22600, nccl.Config{TrafficClass: 2}},
	{"commName", 22700, nccl.Config{CommName: "name"}},
	{"collnetEnable", 22700, nccl.Config{CollnetEnable: true}},
	{"CTAPolicy", 22700, nccl.Config{CTAPolicy: 1}},
	{"shrinkShare", 22700, nccl.Config{ShrinkShare: true}},
	{"nvlsCTAs", 22700, nccl.Config{NVLSCTAs: 2}},
	{"nChannelsPerNetPeer", 22800, nccl.Config{ChannelsPerNetPeer: 2}},
	{"nvlinkCentricSched", 22800, nccl.Config{NVLinkCentricSched: true}},
	{"graphUsageMode", 22900, nccl.Config{GraphUsage: nccl.GraphsNone}},
	{"graphUsageMode", 22900, nccl.Config{GraphUsage: nccl.GraphsMixed}},
	{"numRmaCtx", 22900, nccl.Config{RMAContexts: 2}},
	{"maxP2pPeers", 23000, nccl.Config{MaxP2PPeers: 2}},
	{"graphStreamOrdering", 23000, nccl.Config{GraphStreamOrdering: nccl.On}},
	{"graphStreamOrdering", 23000, nccl.Config{GraphStreamOrdering: nccl.Off}},
}

// TestVersions calls every function, and sets every field, with a library of each minor version.
func TestVersions(t *testing.T) {
	codes := []int{2408, 2507, 2604, 2708, 2804, 20909}
	for minor := 10; minor <= 31; minor++ {
		codes = append(codes, 20000+100*minor+3)
	}
	for _, code := range codes {
		t.Run(nccl.FormatVersion(code), func(t *testing.T) {
			devices := cudasim.New(cudasim.Config{Devices: 2})
			cudasim.Limit(t, devices)
			defer devices.Close()
			sim := ncclsim.New(devices.Driver(), code)
			l, err := sim.Library()
			require.NoError(t, err)
			d, err := devices.Driver().Device(0)
			require.NoError(t, err)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			on, err := d.Enter()
			require.NoError(t, err)
			defer on.Leave()
			at, err := on.Alloc(1 << 10)
			require.NoError(t, err)
			id, err := l.NewUniqueID()
			require.NoError(t, err)
			c, err := l.NewComm(id, 0, 1, nccl.Config{})
			require.NoError(t, err)
			v := &versioned{l: l, c: c, sim: sim, at: at}
			v.functions(t)
			v.fields(t)
			v.types(t)
			require.NoError(t, on.Synchronize(0))
			require.NoError(t, c.Close())
			require.NoError(t, sim.Close())
		})
	}
	_, err := ncclsim.New(nil, 2307).Library()
	require.EqualError(t, err, "nccl: NCCL 2.3.7 is older than 2.4.0 (simulated)")
}

func (v *versioned) functions(t *testing.T) {
	for _, f := range functions {
		err := f.call(v)
		if v.l.VersionCode() >= f.since {
			require.NoError(t, err, f.name)
			continue
		}
		var old *nccl.TooOldError
		require.ErrorAs(t, err, &old, f.name)
		require.Contains(t, err.Error(), fmt.Sprintf("nccl: %s needs NCCL %s or newer (NCCL version %s, simulated)", f.name,
			nccl.FormatVersion(f.since), v.l.Version()))
	}
	v.sim.Fail("ncclAllGather", nccl.SystemError)
	var e *nccl.Error
	require.ErrorAs(t, v.c.AllGather(v.at, v.at, 4, colligo.Int8, 0), &e)
	require.Equal(t, v.l.VersionCode() >= 21300, e.Last != "", "the last error")
}

func (v *versioned) fields(t *testing.T) {
	for _, f := range fields {
		id, err := v.l.NewUniqueID()
		require.NoError(t, err)
		c, err := v.l.NewComm(id, 0, 1, f.c)
		if v.l.VersionCode() < f.since {
			require.ErrorContains(t, err, fmt.Sprintf("ncclConfig_t.%s needs NCCL %s or newer", f.name, nccl.FormatVersion(f.since)))
			continue
		}
		require.NoError(t, err, f.name)
		require.NoError(t, settled(c))
		require.Equal(t, f.c, v.sim.Configs()[len(v.sim.Configs())-1], f.name)
		require.NoError(t, c.Close())
	}
}

func (v *versioned) types(t *testing.T) {
	for _, x := range []struct {
		d     colligo.DType
		k     colligo.OpKind
		since int
	}{
		{colligo.Float32, colligo.KindSum, 0}, {colligo.Int64, colligo.KindAvg, 21000}, {colligo.BFloat16, colligo.KindSum, 21000},
		{colligo.Float8E4M3FN, colligo.KindSum, 22400}, {colligo.Float8E5M2, colligo.KindMax, 22400},
	} {
		as, per, _, err := v.l.Reduced(x.d, x.k)
		if v.l.VersionCode() >= x.since {
			require.NoError(t, err)
			moved, times := v.l.Moved(x.d)
			require.Equal(t, [2]any{as, per}, [2]any{moved, times}, "what is reduced is moved as itself")
			continue
		}
		require.Error(t, err, "%v of %v", x.k, x.d)
		if x.k != colligo.KindAvg {
			moved, times := v.l.Moved(x.d)
			require.Equal(t, [2]any{nccl.Uint8, x.d.Size()}, [2]any{moved, times}, "bytes of what the library lacks")
		}
	}
}

// TestConfigChoices refuses numbers that are none of a field's values.
func TestConfigChoices(t *testing.T) {
	sim := ncclsim.New(nil, 23003)
	l, err := sim.Library()
	require.NoError(t, err)
	for text, c := range map[string]nccl.Config{
		"nccl: ncclConfig_t.graphUsageMode has no value 4":      {GraphUsage: nccl.GraphsMixed + 1},
		"nccl: ncclConfig_t.graphStreamOrdering has no value 2": {GraphStreamOrdering: 2},
	} {
		_, err := l.NewComm(new(nccl.UniqueID), 0, 1, c)
		require.EqualError(t, err, text)
	}
}
