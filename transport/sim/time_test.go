package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// traced runs a script on five ranks that send frames round a ring on three lanes, and returns all that happened.
func traced(t *testing.T, c sim.Config) (trace []string) {
	const size = 5
	c.Size = size
	c.Trace = func(e sim.Event) { trace = append(trace, e.String()) }
	synctest.Test(t, func(t *testing.T) {
		n := start(t, c)
		var wg sync.WaitGroup
		for rank, m := range n.meshes {
			for range rank % 3 {
				time.Sleep(time.Nanosecond) // ranks begin at times of their own
			}
			wg.Go(func() {
				n.log.add("%d: %v", rank, ring(m, rank, size))
				n.log.add("%d: %v", rank, m.Notify((rank+2)%size, []byte("done")))
			})
		}
		wg.Wait()
		time.Sleep(second)
		script := n.Script()
		trace = append(trace, strings.Split(script, "\n")...)
		trace = append(trace, n.log.take())
	})
	return trace
}

// ring sends to the next rank and receives from the one before.
func ring(m transport.Mesh, rank, size int) error {
	const lanes, frames = 3, 20
	var flows []transporttest.Flow
	for lane := range lanes {
		out, in := stream(rank, (rank+1)%size, lane, frames), stream((rank+size-1)%size, rank, lane, frames)
		flows = append(flows, out.Sender(m, transporttest.Mixed), in.Receiver(m, transporttest.Mixed))
	}
	return transporttest.Drive(m, second, flows...)
}

// The same seed and script give the same trace, another seed gives another.
func TestDeterminism(t *testing.T) {
	script, err := sim.ParseFaults(`
		# a rank is slow, two sides part for a while, a frame breaks, a rank stops and dies
		0s    slow 3 2.5
		3ms   partition 0,1 2,3,4
		9ms   heal
		11ms  corrupt 2 3 1 15
		12ms  pause 4
		14ms  resume 4
		15ms  delay 1ms 2ms
		20ms  killafter 1 5`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []sim.Config{
		{Seed: 1, MaxDelay: 2 * time.Millisecond, Reorder: true, Faults: script},
		{Seed: 1, MinDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, Faults: script},
		{Seed: 1, MaxDelay: 2 * time.Millisecond, Reorder: true},
		{Seed: 1, Faults: script[4:]},
	} {
		first := traced(t, c)
		if len(first) < 50 {
			t.Fatalf("a trace of %d lines: %q", len(first), first)
		}
		for range 5 {
			if again := traced(t, c); !slices.Equal(first, again) {
				t.Fatalf("%+v: two runs differ: %s", c, difference(first, again))
			}
		}
		if c.Seed++; c.MaxDelay > 0 && slices.Equal(first, traced(t, c)) {
			t.Errorf("seeds %d and %d give the same trace", c.Seed-1, c.Seed)
		}
	}
}

// The faults that Script returns, given to a new network, give the same trace.
func TestReplay(t *testing.T) {
	script := "2ms partition 0,2\n5ms heal\n7ms slowlink 1 2 3\n9ms kill 0\n"
	faults, err := sim.ParseFaults(script)
	if err != nil {
		t.Fatal(err)
	}
	c := sim.Config{Seed: 3, MaxDelay: time.Millisecond, Reorder: true, Faults: faults}
	first := traced(t, c)
	text := strings.Join(first, "\n")
	if !strings.Contains(text, script) {
		t.Fatalf("the script does not print as it was given:\n%s", text)
	}
	for _, want := range []string{"2ms fault partition 0,2", "lost group 7, 0>-1: peer lost", "note group 7, 2>4 #0, 4 bytes",
		"frame group 7, 4>0 lane 2 #0, 1000 bytes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace has no %q", want)
		}
	}
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %q and %q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

// arrivals sends one frame on each of four lanes at once, twenty times. It returns how long each was on its way, in the
// order in which they came, and their lanes.
func arrivals(t *testing.T, c sim.Config, prepare func(n *net)) (took []time.Duration, lanes []int) {
	c.Size = 2
	synctest.Test(t, func(t *testing.T) {
		var begin time.Duration
		begun := time.Now()
		c.Trace = func(e sim.Event) {
			if e.What == "frame" {
				took, lanes = append(took, e.At-begin), append(lanes, e.Frame.Lane)
			}
		}
		n := start(t, c)
		prepare(n)
		for range 20 {
			begin = time.Since(begun)
			for lane := range 4 {
				n.send(t, stream(0, 1, lane, 1))
			}
			for lane := range 4 {
				n.expect(t, stream(0, 1, lane, 1), 1, nil)
			}
		}
	})
	return took, lanes
}

