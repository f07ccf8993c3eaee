package store_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo/store"
)

// table is a store of one's own: the five methods of store.Core over a map. Another would ask a server.
type table struct {
	mu   sync.Mutex
	vals map[string][]byte
}

func (s *table) Load(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	val, there := s.vals[key]
	return bytes.Clone(val), there, nil
}

func (s *table) Store(_ context.Context, key string, val []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vals[key] = bytes.Clone(val)
	return nil
}

func (s *table) CompareAndSwap(_ context.Context, key string, old, val []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, there := s.vals[key]
	if there != (old != nil) || !bytes.Equal(cur, old) {
		return false, nil
	}
	s.vals[key] = bytes.Clone(val)
	return true, nil
}

func (s *table) Delete(_ context.Context, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.vals[key]
	delete(s.vals, key)
	return there, nil
}

func (s *table) Keys(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.vals)), nil
}

// A store of one's own has five methods, none of which waits. The rest of a Store is derived: here Get waits for another rank.
func ExampleCore() {
	ctx := context.Background()
	var own store.Core = &table{vals: map[string][]byte{}}
	s := store.NewDerived(own)
	defer s.Close()
	s.SetTimeout(10 * time.Second)
	go func() {
		if err := s.Set(ctx, "address", []byte("10.0.0.1")); err != nil {
			fmt.Println(err)
		}
	}()
	address, err := s.Get(ctx, "address")
	fmt.Printf("%s %v\n", address, err)
	for range 3 {
		if _, err := s.Add(ctx, "arrived", 1); err != nil {
			fmt.Println(err)
		}
	}
	arrived, err := s.Get(ctx, "arrived")
	fmt.Printf("%s %v\n", arrived, err)
	// Output:
	// 10.0.0.1 <nil>
	// 3 <nil>
}
