package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is something that goes wrong at a time since the network began. Do is a line of a script without the time:
//
//	delay MIN MAX          SetDelay
//	kill RANK              Kill
//	killafter RANK FRAMES  KillAfter
//	pause RANK             Pause
//	resume RANK            Resume
//	partition 0,1 2,3      Partition, sides separated by spaces
//	heal                   Heal
//	sever 0,1 2,3          Sever
//	slow RANK FACTOR       Slow
//	slowlink SRC DST FACTOR        SlowLink
//	corrupt SRC DST LANE FRAME     Corrupt
type Fault struct {
	At time.Duration
	Do string
}

// String returns the fault as a line of a script, such as "5ms kill 3".
func (f Fault) String() string { return fmt.Sprintf("%v %s", f.At, f.Do) }

// ParseFaults reads a script: one fault on a line, empty lines and those that begin with # apart. New checks what the
// faults do.
func ParseFaults(script string) ([]Fault, error) {
	var list []Fault
	for i, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at, do, _ := strings.Cut(line, " ")
		d, err := time.ParseDuration(at)
		if err != nil {
			return nil, fmt.Errorf("sim: script line %d: %w", i+1, err)
		}
		list = append(list, Fault{At: d, Do: strings.TrimSpace(do)})
	}
	return list, nil
}

// Script returns the faults done so far, one on a line, to be given to ParseFaults for the same again.
func (n *Net) Script() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, f := range n.done {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// args reads the words of a fault one after another and keeps the first error.
type args struct {
	words []string
	size  int
	err   error
}

func (a *args) word() string {
	if len(a.words) == 0 {
		if a.err == nil {
			a.err = fmt.Errorf("a word is missing")
		}
		return "0"
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *args) check(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *args) count() uint64 {
	x, err := strconv.ParseUint(a.word(), 10, 64)
	a.check(err)
	return x
}

func (a *args) rank() int {
	r, err := strconv.Atoi(a.word())
	if a.check(err); err == nil && (r < 0 || r >= a.size) {
		a.check(fmt.Errorf("rank %d of %d", r, a.size))
	}
	return r
}

func (a *args) factor() float64 {
	x, err := strconv.ParseFloat(a.word(), 64)
	if a.check(err); err == nil && !(x > 0 && x <= 1e9) {
		a.check(fmt.Errorf("factor %v, allowed are those over 0 up to 1e9", x))
	}
	return x
}

func (a *args) duration() time.Duration {
	d, err := time.ParseDuration(a.word())
	if a.check(err); err == nil && d < 0 {
		a.check(fmt.Errorf("delay %v", d))
	}
	return d
}

// sides reads the rest: for each rank that is named the number of its side, from 1.
func (a *args) sides() map[int]int {
	side := map[int]int{}
	for i := 1; len(a.words) > 0; i++ {
		ranks := args{words: strings.Split(a.word(), ","), size: a.size}
		for len(ranks.words) > 0 {
			side[ranks.rank()] = i
		}
		a.check(ranks.err)
	}
	return side
}

// parse returns what does a fault, with n.mu held.
func (n *Net) parse(f Fault) (func(), error) {
	name, rest, _ := strings.Cut(f.Do, " ")
	a := &args{words: strings.Fields(rest), size: n.config.Size}
	do := n.verb(name, a)
	if do == nil {
		return nil, fmt.Errorf("sim: fault %q: no such verb", f)
	}
	if a.err == nil && len(a.words) > 0 {
		a.err = fmt.Errorf("%q is too much", a.words)
	}
	if a.err != nil {
		return nil, fmt.Errorf("sim: fault %q: %w", f, a.err)
	}
	return do, nil
}

// verb returns what a verb with its arguments does, nil if there is no such verb.
func (n *Net) verb(name string, a *args) func() {
	switch name {
	case "delay":
		least, most := a.duration(), a.duration()
		return func() { n.config.MinDelay, n.config.MaxDelay = least, max(least, most) }
	case "kill":
		rank := a.rank()
		return func() { n.kill(rank) }
	case "killafter":
		rank, frames := a.rank(), a.count()
		return func() { n.dieAfter(rank, frames) }
	case "pause":
		rank := a.rank()
		return func() { n.paused[rank] = true }
	case "resume":
		rank := a.rank()
		return func() { delete(n.paused, rank) }
	case "partition":
		side := a.sides()
		return func() { n.sides = side }
	case "heal":
		return func() { n.sides = nil }
	case "sever":
		side := a.sides()
		return func() { n.sever(side) }
	case "slow":
		rank, factor := a.rank(), a.factor()
		return func() { setFactor(n.slow, rank, factor) }
	case "slowlink":
		p, factor := pair{a.rank(), a.rank()}, a.factor()
		return func() { setFactor(n.slowLink, p, factor) }
	case "corrupt":
		s := spot{pair{a.rank(), a.rank()}, int(a.count()), a.count()}
		return func() { n.corrupt[s] = true }
	}
	return nil
}
