package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/colligo-go/colligo/store/filestore"
)

// Two processes of one host, or of several that share a folder, meet in a file.
func Example() {
	dir, err := os.MkdirTemp("", "job")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "store")
	one, err := filestore.Open(ctx, path, filestore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := filestore.Open(ctx, path, filestore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(one.Set(ctx, "address", []byte("10.0.0.1")))
	address, err := two.Get(ctx, "address")
	fmt.Printf("%s %v\n", address, err)
	fmt.Println(errors.Join(one.Close(), two.Close()))
	// Output:
	// <nil>
	// 10.0.0.1 <nil>
	// <nil>
}
