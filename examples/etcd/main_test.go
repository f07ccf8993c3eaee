package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

// gateway is as much of etcd as the store uses.
type gateway struct {
	mu   sync.Mutex
	keys map[string][]byte
}

// message is any request.
type message struct {
	Key, Value []byte
	RangeEnd   []byte `json:"range_end"`
	Compare    []struct {
		Key, Value []byte
		Target     string
	}
	Success []struct{ RequestPut struct{ Key, Value []byte } }
}

func (s *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply := fields{"header": fields{"revision": "7"}} // etcd leaves out what is zero
	switch path.Base(r.URL.Path) {
	case "range":
		if all := s.within(m); len(all) > 0 {
			reply["kvs"] = all
		}
	case "put":
		s.keys[string(m.Key)] = m.Value
	case "deleterange":
		if _, there := s.keys[string(m.Key)]; there {
			reply["deleted"] = strconv.Itoa(1)
		}
		delete(s.keys, string(m.Key))
	case "txn":
		c, put := m.Compare[0], m.Success[0].RequestPut
		cur, there := s.keys[string(c.Key)]
		if c.Target == "VERSION" && !there || c.Target == "VALUE" && there && bytes.Equal(cur, c.Value) {
			s.keys[string(put.Key)] = put.Value
			reply["succeeded"] = true
		}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// within returns one key, or those of a range.
func (s *gateway) within(m message) (all []fields) {
	for key, val := range s.keys {
		k := []byte(key)
		if bytes.Equal(k, m.Key) || m.RangeEnd != nil && bytes.Compare(k, m.Key) >= 0 && bytes.Compare(k, m.RangeEnd) < 0 {
			all = append(all, fields{"key": k, "value": val})
		}
	}
	return all
}

func serve(t *testing.T) (address string) {
	server := httptest.NewServer(&gateway{keys: map[string][]byte{"other job//k": []byte("not ours")}})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

// TestStore puts the five methods through the suite that every store passes.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s := store.NewDerived(&etcd{address: serve(t), prefix: "job/"})
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	})
}

// TestRun has two ranks meet.
func TestRun(t *testing.T) {
	address := serve(t)
	var ranks sync.WaitGroup
	var outs [2]bytes.Buffer
	var errs [2]error
	for rank := range outs {
		ranks.Go(func() {
			errs[rank] = run(t.Context(), &etcd{address: address, prefix: "job/"}, rank, len(outs), &outs[rank])
		})
	}
	ranks.Wait()
	for rank := range outs {
		require.NoError(t, errs[rank])
		require.Equal(t, "rank "+strconv.Itoa(rank)+" of 2: sum [3]\n", outs[rank].String())
	}
}

// TestNobodyServes says which call failed, and why.
func TestNobodyServes(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	s := store.NewDerived(&etcd{address: server.URL, prefix: "job/"})
	defer s.Close()
	_, err := s.Get(t.Context(), "k")
	require.EqualError(t, err, `store: get "k": etcd: range: 404 Not Found`)
}
