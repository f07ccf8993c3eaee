package pickle_test

import (
	"fmt"

	"github.com/colligo-go/colligo/pg/pickle"
)

func Example() {
	b, err := pickle.Marshal(map[string]any{"loss": 0.25, "step": 7})
	if err != nil {
		panic(err)
	}
	v, err := pickle.Unmarshal(b)
	if err != nil {
		panic(err)
	}
	for key, value := range v.(*pickle.Dict).All() {
		fmt.Println(key, value)
	}
	// Output:
	// loss 0.25
	// step 7
}
