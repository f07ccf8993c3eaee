package pg

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsFiles names the files of a TLS configuration, as the environment gives them.
type tlsFiles struct {
	cert, key, ca string
	name          string // that the certificates of all ranks have
}

// load makes a configuration for both halves of a rank, which dials some peers and is dialled by others. Each side must show a
// certificate of the authority. It is nil where no file is named.
func (f *tlsFiles) load() (*tls.Config, error) {
	if f.cert+f.key+f.ca == "" {
		return nil, nil
	}
	return f.read("COLLIGO_TLS_CERT", "COLLIGO_TLS_KEY", "COLLIGO_TLS_CA")
}

// read reads the files, whose variables have the given names.
func (f *tlsFiles) read(cert, key, ca string) (*tls.Config, error) {
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, fmt.Errorf("pg: TLS needs all of %s, %s and %s", cert, key, ca)
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("pg: %s and %s: %w", cert, key, err)
	}
	authority, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("pg: %s: %w", ca, err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("pg: %s: %s has no certificate", ca, f.ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: f.name, MinVersion: tls.VersionTLS13}, nil
}

// The variables by which PyTorch chooses the transport of Gloo.
const (
	glooTransport = "GLOO_DEVICE_TRANSPORT"
	glooCert      = "GLOO_DEVICE_TRANSPORT_TCP_TLS_CERT"
	glooKey       = "GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY"
	glooCA        = "GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_FILE"
)

// glooDevice is what these variables say. They count for groups over Gloo alone.
type glooDevice struct {
	transport string
	tlsFiles
}

// load makes the configuration of links in a job of PyTorch, nil where they are plain. As in Gloo a peer shows a certificate of the
// authority, and no side looks at the name in it.
func (d *glooDevice) load() (*tls.Config, error) {
	if d.transport != "TCP_TLS" {
		return nil, nil
	}
	c, err := d.read(glooCert, glooKey, glooCA)
	if err != nil {
		return nil, err
	}
	c.InsecureSkipVerify = true // of the name alone: VerifyConnection takes the check of the chain over
	c.VerifyConnection = func(state tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool(),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		for _, between := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(between)
		}
		_, err := state.PeerCertificates[0].Verify(opts)
		return err
	}
	return c, nil
}
