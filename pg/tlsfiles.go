package pg

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, errors.New("pg: TLS needs all of COLLIGO_TLS_CERT, COLLIGO_TLS_KEY and COLLIGO_TLS_CA")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("pg: COLLIGO_TLS_CERT and COLLIGO_TLS_KEY: %w", err)
	}
	authority, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("pg: COLLIGO_TLS_CA: %w", err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("pg: COLLIGO_TLS_CA: %s has no certificate", f.ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: f.name, MinVersion: tls.VersionTLS13}, nil
}
