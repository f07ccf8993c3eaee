package pg_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// certificates writes a key and a certificate for this host that is its own authority, and returns their folder.
func certificates(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}

// TestWire runs groups over every kind of wire that Config offers.
func TestWire(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]config{
		"plain":                   {},
		"s2":                      {Compression: "s2"},
		"zstd":                    {Compression: "zstd"},
		"checksum":                {Checksum: true},
		"zstd and checksum":       {Compression: "zstd", Checksum: true},
		"tls":                     {Certificates: "make"},
		"tls, s2 and checksum":    {Certificates: "make", Compression: "s2", Checksum: true},
		"shared memory, checksum": {Transport: "shm", Checksum: true},
		"an interface":            {Interface: "lo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.Transport == "" {
				c.Transport = "tcp"
			}
			needs(t, c.Transport)
			if c.Interface != "" {
				needs(t, "shm") // the loopback interface of Linux
			}
			if c.Certificates != "" {
				c.Certificates = certificates(t)
			}
			for _, p := range launch(t, 4, order{Role: "check", Config: c}, nil).procs {
				p.succeeds()
			}
		})
	}
}

// TestTLSIsTLS looks at what goes over the store's port, and keeps out who does not speak TLS or has no certificate.
func TestTLSIsTLS(t *testing.T) {
	t.Parallel()
	c := config{Transport: "tcp", Certificates: certificates(t)}
	j := launch(t, 2, order{Role: "late", Config: c}, nil)
	j.all("init")
	conn, err := tls.Dial("tcp", j.meets, &tls.Config{InsecureSkipVerify: true})
	if err == nil { // with TLS 1.3 the server's refusal comes with the first read
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	require.Error(t, err, "without a certificate")
	_, err = tcpstore.Dial(t.Context(), j.meets, tcpstore.ClientOptions{ConnectTimeout: 300 * time.Millisecond})
	require.Error(t, err, "without TLS")
	for _, p := range j.procs {
		p.say("go")
	}
	for _, p := range j.procs {
		require.Empty(t, p.next("done").Err)
	}
	for _, p := range j.procs {
		p.ends()
	}
}

// TestWiresDiffer has ranks configured differently: all are told what is different.
func TestWiresDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		odd  config
		says [2]string // by rank
	}{
		"compression": {config{Transport: "tcp", Compression: "zstd"},
			[2]string{"rank 1: has compression zstd, here it is off", "rank 0: has compression off, here it is zstd"}},
		"checksum": {config{Transport: "tcp", Checksum: true},
			[2]string{"rank 1: has checksums on, here they are off", "rank 0: has checksums off, here they are on"}},
		"transport": {config{Transport: "auto"}, [2]string{"wants transport auto, this rank tcp", "wants transport tcp, this rank auto"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meets := "tcp://" + freeport.Address(t, "127.0.0.1")
			j := launch(t, 2, order{Role: "check", Config: config{Transport: "tcp", Init: meets}}, func(rank int, o *order) {
				if rank == 1 {
					o.Config = c.odd
					o.Config.Init, o.Config.Rank, o.Config.Size = meets, 1, 2
				}
			})
			for rank, p := range j.procs {
				require.Contains(t, p.refused(), c.says[rank])
			}
		})
	}
}
