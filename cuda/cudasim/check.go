package cudasim

// Drain runs all enqueued operations of all processes to their end, or to a deadlock, which is a fault.
func (s *Sim) Drain() {
	s.lock()
	defer s.unlock()
	for _, p := range s.processes {
		if !p.dead {
			s.wait(p, "Drain waits for all streams", p.idle)
		}
	}
}

func (p *Process) idle() bool {
	for _, x := range p.contexts {
		if x.busy() {
			return false
		}
	}
	return true
}

// TB is the part of testing.TB that Check needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check ends a test: it drains and closes the Sim and fails the test for every race, fault and leak.
func Check(t TB, s *Sim) {
	t.Helper()
	s.Drain()
	for _, r := range s.Races() {
		t.Errorf("seed %d: %v", s.config.Seed, r)
	}
	for _, f := range s.Faults() {
		t.Errorf("seed %d: %s", s.config.Seed, f)
	}
	for _, l := range s.Leaks() {
		t.Errorf("seed %d: not given back: %s", s.config.Seed, l)
	}
	s.Close()
}
