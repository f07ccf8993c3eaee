package cudasim_test

import "github.com/colligo-go/colligo/cuda/cudasim"

// lines has a receiver cleared four lines, read them back or not, and ask for the next ones.
func lines(c *scene, back bool) {
	sentinel, data := [16]byte{1, 2, 3}, make([]byte, 64)
	c.run(c.u, "take", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint32(3) {
			l.Clear(a.B, 4, sentinel)
			if back {
				l.AwaitClear(a.B, 4)
			}
			l.StoreVolatile32(a.C, i+1)
			l.Poll(func() bool { return l.LoadSentinel(a.B, data, sentinel) })
		}
	})
	c.run(c.s, "put", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint32(3) {
			l.Poll(func() bool { return l.LoadVolatile32(a.C) == i+1 })
			l.StoreSentinel(a.B, make([]byte, 63))
		}
	})
}

// copiedSentinel has two copies, one after the other, bring lines to a receiver. The receiver clears them before each copy, and at last
// writes to the memory that they came from. With read it also reads data that came with them.
func copiedSentinel(c *scene, read bool) {
	sentinel, data := [16]byte{1, 2, 3}, make([]byte, 64)
	c.set(c.s, c.a)
	c.sync(c.s)
	c.run(c.u, "take", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint32(2) {
			l.Clear(a.B, 4, sentinel)
			l.StoreRelease32(a.C, i+1)
			l.Poll(func() bool { return l.LoadSentinel(a.B, data, sentinel) })
		}
		if read {
			l.Load(a.B+1024, 64)
		}
		l.Store(a.A, 64)
	})
	for i := range uint32(2) {
		c.wait32(c.s, c.flags, i+1)
		c.copy(c.s, c.b+1024, c.a+1024, 64)
		c.copy(c.s, c.b, c.a, 64)
	}
}
