package cudasim_test

import "github.com/colligo-go/colligo/cuda/cudasim"

// lines has a receiver blank four lines, read them back or not, and ask for the next ones.
func lines(c *scene, back bool) {
	blank, data := [16]byte{1, 2, 3}, make([]byte, 64)
	c.run(c.u, "take", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint32(3) {
			l.Blank(a.B, 4, blank)
			if back {
				l.Blanked(a.B, 4)
			}
			l.StoreVolatile32(a.C, i+1)
			l.Poll(func() bool { return l.LoadLines(a.B, data, blank) })
		}
	})
	c.run(c.s, "put", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint32(3) {
			l.Poll(func() bool { return l.LoadVolatile32(a.C) == i+1 })
			l.StoreLines(a.B, make([]byte, 63))
		}
	})
}
