package tcpstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo/store/tcpstore"
)

// One process serves the store, others dial it. Each adds one to a counter and gets a number of its own.
func Example() {
	server, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 2 {
		c, err := tcpstore.Dial(ctx, server.Addr().String(), tcpstore.ClientOptions{})
		if err != nil {
			fmt.Println(err)
			break
		}
		number, err := c.Add(ctx, "arrived", 1)
		fmt.Println(number, errors.Join(err, c.Close()))
	}
	fmt.Println(server.Close())
	// Output:
	// 1 <nil>
	// 2 <nil>
	// <nil>
}
