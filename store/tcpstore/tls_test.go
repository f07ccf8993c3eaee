package tcpstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/journal"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

// certificate makes a self-signed one for the loopback addresses, and the pool that trusts it.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s := serve(t, ServerOptions{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
		return dial(t, s, ClientOptions{TLS: &tls.Config{RootCAs: pool}})
	})
}

// TestTLSMismatch: an untrusted server is refused at once, and plain and TLS sides do not talk to each other.
func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t)
	var log journal.Journal
	secure := serve(t, ServerOptions{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Logger: log.Log()})
	plain := serve(t, ServerOptions{Logger: log.Log()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Dial(ctx, secure.Addr().String(), ClientOptions{TLS: &tls.Config{}})
	require.ErrorContains(t, err, "tls handshake: tls: failed to verify certificate")
	const says = "perhaps TLS where this server speaks plain TCP"
	for limit := time.Second; limit < time.Minute/2 && !strings.Contains(log.String(), says); limit *= 5 { // a busy machine may need more of it
		_, err = Dial(ctx, secure.Addr().String(), ClientOptions{ConnectTimeout: limit})
		require.Error(t, err)
		_, err = Dial(ctx, plain.Addr().String(), ClientOptions{ConnectTimeout: limit, TLS: &tls.Config{RootCAs: pool}})
		require.Error(t, err)
	}
	require.Contains(t, log.String(), "connection dropped in the TLS handshake")
	require.Contains(t, log.String(), says)
}
