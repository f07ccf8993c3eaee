package cudasim_test

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// A test of a program for GPUs runs it on simulated devices: slices go to a device and back.
func ExampleNew() {
	sim := cudasim.New(cudasim.Config{Devices: 2})
	defer sim.Close()
	err := sim.Driver().OnDevice(1, func(t cuda.Thread, s cuda.Stream) error {
		x, err := cuda.ArrayOf(t, []float32{1, 2, 3}, s)
		if err != nil {
			return err
		}
		back := make([]float32, 3)
		err = errors.Join(x.Write(t, []float32{7}, s), x.Read(t, back, s))
		fmt.Println(back, "of", x.Tensor().Device())
		return errors.Join(err, x.Free(t))
	})
	fmt.Println(err)
	// Output:
	// [7 2 3] of cuda:1
	// <nil>
}