func TestDelay(t *testing.T) {
	const least, most = 2 * time.Millisecond, 8 * time.Millisecond
	none := func(*net) {}
	cases := []struct {
		name        string
		config      sim.Config
		prepare     func(n *net)
		least, most time.Duration
		reordered   bool
	}{
		{"none", sim.Config{}, none, 1, 1, false},
		{"fixed", sim.Config{MinDelay: least}, none, least, least, false},
		{"link", sim.Config{Seed: 4, MinDelay: least, MaxDelay: most}, none, least, most, false},
		{"reorder", sim.Config{Seed: 4, MinDelay: least, MaxDelay: most, Reorder: true}, none, least, most, true},
		{"set", sim.Config{}, func(n *net) { n.SetDelay(least, 0) }, least, least, false},
		{"slow", sim.Config{MinDelay: least}, func(n *net) { n.Slow(1, 3) }, 3 * least, 3 * least, false},
		{"slow without delay", sim.Config{}, func(n *net) { n.Slow(0, 2) }, 2 * time.Microsecond, 2 * time.Microsecond, false},
		{"slow link", sim.Config{MinDelay: least}, func(n *net) { n.SlowLink(0, 1, 5); n.SlowLink(1, 0, 7) }, 5 * least, 5 * least, false},
		{"slow no more", sim.Config{MinDelay: least}, func(n *net) { n.Slow(1, 3); n.Slow(1, 1) }, least, least, false},
		{"func", sim.Config{Delay: func(f sim.Frame) time.Duration { return least * time.Duration(4-f.Lane) }}, none, least, 4 * least, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			took, lanes := arrivals(t, c.config, c.prepare)
			if len(took) != 80 {
				t.Fatalf("%d frames came", len(took))
			}
			if first, last := slices.Min(took), slices.Max(took); first < c.least || last > c.most {
				t.Errorf("frames took %v to %v, want %v to %v", first, last, c.least, c.most)
			}
			if inOrder := slices.Equal(lanes, slices.Repeat([]int{0, 1, 2, 3}, 20)); inOrder == c.reordered {
				t.Errorf("lanes came in the order %v", lanes)
			}
		})
	}
}

// A delay that grows shorter does not let a frame pass the one before it on its lane.
func TestShorterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, sim.Config{Size: 2, MinDelay: 500 * time.Millisecond})
		s := stream(0, 1, 0, 6)
		out := s.Sender(n.meshes[0], transporttest.Plain)
		for i, d := range []time.Duration{500 * time.Millisecond, time.Millisecond, 0} {
			n.SetDelay(d, d)
			out.Count = 2 * (i + 1)
			if err := transporttest.Drive(n.meshes[0], second, out); err != nil {
				t.Fatal(err)
			}
		}
		n.expect(t, s, 6, nil)
	})
}

// misuse returns the panic of a network with a fault.
func misuse(do string) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	sim.New(sim.Config{Size: 2, Faults: []sim.Fault{{Do: do}}})
	return ""
}

// Misuse of faults panics and says what is wrong.
func TestFaultMisuse(t *testing.T) {
	for do, want := range map[string]string{
		"kill 9":            "rank 9 of 2",
		"kill":              "a word is missing",
		"kill 1 2":          `["2"] is too much`,
		"explode":           "no such verb",
		"":                  "no such verb",
		"slow 1 0":          "factor 0",
		"slow 1 NaN":        "factor NaN",
		"delay -1s 1s":      "delay -1s",
		"partition 0,x":     `parsing "x"`,
		"corrupt 0 1 -1 -1": `parsing "-1"`,
	} {
		if got := misuse(do); !strings.Contains(got, want) || !strings.HasPrefix(got, "sim: ") {
			t.Errorf("fault %q: panic %q, want %q", do, got, want)
		}
	}
	if _, err := sim.ParseFaults("5ms kill 1\nsoon kill 2"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a script without a time: %v", err)
	}
}
