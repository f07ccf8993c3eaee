package main

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestRun trains, and reads the pages of each rank meanwhile.
func TestRun(t *testing.T) {
	pgtest.RunWith(t, 2, pgtest.Options{RealTime: true}, func(t *testing.T, g *pg.Group) {
		address := freeport.Address(t, "127.0.0.1")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		page := func(name string) string {
			answer, err := client.Get("http://" + address + "/debug/colligo/" + name)
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, http.StatusOK, answer.StatusCode)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			return string(text)
		}
		require.NoError(t, run(t.Context(), g, address, func() error {
			err := train(t.Context(), g, 3, 0)
			require.Contains(t, page("metrics"), `operation="ALLREDUCE",result="done"} 3`)
			require.Contains(t, page(""), `<a href="waiting">`)
			require.Contains(t, page("waiting"), "last completed #3")
			return err
		}))
	})
}

// TestPortTaken says so before any work is done.
func TestPortTaken(t *testing.T) {
	pgtest.RunWith(t, 1, pgtest.Options{RealTime: true}, func(t *testing.T, g *pg.Group) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		require.ErrorContains(t, run(t.Context(), g, l.Addr().String(), func() error { panic("not reached") }), l.Addr().String())
	})
}
