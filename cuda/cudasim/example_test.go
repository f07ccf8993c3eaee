package cudasim_test

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// A kernel fills a buffer on one stream while another stream copies it away: nothing orders the two.
func Example() {
	sim := cudasim.New(cudasim.Config{Seed: 1})
	defer sim.Close()
	type fill struct{ At, Bytes uint64 }
	sim.Register("fill", unsafe.Sizeof(fill{}), func(l *cudasim.Launch) {
		a := cudasim.Args[fill](l)
		copy(l.Store(a.At, int(a.Bytes)), "colligo")
	})
	device, err := sim.Driver().Device(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := device.Enter()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Leave()
	from, _ := t.Alloc(8)
	to, _ := t.Alloc(8)
	one, _ := t.NewStream(0)
	two, _ := t.NewStream(0)
	module, _ := t.LoadModule("example", cudasim.Image("fill"))
	f, _ := t.Function(module, "fill")
	fmt.Println(t.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, unsafe.Pointer(&fill{uint64(from), 8}), one))
	fmt.Println(t.Copy(to, from, 8, two))
	sim.Drain()
	for _, r := range sim.Races() {
		fmt.Println(r.Bytes, "bytes,", r.First.Write || r.Second.Write)
	}
	// Output:
	// <nil>
	// <nil>
	// 8 bytes, true
}
