package cuda_test

import (
	"fmt"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// A slice goes to a device and back. With cuda.OnDevice in place of the simulator's driver it is a GPU.
func ExampleDriver_OnDevice() {
	driver := cudasim.New(cudasim.Config{}).Driver()
	err := driver.OnDevice(0, func(t cuda.Thread, s cuda.Stream) error {
		x, err := cuda.ArrayOf(t, []int32{1, 2, 3}, s)
		if err != nil {
			return err
		}
		back := make([]int32, x.Len())
		if err := x.Read(t, back, s); err != nil {
			return err
		}
		fmt.Println(t.Place(), back)
		return x.Free(t)
	})
	fmt.Println(err)
	// Output:
	// cuda:0 [1 2 3]
	// <nil>
}
