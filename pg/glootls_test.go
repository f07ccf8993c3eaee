package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
)

// tlsOfGloo is the environment of a rank that shows the certificate of a folder and trusts that of another.
func tlsOfGloo(own, trusts string) map[string]string {
	return map[string]string{glooTransport: "TCP_TLS", glooCert: filepath.Join(own, "cert.pem"), glooKey: filepath.Join(own, "key.pem"),
		glooCA: filepath.Join(trusts, "cert.pem")}
}

// glooOverTLS sums over ranks that have an environment each. The configuration comes as Init makes it.
func glooOverTLS(t *testing.T, version string, vars ...map[string]string) error {
	t.Helper()
	s := store.NewHash()
	errs := make([]error, len(vars))
	var all sync.WaitGroup
	for rank := range vars {
		all.Go(func() {
			c := Config{Backends: "gloo", Torch: version, Store: s, Rank: rank, Size: len(vars), Interface: "127.0.0.1", Timeout: 20 * time.Second,
				ConnectTimeout: 5 * time.Second, Recorder: RecorderOptions{DumpOnError: Off}}
			errs[rank] = sumOverTLS(c, vars[rank])
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func sumOverTLS(c Config, vars map[string]string) error {
	err := c.settle(from(vars))
	if err == nil {
		c, err = c.withDefaults() // as Init does
	}
	if err != nil {
		return err
	}
	g, err := Init(context.Background(), c)
	if err != nil {
		return err
	}
	if secured := g.config.TLS != nil; secured != (vars[glooTransport] == "TCP_TLS") {
		return fmt.Errorf("links with TLS: %v", secured)
	}
	const n = 300_000 // more than one record of TLS
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(c.Rank + i%5)
	}
	err = g.AllReduce(context.Background(), colligo.Of(v), colligo.Sum)
	for i, x := range v {
		if want := float32(c.Size*(c.Size-1)/2 + c.Size*(i%5)); err == nil && x != want {
			err = fmt.Errorf("element %d is %v, want %v", i, x, want)
		}
	}
	return errors.Join(err, g.Barrier(context.Background()), g.Close())
}

// TestGlooTLS links ranks by PyTorch's variables for TLS, in both dialects of rendezvous. The name in the certificates is not the
// host's, which Gloo does not look at.
func TestGlooTLS(t *testing.T) {
	own := Certificates(t)
	for _, version := range []string{"1.13", "2.6"} {
		require.NoError(t, glooOverTLS(t, version, tlsOfGloo(own, own), tlsOfGloo(own, own), tlsOfGloo(own, own)), version)
	}
}

// TestGlooTLSRefused lets in neither a rank with the certificate of another authority, nor one without TLS.
func TestGlooTLSRefused(t *testing.T) {
	t.Parallel()
	own, other := Certificates(t), Certificates(t)
	for name, stranger := range map[string]map[string]string{
		"another authority": tlsOfGloo(other, own), "trusts another authority": tlsOfGloo(own, other), "plain": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, glooOverTLS(t, "2.6", tlsOfGloo(own, own), stranger))
		})
	}
}

// TestGlooTLSMisuse names the variable at fault. The program's configuration and the library's own variables come before PyTorch's.
func TestGlooTLSMisuse(t *testing.T) {
	own := Certificates(t)
	with := func(key, value string) map[string]string {
		vars := maps.Clone(tlsOfGloo(own, own))
		vars[key] = value
		return vars
	}
	settled := func(c Config, vars map[string]string) (Config, error) {
		err := c.settle(from(vars))
		if err == nil {
			c, err = c.withDefaults()
		}
		return c, err
	}
	for says, vars := range map[string]map[string]string{
		"TLS needs all of " + glooCert + ", " + glooKey + " and " + glooCA: with(glooCA, ""),
		glooCert + " and " + glooKey + ": open ":                           with(glooKey, "/none/key.pem"),
		glooCA + ": " + filepath.Join(own, "key.pem"):                      with(glooCA, filepath.Join(own, "key.pem")),
		glooTransport + ` is "UV": want TCP or TCP_TLS`:                    with(glooTransport, "UV"),
	} {
		_, err := settled(Config{Backends: "gloo"}, vars)
		require.ErrorContains(t, err, says)
	}
	for name, c := range map[string]struct {
		config Config
		vars   map[string]string
		want   bool
	}{
		"plain":        {Config{Backends: "gloo"}, with(glooTransport, "TCP"), false},
		"another wire": {Config{}, with(glooTransport, "TCP_TLS"), false},
		"no library":   {Config{}, with(glooTransport, "UV"), false},
		"TLS":          {Config{Backends: "gloo"}, with(glooTransport, "TCP_TLS"), true},
	} {
		got, err := settled(c.config, c.vars)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.TLS != nil, name)
	}
	got, err := settled(Config{Backends: "gloo", TLS: &tls.Config{ServerName: "own"}}, tlsOfGloo(own, own))
	require.NoError(t, err)
	require.Equal(t, "own", got.TLS.ServerName)
}
